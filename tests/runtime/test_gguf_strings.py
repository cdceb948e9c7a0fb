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
from runtime import gguf_strings
from runtime.gguf_header import DamagedModel, GgufArray, GgufHeader, read_header
from runtime.gguf_reader import Cursor
from runtime.gguf_strings import PIECE, PassedPieces

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
        pieces = PassedPieces()
        assert pieces.passed(buffer, count) == expected
        assert pieces.passed(buffer, count) == expected, "the second time, when it is recognized"
        for other in (count + 7, count // 3, count + 7):  # what is known reaches further than is wanted
            assert pieces.passed(buffer, other) == asked_one_by_one(buffer, other)


def test_pieces_that_begin_and_end_alike_are_not_taken_for_each_other() -> None:
    first = packed([b"a" * 50, b"bb", b"c" * 50])
    other = packed([b"a" * 50, b"", b"c" * 52])
    assert len(first) == len(other)
    pieces = PassedPieces()
    for buffer in (first, other, first):
        assert pieces.passed(buffer, 9) == asked_one_by_one(buffer, 9)


def test_what_is_remembered_stays_small() -> None:
    pieces = PassedPieces()
    for number in range(gguf_strings._KEPT_BYTES // PIECE + 10):
        texts = [b"%020d" % number] * (PIECE // 28)
        assert pieces.passed(packed(texts), len(texts) + 1)[1] == 1
    assert pieces._bytes <= gguf_strings._KEPT_BYTES + PIECE


# --- whole headers ----------------------------------------------------------------------------------------------

SHARED = PassedPieces()


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
    listed, whole = read_header(path, arrays=False, pieces=SHARED), read_header(path)
    assert listed == whole
    assert contents(listed) == contents(whole)
    assert list(contents(listed)["tokenizer.ggml.merges"]) == [text.decode("utf-8", "replace") for text in odd_merges]
    assert (listed.quantization, listed.chat_template) == ("Q4_K_M", "{{ messages }}")


def test_models_that_share_a_vocabulary_are_told_apart_by_what_follows_it(tmp_path: Path) -> None:
    tokens = [f"token{number}" for number in range(5000)]
    pieces = PassedPieces()
    for number, kind in enumerate((2, 7, 15)):
        keys = with_keys(
            ("tokenizer.ggml.tokens", ARRAY, (STRING, [*tokens, *(f"added{n}" for n in range(number))])),
            ("general.file_type", U32, kind),
        )
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(pack(keys))
        header = read_header(path, arrays=False, pieces=pieces)
        assert header.metadata["general.file_type"] == kind
        assert header.n_vocab == 5000 + number


def test_a_list_cut_off_in_a_piece_that_is_known_is_refused(tmp_path: Path) -> None:
    pieces = PassedPieces()
    tokens = [f"token{number}" for number in range(5000)]
    data = pack(with_keys(("tokenizer.ggml.tokens", ARRAY, (STRING, tokens))))
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    read_header(path, arrays=False, pieces=pieces)
    at = data.index(b"token4000")
    path.write_bytes(data[:at])
    with pytest.raises(DamagedModel, match="file ends"):
        read_header(path, arrays=False, pieces=pieces)


def test_tensors_are_read_alike_with_and_without_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["output_norm.weight", "blk.0.ü.weight", "n" * 63, *(f"blk.{n}.attn_q.weight" for n in range(3000))]
    tensors = [(name, (32, 2)[: 1 + at % 2], 0, 256 * at) for at, name in enumerate(names)]
    path = tmp_path / "model.gguf"
    path.write_bytes(pack(with_keys(("general.alignment", U32, 256)), tensors, bytes(256 * len(names)), alignment=256))
    quick = read_header(path).tensors
    monkeypatch.setattr(Cursor, "tensor", Cursor._odd_tensor)
    assert read_header(path).tensors == quick
    assert [tensor.name for tensor in quick] == names
