"""Text that comes from outside, made safe to show, store and send. Knows no widget."""

from __future__ import annotations

_PLAIN = (("\r\n", "\n"), ("\r", "\n"), ("\u2028", "\n"), ("\u2029", "\n"), ("\0", ""))
_BIDI_CONTROLS = {code: None for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}


def cleaned(text: str) -> str:
    """Returns the text without NUL, with LF line ends, and with U+FFFD for each half of a broken character."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogates(text) else text
    for found, instead in _PLAIN:  # one by one: a table looks every character up, a tenth of a second for a long paste
        whole = whole.replace(found, instead)
    return whole


def one_line(text: str, *, limit: int = 200) -> str:
    """Returns a name for display: one line, no characters that turn the reading direction, at most `limit` long."""
    line = " ".join(cleaned(text).translate(_BIDI_CONTROLS).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
