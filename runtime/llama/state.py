"""Writes what a context holds to a file and reads it back, so that a chat need not be read again after a restart.

The file is llama.cpp's own for one sequence, followed by a record of ours, its length, a checksum and a mark. It is
taken back only where everything that decides about its numbers is the same; whatever else comes is refused with the
reason. Knows no conversation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from runtime.errors import UserError
from runtime.evaluation import CacheRecord
from runtime.gguf_header import split_parts
from runtime.known_answers import Answer
from runtime.llama import library as llama_library
from runtime.llama import long_context
from runtime.llama.cache import TokenCache
from runtime.llama.model import LlamaModel
from runtime.places import shown_path
from runtime.text import _

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


class _Numbers(msgspec.Struct, frozen=True):
    """Everything beside the model's files that decides about the numbers in a cache."""

    kv_type_k: str
    kv_type_v: str
    flash_attention: bool
    swa_full: bool
    rope: tuple[str, float, float, int, float, float, float]
    stretched: bool  # a context so long that the model takes its other set of position factors
    adapters: tuple[tuple[int, int, float], ...]  # size in bytes, time of the last change in nanoseconds, scale

    @classmethod
    def of(cls, model: LlamaModel) -> _Numbers:
        params = model.params
        return cls(
            params.kv_type_k, params.kv_type_v, model.flash_attention, params.swa_full,
            rope=(params.rope_scaling, params.rope_factor, params.rope_base, params.yarn_original_context,
                  params.yarn_ext_factor, params.yarn_beta_fast, params.yarn_beta_slow),
            stretched=long_context.takes_long_factors(model),
            adapters=tuple((*adapter.stamp, adapter.scale) for adapter in model.adapters.active),
        )  # fmt: skip


class _Record(msgspec.Struct, frozen=True):
    """What must be the same for a state to be taken back, and what llama.cpp does not keep of it."""

    build: str
    files: tuple[tuple[int, int], ...]  # size in bytes and time of the last change in nanoseconds, for each file
    cache: _Numbers
    held: CacheRecord
    answers: tuple[Answer, ...]


_decoder = msgspec.json.Decoder(_Record)


def save(path: Path, model: LlamaModel, cache: TokenCache, answers: Iterable[Answer]) -> tuple[int, int]:
    """Writes the cache's contents beside `path` and renames; returns the number of tokens and of bytes.

    Raises `StateNotSaved`.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.touch()  # the system's own words for why it cannot be written
        held = cache.save(part)
        if held is None:
            raise StateNotSaved(path, llama_library.log_tail(1))
        _append(part, msgspec.json.encode(_record(model, held, answers)))
        size = part.stat().st_size
        part.replace(path)
    except OSError as error:
        raise StateNotSaved(path, error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return len(held.ids), size


def load(path: Path, model: LlamaModel, cache: TokenCache) -> tuple[Answer, ...]:
    """Fills the cache from a file and returns the answers in it. Raises `StateRefused`."""
    record = _checked(path)
    try:
        ours = _record(model, record.held, ())
    except OSError as error:
        raise StateRefused(_("The saved state is of another model, or the model's file has changed since.")) from error
    if record.files != ours.files:
        raise StateRefused(_("The saved state is of another model, or the model's file has changed since."))
    if (record.build, record.cache) != (ours.build, ours.cache):
        raise StateRefused(_("The saved state was made with other settings or by another version."))
    if len(record.held.ids) >= model.context_length:
        raise StateRefused(_("The saved state is longer than the context."))
    if not cache.load(path, record.held):
        raise StateRefused(_("The engine could not take the saved state back."))
    return record.answers


def _record(model: LlamaModel, held: CacheRecord, answers: Iterable[Answer]) -> _Record:
    return _Record(
        build=llama_library.build_description(),
        files=tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in split_parts(model.path)),
        cache=_Numbers.of(model),
        held=held,
        answers=tuple(answer for answer in answers if held.holds(answer.ids)),
    )


def _append(path: Path, record: bytes) -> None:
    with path.open("r+b") as file:
        digest = _digest(file, path.stat().st_size)
        file.seek(0, os.SEEK_END)
        digest.update(record)
        file.write(record + len(record).to_bytes(8, "little") + digest.digest() + _MARK)
        file.flush()
        os.fsync(file.fileno())


def _checked(path: Path) -> _Record:
    """Returns a file's record, once its checksum agrees with all that stands before it."""
    try:
        with path.open("rb") as file:
            return _decoder.decode(_record_bytes(file, path.stat().st_size))
    except OSError as error:
        raise StateRefused(_("There is no saved state: {reason}").format(reason=error.strerror or error)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise StateRefused(_("The saved state was made with other settings or by another version.")) from error


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
