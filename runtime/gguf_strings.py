"""Passes over the texts of a GGUF list quickly: most of a header is its vocabulary.

A list of texts has no index: each text tells where the next one begins. `passed` asks each of them, a whole run of
ordinary texts (1 to 255 bytes, none of them zero) at once, by a pattern. `end_by_next_key` asks none: a list ends where
the next key of the vocabulary begins. No text looks like that by accident, but one can be made to, so this is for lists
of many files only, and only together with everything that is checked behind it.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from io import BufferedIOBase

_LENGTH = struct.Struct("<Q")
_REST = bytes(_LENGTH.size - 1)  # what follows the first byte of an ordinary text's length
_NEXT_KEY = _REST + b"tokenizer."
_COMMON_LENGTHS = 7  # alternatives are tried in their order, and most texts are about this long
_SHORT_RUN, _PATIENCE = 16, 1024  # after a short run so many texts are asked one by one
_PIECE, _OVERLAP = 1 << 17, len(_NEXT_KEY)  # bytes read in one go, and looked at again with the next


def end_by_next_key(file: BufferedIOBase, position: int, farthest: int) -> int:
    """Returns where a list that begins at the file's position ends, a later key of the vocabulary following it.

    Returns -1 where no such key begins before `farthest`. Moves the file.
    """
    window = bytearray(b"\xff" * _OVERLAP + bytes(_PIECE))  # what was read last, behind the end of what was before it
    view = memoryview(window)[_OVERLAP:]
    while position < farthest and (n_read := file.readinto(view)):
        found = window.find(_NEXT_KEY, 0, _OVERLAP + n_read)
        if found >= 0:
            return position - _OVERLAP + found - 1  # the first byte of the key's length
        window[:_OVERLAP] = window[n_read : n_read + _OVERLAP]
        position += n_read
    return -1


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
