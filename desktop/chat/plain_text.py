"""Text that comes from outside, made safe to show, store and send. Knows no widget."""

from __future__ import annotations

_LONE_SURROGATES = {code: "\ufffd" for code in range(0xD800, 0xE000)}
_DROPPED = {0: None}
_LINE_ENDS = {0x2028: "\n", 0x2029: "\n"}
_TABLE = _LONE_SURROGATES | _DROPPED | _LINE_ENDS
_BIDI_CONTROLS = {code: None for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}


def cleaned(text: str) -> str:
    """Returns the text without NUL, with LF line ends, and with U+FFFD for each half of a broken character."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogates(text) else text
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE)


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
