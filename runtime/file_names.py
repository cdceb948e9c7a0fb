"""What people or models call something, as the name of a file that every system takes. Knows no disk."""

from __future__ import annotations

import re

_UNFIT = re.compile(r'[\x00-\x1f<>:"/\\|?*\u202a-\u202e\u2066-\u2069]+')
# Devices on Windows, whatever ending follows: learn.microsoft.com/windows/win32/fileio/naming-a-file
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)


def fit_words(text: str, *, longest: int) -> str:
    """Returns a text on one line without what no file's name may hold; empty where nothing is left."""
    return " ".join(_UNFIT.sub(" ", text).split()).strip(". ")[:longest].rstrip(". ")


def file_stem(text: str, *, longest: int) -> str:
    """Returns a text as a file's name without its ending; empty where nothing is left."""
    name = fit_words(text, longest=longest)
    return f"_{name}" if _DEVICE.fullmatch(name) else name
