"""Text files that are dropped into the window: read in a thread, told apart from everything else. Knows no widget."""

from __future__ import annotations

from pathlib import Path

from desktop.chat.plain_text import cleaned, one_line
from desktop.human import data_size
from runtime.errors import UserError
from runtime.places import shown_path, write_reason
from runtime.text import _

MOST_BYTES = 8_000_000
MOST_FILES = 20
_PROBE = 8192
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ENCODINGS = ("utf-8", "gb18030", "latin-1")  # the last one reads anything


class NotText(UserError):
    """A dropped file is none that a message can hold."""

    code = "not_text"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{name}” was not added.").format(name=one_line(shown_path(Path(path.name)), limit=80)),
            reason,
            _("Text files can be added, and models (.gguf) be loaded."),
        )


def read_text_file(path: Path) -> str:
    """Returns a file's text under its name, as a message holds it. Raises `NotText`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotText(path, _("It cannot be read: {reason}.").format(reason=write_reason(error))) from error
    if len(data) > MOST_BYTES:
        size = data_size(MOST_BYTES)
        raise NotText(path, _("It is larger than {size}, which no model reads.").format(size=size))
    text = cleaned(_decoded(path, data)).strip("\n")
    if not text.strip():
        raise NotText(path, _("It is empty."))
    return f"{one_line(shown_path(Path(path.name)), limit=200)}:\n\n{text}"


def _decoded(path: Path, data: bytes) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data[:_PROBE]:
        raise NotText(path, _("It holds no text."))
    for encoding in _ENCODINGS:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise AssertionError("the last encoding reads anything")
