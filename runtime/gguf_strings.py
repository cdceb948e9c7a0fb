"""Passes over the texts of a GGUF list quickly: most of a header is its vocabulary. Knows no file and no key.

A list of texts has no index: each text tells where the next one begins. Two things save the time of asking each of
them. A pattern matches a whole run of ordinary texts (1 to 255 bytes, none of them zero) at once. And pieces of lists
that were passed over before are recognized, byte for byte, because most models on a computer share few vocabularies.
Both give what asking each text would give.
"""

from __future__ import annotations

import re
import struct
from functools import cache

PIECE = 1 << 14  # bytes looked at in one go
_LENGTH = struct.Struct("<Q")
_REST = bytes(_LENGTH.size - 1)  # what follows the first byte of an ordinary text's length
_COMMON_LENGTHS = 7  # alternatives are tried in their order, and most texts are about this long
_SHORT_RUN, _PATIENCE = 16, 1024  # after a short run so many texts are asked one by one
_MARK_BYTES = 32
_KEPT_BYTES = 1 << 25


class PassedPieces:
    """Pieces of lists that were passed over, and how far they reach; at most 32 MB of them."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int, int]] = {}
        self._bytes = 0

    def passed(self, piece: bytes, count: int) -> tuple[int, int]:
        """Does what the function `passed` does from the piece's beginning, and remembers it."""
        mark = piece[:_MARK_BYTES] + piece[-_MARK_BYTES:]
        known, after, n_texts = self._known.get(mark, (b"", 0, 0))
        if n_texts <= count and known == piece:
            return after, count - n_texts
        after, left = passed(piece, 0, count)
        if left:  # the list goes on; its last piece holds what follows it, which differs from file to file
            self._keep(mark, (piece, after, count - left))
        return after, left

    def _keep(self, mark: bytes, entry: tuple[bytes, int, int]) -> None:
        if self._bytes > _KEPT_BYTES:
            self._known.clear()
            self._bytes = 0
        self._known[mark] = entry
        self._bytes += len(entry[0])


def passed(buffer: bytes, at: int, count: int) -> tuple[int, int]:
    """Passes over at most `count` texts that the buffer holds whole; returns where it stopped and how many are left."""
    while count:
        after, left = _run(buffer, at, count)
        singles = _PATIENCE if count - left < _SHORT_RUN else 1
        after, left = _one_by_one(buffer, after, left, singles)
        if left == count:
            break
        at, count = after, left
    return at, count


def _run(buffer: bytes, at: int, count: int) -> tuple[int, int]:
    """Passes over a run of ordinary texts. Each has seven zero bytes, so these tell how many texts there were."""
    found = _ordinary().match(buffer, at)
    after = found.end() if found else at
    n_texts = buffer.count(0, at, after) // len(_REST)
    while n_texts > count:  # what follows the list looks like a text, too
        after = buffer.rfind(_REST, at, after) - 1
        n_texts -= 1
    return after, count - n_texts


def _one_by_one(buffer: bytes, at: int, count: int, most: int) -> tuple[int, int]:
    unpack, last = _LENGTH.unpack_from, len(buffer) - _LENGTH.size
    rest = max(0, count - most)
    while count > rest and at <= last:
        after = at + _LENGTH.size + unpack(buffer, at)[0]
        if after > len(buffer):
            break
        at = after
        count -= 1
    return at, count


@cache
def _ordinary() -> re.Pattern[bytes]:
    """Returns the pattern of a run of ordinary texts: for each length its bytes, then as many that are not zero."""
    lengths = sorted(range(1, 256), key=lambda length: abs(length - _COMMON_LENGTHS))
    texts = (re.escape(bytes([length])) + rb"\x00" * len(_REST) + rb"[^\x00]{%d}" % length for length in lengths)
    return re.compile(b"(?:" + b"|".join(texts) + b")*+")
