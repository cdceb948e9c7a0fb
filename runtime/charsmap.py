"""Checks the table by which SentencePiece normalizes characters: llama.cpp ends the process where it leads outside.

The table is a little-endian length in bytes, a double array of that length (Kanda et al. 2017, "Compressed double-array
tries for string dictionaries"), and the replacements, each ended by a zero byte. An entry holds BASE in bits 10 to 30
(shifted by 8 more with bit 9), LEAF in bit 8, and the character that leads to it in bits 0 to 7 with bit 31 clear.
"""

from __future__ import annotations

import struct
from collections import defaultdict

_LENGTH_BYTES = 4
_LARGEST_CHARACTER = 0xFF


def is_sound(table: bytes) -> bool:
    """Whether no text leads outside the array or to a replacement without an end."""
    if len(table) < _LENGTH_BYTES:
        return False
    (length,) = struct.unpack_from("<I", table)
    replacements = table[_LENGTH_BYTES + length :]
    if not replacements:
        return False
    entries = struct.unpack_from(f"<{length // 4}I", table, _LENGTH_BYTES)
    values = _reachable_values(entries)
    return values is not None and all(replacements.find(b"\0", value) >= 0 for value in values)


def _reachable_values(entries: tuple[int, ...]) -> set[int] | None:
    """Returns where the replacements begin that some text leads to; None where a text leads out of the array."""
    children = _children(entries)
    waiting, seen, values = [_base(entries[0])] if entries else [], set[int](), set[int]()
    while waiting:
        base = waiting.pop()
        if base in seen:
            continue
        seen.add(base)
        if base | _LARGEST_CHARACTER >= len(entries):
            return None
        for child in children[base]:
            then = child ^ _base(entries[child])
            if entries[child] >> 8 & 1:
                if then >= len(entries):
                    return None
                values.add(entries[then] & 0x7FFF_FFFF)
            waiting.append(then)
    return values if entries else set()


def _children(entries: tuple[int, ...]) -> dict[int, list[int]]:
    """Returns the entries that a character leads to, by the base that it leads from."""
    found: dict[int, list[int]] = defaultdict(list)
    for at, entry in enumerate(entries):
        character = entry & 0x8000_00FF
        if 0 < character <= _LARGEST_CHARACTER:
            found[at ^ character].append(at)
    return found


def _base(entry: int) -> int:
    return (entry >> 10) << ((entry & 1 << 9) >> 6) & 0xFFFF_FFFF
