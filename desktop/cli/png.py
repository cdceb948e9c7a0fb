"""Draws rectangles and small text into an image, and writes it as PNG with nothing but zlib.

Format: Portable Network Graphics, W3C Recommendation (Second Edition), 2003: truecolour, 8 bits, no interlacing.
Letters are 5 × 7 dots. They are for labels: of other scripts, the nearest Latin letter is drawn, or an empty box.
"""

from __future__ import annotations

import struct
import unicodedata
import zlib

from desktop.cli.dot_letters import BOX, LETTERS

Colour = tuple[int, int, int]
LETTER_WIDTH, LETTER_HEIGHT = 5, 7
ADVANCE = LETTER_WIDTH + 1
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUECOLOUR = 2


class Image:
    """A picture of `width` × `height` pixels, all `background` at first. What is drawn outside of it is left out."""

    def __init__(self, width: int, height: int, background: Colour) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(bytes(background) * width) for _ in range(height)]

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """Fills a rectangle whose upper left pixel is (x, y)."""
        left, right = max(0, x), min(self.width, x + width)
        if left >= right:
            return
        run = bytes(colour) * (right - left)
        for row in self._rows[max(0, y) : max(0, min(self.height, y + height))]:
            row[3 * left : 3 * right] = run

    def text(self, x: int, y: int, text: str, colour: Colour, *, scale: int = 1, upwards: bool = False) -> None:
        """Writes a line whose first letter's corner is (x, y): its upper left one, or the lower left one `upwards`."""
        for place, character in enumerate(drawable(text)):
            for row, dots in enumerate(LETTERS.get(character, BOX)):
                for column in range(LETTER_WIDTH):
                    if dots >> (LETTER_WIDTH - 1 - column) & 1:
                        along = (place * ADVANCE + column) * scale
                        at = (x + row * scale, y - along - scale) if upwards else (x + along, y + row * scale)
                        self.fill(*at, scale, scale, colour)

    def png(self) -> bytes:
        """Returns the picture as the content of a PNG file."""
        header = struct.pack(">2I5B", self.width, self.height, 8, _TRUECOLOUR, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in self._rows), 9)  # 0: rows as they are
        return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def drawable(text: str) -> str:
    """Returns a text in characters that there are letters for: without accents; U+25A1 for what is left."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(character if character in LETTERS else "□" for character in plain)


def text_width(text: str, scale: int = 1) -> int:
    """Returns how many pixels a line takes."""
    return max(0, len(drawable(text)) * ADVANCE - 1) * scale
