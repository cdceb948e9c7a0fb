"""The table of characters is sound, and reads every text as the steps that it was made of."""

from __future__ import annotations

import struct

import pytest
from tokenizers import normalizers

from convert.charsmap_table import packed_table, replacements_of
from convert.hard_texts import HARD_TEXTS
from runtime.charsmap import is_sound


def normalized(table: bytes, text: str) -> str:
    """Reads a text with a table as llama.cpp does: the longest entry first."""
    (length,) = struct.unpack_from("<I", table)
    entries = struct.unpack_from(f"<{length // 4}I", table, 4)
    texts, data, made, at = table[4 + length :], text.encode(), b"", 0

    def base(entry: int) -> int:
        return (entry >> 10) << ((entry & 1 << 9) >> 6)

    while at < len(data):
        node, best = base(entries[0]), None
        for end in range(at, len(data)):
            node ^= data[end]
            if entries[node] & 0x8000_00FF != data[end] or not data[end]:
                break
            is_leaf = entries[node] >> 8 & 1
            node ^= base(entries[node])
            if is_leaf:
                best = end + 1, entries[node] & 0x7FFF_FFFF
        if best is None:
            size = next(size for size in range(1, 5) if is_character(data[at : at + size]))
            made, at = made + data[at : at + size], at + size
        else:
            at, place = best
            made += texts[place : texts.index(b"\0", place)]
    return made.decode()


def is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


@pytest.fixture(scope="module")
def nfkc() -> bytes:
    return packed_table(replacements_of(normalizers.NFKC().normalize_str))


def test_the_table_leads_nowhere_outside(nfkc: bytes) -> None:
    assert is_sound(nfkc)


def test_texts_are_read_as_by_the_steps(nfkc: bytes) -> None:
    steps = normalizers.NFKC()
    texts = [text for text in HARD_TEXTS if "\0" not in text]
    assert [normalized(nfkc, text) for text in texts] == [steps.normalize_str(text) for text in texts]


def test_small_tables_are_read_back() -> None:
    table = packed_table({"a": "x", "ab": "", "é": "e", "🙂": ":)", "e\u0301": "e"})
    assert is_sound(table)
    assert normalized(table, "cababe\u0301é🙂a") == "cee:)x"
