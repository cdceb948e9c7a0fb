"""Makes the table by which llama.cpp normalizes characters for Unigram vocabularies, out of the source's own steps.

What Hugging Face's library does in steps (NFKC, lower case …), SentencePiece and llama.cpp look up: the longest entry
that a text goes on with is replaced. The table is a double array; `runtime/charsmap.py` says how entries are packed.
"""

from __future__ import annotations

import struct
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_UNASSIGNED = frozenset({"Cn", "Co", "Cs"})
_BLOCK = 256
_LEAF, _VALUE = 1 << 8, 1 << 31
_MOST = 1 << 21  # of an offset in an entry
_LAST_BLOCKS = 4  # that are searched for room before a new one is begun
_HANGUL = range(0xAC00, 0xD7A4)

_Node = dict[int, Any]


def replacements_of(normalize: Callable[[str], str]) -> dict[str, str]:
    """Returns what characters, and letters that are written apart from their accents, become."""
    found: dict[str, str] = {}
    for code in range(1, sys.maxunicode + 1):
        sign = chr(code)
        if unicodedata.category(sign) not in _UNASSIGNED:
            made = normalize(sign)
            if made != sign:
                found[sign] = made
    for apart in _written_apart():
        made = normalize(apart)
        if made != "".join(found.get(sign, sign) for sign in apart):
            found[apart] = made
    return found


def _written_apart() -> Iterator[str]:
    """Yields letters with accents behind them, and syllables of Korean in parts."""
    for code in range(0xC0, sys.maxunicode + 1):
        sign = chr(code)
        parts = unicodedata.decomposition(sign) if code not in _HANGUL else ""
        whole = unicodedata.normalize("NFD", sign)
        if code in _HANGUL or (parts and not parts.startswith("<") and len(whole) > 1):
            yield whole
            if len(whole) > 2:
                yield unicodedata.normalize("NFC", whole[:-1]) + whole[-1]


def packed_table(replacements: Mapping[str, str]) -> bytes:
    """Returns the table: the array's length in bytes, the array, and the texts that it leads to."""
    texts, places = bytearray(), dict[str, int]()
    root: _Node = {}
    for key, text in replacements.items():
        if text not in places:
            places[text] = len(texts)
            texts += text.encode() + b"\0"
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[-1] = places[text]
    entries = _DoubleArray().filled(root)
    return struct.pack("<I", 4 * len(entries)) + struct.pack(f"<{len(entries)}I", *entries) + bytes(texts or b"\0")


class _DoubleArray:
    """Nodes of a tree in one array: a child lies at its parent's base with the bits of its character turned.

    No two nodes have the same base, so that a child is never taken for another node's.
    """

    def __init__(self) -> None:
        self._entries = [0] * _BLOCK
        self._taken = bytearray(_BLOCK)
        self._taken[0] = 1
        self._bases: set[int] = set()

    def filled(self, root: _Node) -> list[int]:
        """Returns the entries."""
        waiting = [(root, 0)]
        while waiting:
            node, at = waiting.pop()
            if not node:
                continue
            labels = sorted(max(label, 0) for label in node)
            base = self._room(labels)
            assert at ^ base < _MOST, "more characters than the table can hold"
            self._entries[at] |= (at ^ base) << 10
            for label, child in node.items():
                place = base ^ max(label, 0)
                self._taken[place] = 1
                if label < 0:
                    self._entries[at] |= _LEAF
                    self._entries[place] = child | _VALUE
                else:
                    self._entries[place] = label
                    waiting.append((child, place))
        return self._entries

    def _room(self, labels: Sequence[int]) -> int:
        """Returns a base at which there is room for children with these labels."""
        free = self._taken.find(0, max(0, len(self._entries) - _LAST_BLOCKS * _BLOCK))
        while free >= 0:
            base = free ^ labels[0]
            if base not in self._bases and not any(self._taken[base ^ label] for label in labels):
                break
            free = self._taken.find(0, free + 1)
        else:
            base = len(self._entries)
            self._entries += [0] * _BLOCK
            self._taken += bytes(_BLOCK)
        self._bases.add(base)
        return base
