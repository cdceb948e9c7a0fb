"""Tables of characters to normalize: the sound ones, and every way in which one leads outside."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from runtime import charsmap
from runtime.gguf_header import DamagedModel, read_header
from runtime.llama.tokenizer import GgufTokenizer
from vocabularies import PUBLISHED, spm_tokens, write_vocabulary

LEAF = 1 << 8


def table(
    changes: dict[int, int] | None = None, *, size: int = 512, length: int | None = None, replacements: bytes = b"a\0"
) -> bytes:
    """Returns a table that makes "a" of "A": the root leads to entry 321, and that to the value in entry 256."""
    entries = {0: 256 << 10, 256 ^ ord("A"): ord("A") | LEAF | (321 ^ 256) << 10, 256: 0} | (changes or {})
    packed = struct.pack(f"<{size}I", *(entries.get(at, 0) for at in range(size)))
    return struct.pack("<I", len(packed) if length is None else length) + packed + replacements


UNSOUND = {
    "nothing": b"",
    "half a length": b"\0\0",
    "no replacements": table(replacements=b""),
    "a length beyond the table": table(length=1 << 20),
    "a root that leads outside": table({0: 512 << 10}),
    "an entry that leads outside": table({321: ord("A") | LEAF | 1 << 29}),
    "a value outside": table({256: 2}),
    "a replacement without an end": table(replacements=b"abc"),
    "an array shorter than a block": table(size=322),
}


def test_the_table_of_a_published_vocabulary_is_sound() -> None:
    path = next(path for path in PUBLISHED if path.stem == "ggml-vocab-nomic-bert-moe")
    published = read_header(path).metadata["tokenizer.ggml.precompiled_charsmap"]
    assert charsmap.is_sound(published.raw_bytes())  # type: ignore[union-attr]


def test_a_sound_table_normalizes(tmp_path: Path) -> None:
    assert charsmap.is_sound(table())
    keys = {"unknown_token_id": 0, "precompiled_charsmap": table(), "add_space_prefix": True}
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(["▁mat"]), model="t5", metadata=keys)
    with GgufTokenizer(path) as vocabulary:
        assert vocabulary.pieces(vocabulary.tokenize("mAt")) == [" mat"]


def test_an_entry_that_no_text_leads_to_does_no_harm() -> None:
    assert charsmap.is_sound(table({100: ord("A") ^ 1 | LEAF | 1 << 29}))


@pytest.mark.parametrize("name", UNSOUND)
def test_a_table_that_leads_outside_is_refused_before_native_code_sees_it(tmp_path: Path, name: str) -> None:
    assert not charsmap.is_sound(UNSOUND[name])
    keys = {"unknown_token_id": 0, "precompiled_charsmap": UNSOUND[name]}
    if UNSOUND[name]:
        path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(["▁mat"]), model="t5", metadata=keys)
        with pytest.raises(DamagedModel, match="normalize"):
            GgufTokenizer(path)


def test_a_table_of_another_type_is_refused(tmp_path: Path) -> None:
    keys = {"unknown_token_id": 0, "precompiled_charsmap": "a text"}
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(["▁mat"]), model="t5", metadata=keys)
    with pytest.raises(DamagedModel, match="normalize"):
        GgufTokenizer(path)
