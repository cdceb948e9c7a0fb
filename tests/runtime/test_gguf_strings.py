"""Passing over texts quickly gives what reading each of them gives, whatever the texts hold."""

from __future__ import annotations

import struct
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from raw_gguf import ARRAY, F32, STRING, U32, pack, with_keys
from runtime import gguf_reader, gguf_strings
from runtime.gguf_header import DamagedModel, GgufArray, GgufHeader, read_header

PIECE = gguf_strings._PIECE
LONG = PIECE + 100
ordinary = st.binary(min_size=1, max_size=12).map(lambda text: text.replace(b"\0", b"x"))
odd = st.one_of(
    st.sampled_from([b"", b"\0", b"\0" * 7, b"a" + b"\0" * 8 + b"b", b"x" * 255, b"x" * 256, b"\xff" * 300]),
    st.sampled_from([LONG, PIECE - 8, PIECE - 9]).map(lambda size: b"y" * size),
    st.binary(max_size=20),
)
runs = st.tuples(ordinary, st.integers(1, 1500)).map(lambda run: [run[0]] * run[1])
lists = st.lists(st.one_of(odd.map(lambda text: [text]), runs), max_size=8).map(lambda parts: list(chain(*parts)))


def packed(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def asked_one_by_one(buffer: bytes, count: int) -> tuple[int, int]:
    at = 0
    while count and at + 8 <= len(buffer):
        after = at + 8 + struct.unpack_from("<Q", buffer, at)[0]
        if after > len(buffer):
            break
        at, count = after, count - 1
    return at, count


@settings(max_examples=80, deadline=None)
@given(texts=lists, behind=st.one_of(st.binary(max_size=40), lists.map(packed)), cut=st.integers(0, 50))
@example(texts=[b"abc"], behind=packed([b"tokenizer.ggml.bos_token_id"]), cut=0)
@example(texts=[], behind=b"", cut=0)
def test_it_stops_where_asking_each_text_stops(texts: list[bytes], behind: bytes, cut: int) -> None:
    buffer = packed(texts) + behind
    buffer = buffer[: len(buffer) - cut]
    for count in (len(texts), len(texts) // 2, len(texts) + 5):
        expected = asked_one_by_one(buffer, count)
        assert gguf_strings.passed(buffer, 0, count) == expected


@pytest.mark.parametrize("shift", [*range(40), 5000])
def test_a_list_ends_where_the_next_key_of_the_vocabulary_begins(tmp_path: Path, shift: int) -> None:
    listed = packed([b"ab\0cd"] * ((PIECE - shift) // 13)) + packed([b"x" * (shift % 13 + 1)])
    path = tmp_path / "list"
    path.write_bytes(b"before" + listed + packed([b"tokenizer.ggml.scores"]) + bytes(50))
    with path.open("rb") as file:
        file.seek(6)
        assert gguf_strings.end_by_next_key(file, 6, 10**9) == 6 + len(listed)
        file.seek(6)
        assert gguf_strings.end_by_next_key(file, 6, 6) == -1, "nothing is read beyond the bound"


def test_a_list_without_a_key_behind_it_shows_no_end(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(packed([b"abc"] * 30_000))
    with path.open("rb") as file:
        assert gguf_strings.end_by_next_key(file, 0, 10**9) == -1


# --- whole headers ----------------------------------------------------------------------------------------------


def contents(header: GgufHeader) -> dict[str, Any]:
    return {key: value.values() if isinstance(value, GgufArray) else value for key, value in header.metadata.items()}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(ordinary, min_size=70, max_size=300, unique=True), odd_merges=lists)
def test_a_listed_header_is_the_whole_header(tmp_path: Path, tokens: list[bytes], odd_merges: list[bytes]) -> None:
    path = tmp_path / "model.gguf"
    raw_merges = struct.pack("<iQ", STRING, len(odd_merges)) + packed(odd_merges)
    keys = with_keys(
        ("tokenizer.ggml.tokens", ARRAY, struct.pack("<iQ", STRING, len(tokens)) + packed(tokens)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [0.5] * len(tokens))),
        ("tokenizer.ggml.merges", ARRAY, raw_merges),
        ("tokenizer.chat_template", STRING, "{{ messages }}"),
        ("general.quantization_version", U32, 2),
        ("general.file_type", U32, 15),
    )
    path.write_bytes(pack(keys))
    listed, whole = read_header(path, arrays=False), read_header(path)
    assert listed == whole
    assert contents(listed) == contents(whole)
    assert list(contents(listed)["tokenizer.ggml.merges"]) == [text.decode("utf-8", "replace") for text in odd_merges]
    assert (listed.quantization, listed.chat_template) == ("Q4_K_M", "{{ messages }}")


def with_vocabulary(tokens: list[bytes], *behind: tuple[str, int, Any]) -> bytes:
    listed = struct.pack("<iQ", STRING, len(tokens)) + packed(tokens)
    return pack(with_keys(("tokenizer.ggml.tokens", ARRAY, listed), *behind))


WORDS = [b"token%d" % number for number in range(5000)]
FAKE = b"a" + bytes(7) + b"tokenizer.ggml.scores" + bytes(40)


@pytest.mark.parametrize("tokens", [[*WORDS, FAKE], [FAKE, *WORDS], [*WORDS[:50], FAKE, b"b" + FAKE, *WORDS[50:]]])
def test_a_text_that_looks_like_the_next_key_changes_nothing(tmp_path: Path, tokens: list[bytes]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(with_vocabulary(tokens, ("tokenizer.ggml.bos_token_id", U32, 3), ("general.file_type", U32, 7)))
    listed = read_header(path, arrays=False)
    assert listed == read_header(path)
    assert (listed.n_vocab, listed.quantization) == (len(tokens), "Q8_0")


@pytest.mark.parametrize("behind", [
    (), (("general.file_type", U32, 7),), (("general.file_type", U32, 7), ("tokenizer.ggml.bos_token_id", U32, 3)),
])  # fmt: skip
def test_a_vocabulary_with_other_things_behind_it_is_listed_as_it_is(tmp_path: Path, behind: Any) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(with_vocabulary(WORDS, *behind))
    assert read_header(path, arrays=False) == read_header(path)


def test_a_vocabulary_that_is_cut_off_is_refused_by_lists_too(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    data = with_vocabulary(WORDS, ("tokenizer.ggml.bos_token_id", U32, 3))
    path.write_bytes(data[: data.index(b"token4000")])
    with pytest.raises(DamagedModel, match="file ends"):
        read_header(path, arrays=False)


def test_a_list_asks_no_text_of_an_ordinary_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(with_vocabulary(WORDS, ("tokenizer.ggml.bos_token_id", U32, 3)))
    whole = read_header(path)
    monkeypatch.delattr(gguf_strings, "passed")
    assert read_header(path, arrays=False) == whole


def test_tensors_are_read_alike_with_and_without_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["output_norm.weight", "blk.0.ü.weight", "n" * 63, *(f"blk.{n}.attn_q.weight" for n in range(3000))]
    tensors = [(name, (32, 2)[: 1 + at % 2], 0, 256 * at) for at, name in enumerate(names)]
    path = tmp_path / "model.gguf"
    path.write_bytes(pack(with_keys(("general.alignment", U32, 256)), tensors, bytes(256 * len(names)), alignment=256))
    quick = read_header(path).tensors
    monkeypatch.setattr(gguf_reader, "_MOST_TENSOR_BYTES", 1 << 40)  # no buffer is long enough for the quick way
    assert read_header(path).tensors == quick
    assert [tensor.name for tensor in quick] == names
