"""The frame of a saved state's file: what an engine wrote, a record of it, its length, a checksum and a mark.

A file that is damaged or not whole is told from a good one before any of it is used. Knows no engine.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import psutil

from runtime.errors import UserError
from runtime.places import put_in_place, shown_path
from runtime.text import _

_PART = re.compile(r"\.(?P<pid>\d+)\.part$")
_MARK = b"QuernKV1"
_DIGEST_BYTES = 16
_TAIL_BYTES = 8 + _DIGEST_BYTES + len(_MARK)  # the record's length, the checksum, the mark
_CHUNK = 1 << 20


class StateNotSaved(UserError):
    """The file could not be written."""

    code = "state_not_saved"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("What the model has read could not be saved to {path}.").format(path=shown_path(path)),
            reason,
            _("The chat itself is safe; the model will read it again when it is opened."),
        )


class StateRefused(Exception):
    """A saved state that is of no use here; the text says why, in words for the person."""


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Yields the path of a part file, which takes the place of `path` at the end. Raises `StateNotSaved`."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.touch()  # the system's own words for why it cannot be written
        yield part
        put_in_place(part, path)
    except OSError as error:
        raise StateNotSaved(path, error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remove_remains(folder: Path) -> None:
    """Takes away the part files in a folder whose processes are gone: killed, or with the machine."""
    for part in folder.glob("*.part"):
        found = _PART.search(part.name)
        if found and int(found["pid"]) != os.getpid() and not psutil.pid_exists(int(found["pid"])):
            with suppress(OSError):
                part.unlink()


def append_record(path: Path, record: bytes) -> None:
    """Closes a file that an engine wrote with its record, and has it lie safely on the disk. Raises `OSError`."""
    with path.open("r+b") as file:
        digest = _digest(file, path.stat().st_size)
        file.seek(0, os.SEEK_END)
        digest.update(record)
        file.write(record + len(record).to_bytes(8, "little") + digest.digest() + _MARK)
        file.flush()
        os.fsync(file.fileno())


def read_record(path: Path) -> bytes:
    """Returns a file's record, once its checksum agrees with all that stands before it. Raises `StateRefused`."""
    try:
        with path.open("rb") as file:
            return _record_bytes(file, path.stat().st_size)
    except OSError as error:
        raise StateRefused(_("There is no saved state: {reason}").format(reason=error.strerror or error)) from error


def refused_as_other() -> StateRefused:
    """Returns the refusal of a state whose settings or version are not those of now."""
    return StateRefused(_("The saved state was made with other settings or by another version."))


def refused_as_changed() -> StateRefused:
    """Returns the refusal of a state whose model is not the one that is loaded."""
    return StateRefused(_("The saved state is of another model, or the model's file has changed since."))


def _record_bytes(file: BinaryIO, size: int) -> bytes:
    file.seek(max(size - _TAIL_BYTES, 0))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:8], "little")
    if not tail.endswith(_MARK) or length > size - _TAIL_BYTES:
        raise StateRefused(_("The file is no saved state, or it is not whole."))
    if _digest(file, size - _TAIL_BYTES).digest() != tail[8 : 8 + _DIGEST_BYTES]:
        raise StateRefused(_("The saved state is damaged."))
    file.seek(size - _TAIL_BYTES - length)
    return file.read(length)


def _digest(file: BinaryIO, size: int) -> hashlib.blake2b:
    """Returns the checksum of a file's first `size` bytes."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    file.seek(0)
    while size > 0 and (chunk := file.read(min(_CHUNK, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest
