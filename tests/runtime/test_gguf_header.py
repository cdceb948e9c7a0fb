"""Lying, foreign and cut model files are refused with their own reason; sound ones are read as they are."""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raw_gguf as raw
import tiny_gguf
from raw_gguf import ARRAY, F32, GOOD_DATA, GOOD_KEYS, GOOD_TENSOR, I32, STRING, U8, U32, U64, pack, with_keys
from runtime.errors import UserError
from runtime.gguf_architectures import (
    DIFFUSION_ARCHITECTURES,
    EMBEDDING_ARCHITECTURES,
    HELPER_ARCHITECTURES,
    KNOWN_ARCHITECTURES,
    RECURRENT_ARCHITECTURES,
    WINDOW_PERIODS,
)
from runtime.gguf_header import (
    DamagedModel,
    GgufArray,
    GgufText,
    ModelMissing,
    ModelUnreadable,
    NotAModel,
    PartMissing,
    UnsupportedModel,
    clean_name,
    read_header,
    split_parts,
)
from runtime.gguf_types import FILE_TYPES, TENSOR_TYPES

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def tiny_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf").read_bytes()


def write(folder: Path, data: bytes, name: str = "model.gguf") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# --- sound files ------------------------------------------------------------------------------------------------


def test_header_of_a_model_equals_what_gguf_py_reads(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", type="Q8_0", head_dim=64, name="Some Model")
    header = read_header(path)
    reference = gguf.GGUFReader(path)
    assert [(t.name, t.shape, t.type, t.n_bytes, t.offset + header.data_offset) for t in header.tensors] == [
        (t.name, tuple(int(n) for n in t.shape), t.tensor_type.name, int(t.n_bytes), int(t.data_offset))
        for t in reference.tensors
    ]
    for key, value in header.metadata.items():
        expected: Any = reference.fields[key].contents()
        found = value.values() if isinstance(value, GgufArray) else value
        assert (list(found) if isinstance(found, tuple) else found) == expected, key
    assert header.alignment == reference.alignment


def test_header_tells_what_people_ask_for(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_tiny(tmp_path / "tiny.gguf", type="Q8_0", n_ctx=2048, name="Some Model"))
    assert (header.architecture, header.name, header.context_length) == ("llama", "Some Model", 2048)
    assert (header.quantization, header.n_vocab, header.tokenizer_model) == ("Q8_0", 512, "gpt2")
    assert header.chat_template == tiny_gguf.chatml_template()
    assert header.n_params == sum(tensor.n_elements for tensor in header.tensors) > 1_000_000


def test_listing_and_loading_see_the_same_header(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    assert read_header(path, arrays=False) == read_header(path)


def test_named_chat_templates_are_found_beside_the_default(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(
        tmp_path / "tiny.gguf", metadata={"tokenizer.chat_template.tool_use": "T", "tokenizer.chat_templates": ["x"]}
    )
    assert read_header(path).chat_templates == {"default": tiny_gguf.chatml_template(), "tool_use": "T"}


def test_a_model_without_template_has_none(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_tiny(tmp_path / "tiny.gguf", chat_template=None))
    assert header.chat_template is None
    assert header.chat_templates == {}


def test_a_template_too_long_to_be_kept_is_read_when_asked_for(tmp_path: Path) -> None:
    template = "{# é #}" * 200_000
    header = read_header(tiny_gguf.write_tiny(tmp_path / "tiny.gguf", chat_template=template))
    assert isinstance(header.metadata["tokenizer.chat_template"], GgufText)
    assert header.chat_template == template


@pytest.mark.parametrize("shift", range(12))
def test_texts_across_the_borders_of_what_is_read_at_once_stay_whole(tmp_path: Path, shift: int) -> None:
    # 12 bytes each with their lengths, and more of them than fit into what is read at once
    tokens = ["s" * shift, *(f"{n:04}" for n in range(6000)), "long" * 20_000, "end"]
    keys = with_keys(("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)), ("llama.last", U32, 7))
    header = read_header(write(tmp_path, pack(keys)))
    found = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(found, GgufArray)
    assert found.values() == tokens
    assert header.number("last") == 7


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_of_the_format_are_read(tmp_path: Path, version: int) -> None:
    assert read_header(write(tmp_path, pack(version=version))).version == version


def test_quantization_is_guessed_by_bytes_where_the_file_does_not_say(tmp_path: Path) -> None:
    tensors = [("a", (256, 4), 14, 0), ("b", (32,), 0, 864)]
    header = read_header(write(tmp_path, pack(tensors=tensors, data=bytes(992))))
    assert header.quantization == "Q6_K"


def test_bytes_behind_the_last_tensor_do_no_harm(tmp_path: Path) -> None:
    assert read_header(write(tmp_path, pack(data=GOOD_DATA + b"more")))


def test_a_vocabulary_without_weights_is_read(tmp_path: Path) -> None:
    assert read_header(write(tmp_path, pack(tensors=(), data=b""))).tensors == ()


def test_per_layer_numbers_are_read_as_one_or_as_many(tmp_path: Path) -> None:
    keys = with_keys(
        ("llama.block_count", U32, 3), ("llama.attention.head_count_kv", ARRAY, (I32, [2, 0, 4])),
    )  # fmt: skip
    header = read_header(write(tmp_path, pack(keys)))
    assert header.per_layer("attention.head_count_kv", 3) == (2, 0, 4)
    assert header.per_layer("attention.head_count", 3) == (4, 4, 4)


def test_all_tensor_types_have_the_library_sizes() -> None:
    for number, kind in TENSOR_TYPES.items():
        if number in list(gguf.GGMLQuantizationType) and kind.name != "Q8_1":  # gguf-py's Q8_1 is an older layout
            assert (kind.name, (kind.block, kind.block_bytes)) == (
                gguf.GGMLQuantizationType(number).name, gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
            )  # fmt: skip
    assert {int(kind) for kind in gguf.GGMLQuantizationType} <= set(TENSOR_TYPES)
    assert {int(kind) for kind in gguf.LlamaFileType} - {1024} <= set(FILE_TYPES)


def llama_cpp_sources() -> Path | None:
    root = Path(__file__).resolve().parents[2]
    found = sorted(root.glob("build/llama-cpp-python-*/vendor/llama.cpp/src")) + sorted(
        root.glob("build/llama_cpp_python-*/vendor/llama.cpp/src")
    )
    return found[-1] if found else None


def test_architectures_are_those_of_llama_cpp() -> None:
    sources = llama_cpp_sources()
    if sources is None:
        pytest.skip("llama.cpp's sources are not unpacked in build/ (the set-up does that when it builds from source)")
    table = (sources / "llama-arch.cpp").read_text(encoding="utf-8").split("LLM_ARCH_NAMES = {")[1].split("};")[0]
    assert set(re.findall(r'"([^"]+)"', table)) - {"(unknown)"} == KNOWN_ARCHITECTURES


def test_architectures_with_a_trait_are_known_ones() -> None:
    traits = EMBEDDING_ARCHITECTURES | HELPER_ARCHITECTURES | DIFFUSION_ARCHITECTURES | RECURRENT_ARCHITECTURES
    assert traits | WINDOW_PERIODS.keys() <= KNOWN_ARCHITECTURES


def test_different_tokens_are_never_taken_for_the_same(tmp_path: Path) -> None:
    # The first two have the same bytes in Python's memory, and so the same hash.
    tokens = ["('", "✨", "a", "\0", "á", "a\u0301", "\ufffd"]
    assert read_header(write(tmp_path, pack(with_keys(("tokenizer.ggml.tokens", ARRAY, (STRING, tokens))))))


# --- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "shown"),
    [
        ("../../x", "../../x"),
        ("two\nlines\tand\x00more", "two lines and more"),
        ("right\u202eto left", "right to left"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("x" * 5000, "x" * 119 + "…"),
        ("   ", ""),
    ],
)
def test_a_name_from_inside_a_file_becomes_one_harmless_line(inside: str, shown: str) -> None:
    assert clean_name(inside) == shown


def test_a_model_without_name_is_called_like_its_file(tmp_path: Path) -> None:
    assert read_header(write(tmp_path, pack(), "模型 é.gguf")).name == "模型 é"


# --- lies -------------------------------------------------------------------------------------------------------


def kv(*changed: raw.Key) -> bytes:
    return pack(with_keys(*changed))


def vocabulary(n: int = 3, **more: raw.Key) -> tuple[raw.Key, ...]:
    tokens: raw.Key = ("tokenizer.ggml.tokens", ARRAY, (STRING, [f"t{i}" for i in range(n)]))
    return (tokens, *more.values())


def byte_tokens(*missing: int) -> list[str]:
    """Returns a SentencePiece vocabulary's tokens for single bytes."""
    return [f"<0x{byte:02X}>" for byte in range(256) if byte not in missing]


def spelled_in(model: str, tokens: list[str], types: list[int] | None = None) -> bytes:
    """Returns a file whose tokenizer is of the kind `model`; every token is an ordinary one without `types`."""
    return kv(
        ("tokenizer.ggml.model", STRING, model),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, types or [1] * len(tokens))),
    )


def one(name: str | bytes = "a", dims: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return pack(tensors=[(name, dims, kind, offset)])


def raw_tensor(described: bytes) -> bytes:
    return pack(tensors=[], n_tensors=1, data=b"", alignment=1) + described + bytes(256)


LIES: dict[str, tuple[bytes, str]] = {
    "cut in the fixed part": (b"GGUF\x03\0\0\0\0\0", "cut off: expected at least 24 bytes, the file has 10"),
    "version 0": (pack(version=0), "version 0"),
    "counts keys beyond the file": (pack(n_kv=10**7), "claims 10,000,000 metadata keys"),
    "counts keys as 2^64-1": (pack(n_kv=2**64 - 1), "metadata keys"),
    "counts tensors beyond the file": (pack(n_tensors=2**63), "tensors, more than it can hold"),
    "has one key more than it counts": (pack(n_kv=len(GOOD_KEYS) - 1), "impossible shape"),
    "key of 2^63 bytes": (pack([(b"x", U32, 1)]).replace(raw.text(b"x"), raw.text(b"x", length=2**63)), "claims"),
    "empty key": (kv(("", U32, 1)), "0 bytes long"),
    "key of 70,000 bytes": (kv(("k" * 70000, U32, 1)), "70,000 bytes long"),
    "key that is no UTF-8": (kv((b"\xff\xfe", U32, 1)), "not UTF-8"),
    "key twice, same value": (pack((*GOOD_KEYS, GOOD_KEYS[1])), "“llama.block_count” appears twice"),
    "key twice, other type": (pack((*GOOD_KEYS, ("llama.block_count", STRING, "x"))), "appears twice"),
    "value type 13": (kv(("k", 13, b"\0" * 8)), "unknown type 13"),
    "value type -1": (kv(("k", -1, b"\0" * 8)), "unknown type"),
    "text of 1 GiB": (kv(("k", STRING, raw.text(b"x", length=1 << 30))), "claims 1,073,741,824 bytes"),
    "text of 2^64-1 bytes": (kv(("k", STRING, raw.text(b"x", length=2**64 - 1))), "claims"),
    "list of 10^8 empty texts": (kv(("k", ARRAY, (STRING, [], 10**8))), "“k” claims 100,000,000 entries"),
    "list of 2^64-1 numbers": (kv(("k", ARRAY, (U8, [], 2**64 - 1))), "entries"),
    "list with one text too long": (kv(("k", ARRAY, (STRING, [raw.text("x", length=1 << 40)]))), "claims"),
    "list of lists": (kv(("k", ARRAY, (ARRAY, [(U8, [1])]))), "list of lists"),
    "lists nested 100 deep": (kv(("k", ARRAY, (ARRAY, [struct.pack("<iQ", ARRAY, 1) * 100]))), "list of lists"),
    "list of an unknown type": (kv(("k", ARRAY, (77, []))), "unknown type 77"),
    "no architecture": (pack(GOOD_KEYS[1:]), "does not name its architecture"),
    "architecture as a number": (kv(("general.architecture", U32, 7)), "does not name its architecture"),
    "empty architecture": (kv(("general.architecture", STRING, " ")), "does not name its architecture"),
    "alignment 0": (kv(("general.alignment", U32, 0)), "alignment is 0"),
    "alignment 3": (kv(("general.alignment", U32, 3)), "alignment is 3"),
    "alignment 24": (kv(("general.alignment", U32, 24)), "alignment is 24"),
    "alignment 2^30": (kv(("general.alignment", U32, 1 << 30)), "alignment is 1,073,741,824"),
    "alignment as a text": (kv(("general.alignment", STRING, "32")), "not a 32-bit number"),
    "alignment as u64": (kv(("general.alignment", U64, 32)), "not a 32-bit number"),
    "no layers": (kv(("llama.block_count", U32, 0)), "“block_count” is 0"),
    "10,000 layers": (kv(("llama.block_count", U32, 10_000)), "“block_count” is 10,000"),
    "layers as a text": (kv(("llama.block_count", STRING, "1")), "“block_count” is not a whole number"),
    "layers as a fraction": (kv(("llama.block_count", F32, 1.5)), "“block_count” is not a whole number"),
    "more draft layers than layers": (kv(("llama.nextn_predict_layers", U32, 2)), "“nextn_predict_layers” is 2"),
    "context length as a text": (kv(("llama.context_length", STRING, "9")), "“context_length” is not"),
    "a negative epsilon": (kv(("llama.attention.layer_norm_rms_epsilon", F32, -1.0)), "rms_epsilon” is -1"),
    "an epsilon that is no number": (kv(("llama.attention.layer_norm_epsilon", F32, math.nan)), "epsilon” is nan"),
    "an endless epsilon": (kv(("llama.attention.group_norm_epsilon", F32, math.inf)), "epsilon” is inf"),
    "width 0": (kv(("llama.embedding_length", U32, 0)), "“embedding_length” is 0"),
    "head size 0": (kv(("llama.attention.key_length", U32, 0)), "“attention.key_length” is 0"),
    "no query heads": (kv(("llama.attention.head_count", U32, 0)), "no query head"),
    "heads that cannot be shared": (kv(("llama.attention.head_count_kv", U32, 3)), "4 query heads cannot share 3"),
    "more heads than numbers": (kv(("llama.attention.head_count", U32, 64)), "claims 64 heads in 32 numbers"),
    "heads for too few layers": (
        kv(("llama.block_count", U32, 3), ("llama.attention.head_count", ARRAY, (U32, [4]))),
        "does not hold a whole number for each of 3 layers",
    ),
    "too many experts": (kv(("llama.expert_count", U32, 5000)), "“expert_count” is 5,000"),
    "uses more experts than it has": (
        kv(("llama.expert_count", U32, 2), ("llama.expert_used_count", U32, 3)), "uses 3 of 2 experts"
    ),
    "uses none of its experts": (kv(("llama.expert_count", U32, 2)), "uses 0 of 2 experts"),
    "expert groups that do not divide": (
        kv(("llama.expert_count", U32, 8), ("llama.expert_used_count", U32, 2), ("llama.expert_group_count", U32, 3)),
        "8 experts cannot form 3 groups",
    ),
    "unknown RoPE scaling": (kv(("llama.rope.scaling.type", STRING, "magic")), "RoPE scaling 'magic'"),
    "vocabulary as a number": (kv(("tokenizer.ggml.tokens", U32, 3)), "not a list of texts"),
    "vocabulary of numbers": (kv(("tokenizer.ggml.tokens", ARRAY, (U32, [1, 2]))), "not a list of texts"),
    "empty vocabulary": (kv(("tokenizer.ggml.tokens", ARRAY, (STRING, []))), "has 0 tokens"),
    "a token twice": (kv(("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b", "a"]))), "holds 'a' twice (id 2)"),
    "tokens that differ only behind a zero byte": (
        kv(("tokenizer.ggml.tokens", ARRAY, (STRING, ["a\0b", "a"]))), "holds 'a' twice (id 1)"
    ),
    "a token called like an empty one": (
        kv(("tokenizer.ggml.tokens", ARRAY, (STRING, ["", "[EMPTY_0]"]))), "holds '[EMPTY_0]' twice"
    ),
    "RoPE over more numbers than a head has": (kv(("llama.rope.dimension_count", U32, 16)), "turns 16 of a head's 8"),
    "RoPE over an odd number": (kv(("llama.rope.dimension_count", U32, 7)), "turns 7 of a head's 8"),
    "fewer scores than tokens": (
        kv(*vocabulary(3), ("tokenizer.ggml.scores", ARRAY, (F32, [0, 0]))), "but “tokenizer.ggml.scores” has 2"
    ),
    "fewer token types than tokens": (
        kv(*vocabulary(3), ("tokenizer.ggml.token_type", ARRAY, (I32, [1]))), "“tokenizer.ggml.token_type” has 1"
    ),
    "token types as a number": (kv(*vocabulary(3), ("tokenizer.ggml.token_type", I32, 1)), "has 0 entries"),
    "EOS outside the vocabulary": (kv(*vocabulary(3), ("tokenizer.ggml.eos_token_id", U32, 3)), "EOS token is 3"),
    "BOS outside the vocabulary": (kv(*vocabulary(3), ("tokenizer.ggml.bos_token_id", U32, 2**32 - 1)), "BOS token is"),
    "EOS as a text": (kv(*vocabulary(3), ("tokenizer.ggml.eos_token_id", STRING, "1")), "EOS token is '1'"),
    "SentencePiece without a byte": (spelled_in("llama", byte_tokens(0x0A, 0xF0)), "no token for the byte 0x0A"),
    "WordPiece with byte tokens": (spelled_in("bert", ["a", "b"], [1, 6]), "WordPiece vocabulary holds byte tokens"),
    "BPE without merges": (kv(*vocabulary(3), ("tokenizer.ggml.model", STRING, "gpt2")), "without merges"),
    "a zero byte in a key": (kv((b"llama.\0x", U32, 1)), "holds a zero byte"),
    "a zero byte in a tensor's name": (one(b"a\0b"), "holds a zero byte"),
    "empty tensor name": (one(""), "0 bytes long"),
    "tensor name of 64 bytes": (one("t" * 64), "64 bytes long"),
    "tensor name that is no UTF-8": (one(b"\xff"), "not UTF-8"),
    "tensor twice": (
        pack(tensors=[GOOD_TENSOR, (*GOOD_TENSOR[:3], 128)], data=bytes(256)), "“output_norm.weight” appears twice"
    ),
    "0 dimensions": (one(dims=()), "has 0 dimensions"),
    "5 dimensions": (one(dims=(32, 1, 1, 1, 1)), "has 5 dimensions"),
    "9 dimensions": (one(dims=(32,) + (1,) * 8), "has 9 dimensions"),
    "2^32-1 dimensions": (raw_tensor(raw.tensor("a", (32,), 0, 0, n_dims=2**32 - 1)), "has 4,294,967,295 dimensions"),
    "a dimension of 0": (one(dims=(32, 0)), "impossible shape 32 × 0"),
    "dimensions that overflow": (one(dims=(1 << 40, 1 << 40)), "impossible shape"),
    "a negative dimension": (one(dims=(2**64 - 32,)), "impossible shape"),
    "rows that are no multiple of the block": (one(dims=(33,), kind=2), "rows of 33 numbers; Q4_0 packs"),
    "weights of integers": (one("a.weight", kind=26), "“a.weight” holds numbers of type I32"),
    "weights of a type for activations": (pack(tensors=[("a.weight", (256,), 15, 0)], data=bytes(292)), "type Q8_K"),
    "tensor type -1": (one(kind=-1), "has the type -1"),
    "an offset between the alignment": (one(offset=1), "at byte 1, which is no multiple of 32"),
    "a hole before the first tensor": (one(offset=64), "at byte 64; it should follow"),
    "tensors that overlap": (
        pack(tensors=[("a", (32,), 0, 0), ("b", (32,), 0, 64)], data=bytes(256)), "overlaps the one before it"
    ),
    "an offset beyond the end": (one(offset=1 << 62), "should follow"),
    "weights beyond the end": (one(dims=(1 << 40,)), "cut off: expected"),
    "the last byte missing": (pack(data=GOOD_DATA[:-1]), "cut off: expected"),
    "no weights at all": (pack(data=b""), "cut off: expected"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_refused_with_its_own_reason(tmp_path: Path, lie: str) -> None:
    data, reason = LIES[lie]
    with pytest.raises(DamagedModel) as caught:
        read_header(write(tmp_path, data))
    assert reason in caught.value.reason
    assert caught.value.info.hint


def test_a_cut_file_names_expected_and_real_size(tmp_path: Path, tiny_bytes: bytes) -> None:
    with pytest.raises(DamagedModel) as caught:
        read_header(write(tmp_path, tiny_bytes[:-1]))
    assert f"expected {len(tiny_bytes):,} bytes, the file has {len(tiny_bytes) - 1:,}" in caught.value.reason


def test_a_model_cut_at_any_tensor_border_is_refused(tmp_path: Path, tiny_bytes: bytes) -> None:
    whole = read_header(write(tmp_path, tiny_bytes))
    for tensor in whole.tensors:
        with pytest.raises(DamagedModel, match="cut off"):
            read_header(write(tmp_path, tiny_bytes[: whole.data_offset + tensor.offset]))


def test_odd_numbers_for_context_and_special_tokens_are_no_damage(tmp_path: Path) -> None:
    keys = with_keys(
        ("llama.context_length", U32, 0), *vocabulary(3), ("tokenizer.ggml.padding_token_id", U32, 9),
    )  # fmt: skip
    assert read_header(write(tmp_path, pack(keys))).context_length == 0


def test_sentencepiece_may_spell_a_byte_as_its_character(tmp_path: Path) -> None:
    data = spelled_in("llama", [*byte_tokens(0x0A, 0x41), "\n", "A"])
    assert read_header(write(tmp_path, data)).n_vocab == 256


def test_tables_of_token_numbers_may_hold_integers(tmp_path: Path) -> None:
    assert read_header(write(tmp_path, one("blk.0.ffn_gate_tid2eid.weight", kind=26))).tensors[0].type == "I32"


# --- what this version cannot run, and foreign files ------------------------------------------------------------

UNSUPPORTED: dict[str, tuple[bytes, str]] = {
    "version 1": (pack(version=1), "version 1"),
    "version 99": (pack(version=99), "version 99"),
    "big-endian": (pack(version=3 << 24), "big-endian"),
    "unknown tensor type": (one(kind=200), "type 200"),
    "tensor type 999": (one(kind=999), "type 999"),
    "dropped type Q4_2": (one(kind=4), "Q4_2"),
    "dropped type Q4_0_8_8": (one(kind=33), "Q4_0_8_8"),
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_what_is_sound_but_not_supported_is_not_called_damaged(tmp_path: Path, kind: str) -> None:
    data, what = UNSUPPORTED[kind]
    with pytest.raises(UnsupportedModel) as caught:
        read_header(write(tmp_path, data))
    assert what in caught.value.what


def safetensors() -> bytes:
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", len(header)) + header + bytes(4)


FOREIGN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty: 0 bytes"),
    "three bytes": (b"GGU", "47 47 55"),
    "web page": (b"\xef\xbb\xbf  <!DOCTYPE html><html>", "web page"),
    "XML error": (b"<?xml version='1.0'?><Error>", "web page"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer of 56 bytes"),
    "safetensors": (safetensors(), "safetensors"),
    "PyTorch zip": (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + bytes(100), "PyTorch checkpoint"),
    "pickle": (b"\x80\x02}q\x00.", "pickle"),
    "GGML of 2023": (b"lmgg" + bytes(40), "old GGML format"),
    "GGJT of 2023": (b"tjgg\x03\0\0\0" + bytes(40), "old GGML format"),
    "zip": (b"PK\x03\x04" + bytes(100), "compressed archive"),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), "compressed archive"),
    "JSON": (b'{"error": "not found"}', "JSON"),
    "zeros": (bytes(5000), "only zeros"),
    "anything": (b"\x7fELF" + bytes(100), "7f 45 4c 46"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_each_foreign_file_is_called_what_it_is(tmp_path: Path, kind: str) -> None:
    data, what = FOREIGN[kind]
    with pytest.raises(NotAModel) as caught:
        read_header(write(tmp_path, data))
    assert what in caught.value.info.message


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", tmp_path / "no" / "folder.gguf", Path(f"{tmp_path}/a\0b.gguf")):
        with pytest.raises(ModelMissing):
            read_header(path)


def test_a_dangling_link_is_missing(tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "gone.gguf")
    with pytest.raises(ModelMissing):
        read_header(link)


def test_a_folder_is_not_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="folder"):
        read_header(tmp_path)


def test_a_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelUnreadable, match="no ordinary file"):
        read_header(tmp_path / "pipe.gguf")


def test_a_name_longer_than_the_system_allows_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="too long"):
        read_header(tmp_path / ("n" * 300 + ".gguf"))


def test_a_file_without_permission_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, pack())

    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelUnreadable, match="permission"):
        read_header(path)


# --- split sets -------------------------------------------------------------------------------------------------


def write_split(folder: Path, prefix: str = "model", parts: int = 3) -> list[Path]:
    paths = []
    for part in range(parts):
        keys = [
            ("split.no", raw.U16, part), ("split.count", raw.U16, parts), ("split.tensors.count", I32, parts),
        ]  # fmt: skip
        data = pack([*(GOOD_KEYS if part == 0 else ()), *keys], [(f"t{part}", (32,), 0, 0)])
        paths.append(write(folder, data, f"{prefix}-{part + 1:05}-of-{parts:05}.gguf"))
    return paths


@pytest.mark.parametrize("picked", [0, 1, 2])
def test_any_part_opens_the_whole_set(tmp_path: Path, picked: int) -> None:
    paths = write_split(tmp_path)
    header = read_header(paths[picked])
    assert header.path == paths[0]
    assert header.parts == tuple(paths)
    assert [(tensor.name, tensor.part) for tensor in header.tensors] == [("t0", 0), ("t1", 1), ("t2", 2)]
    assert header.file_size == sum(path.stat().st_size for path in paths)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    paths[2].unlink()
    for picked in paths[:2]:
        with pytest.raises(PartMissing) as caught:
            read_header(picked)
        assert caught.value.missing == (paths[2].name,)
        assert paths[2].name in str(caught.value)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    with pytest.raises(DamagedModel, match=re.escape(paths[1].name)):
        read_header(paths[0])


def test_parts_of_different_sets_do_not_mix(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    paths[2].write_bytes(paths[1].read_bytes())
    with pytest.raises(DamagedModel, match="part 3 of 3"):
        read_header(paths[0])


def test_a_part_that_was_renamed_says_how_to_name_it(tmp_path: Path) -> None:
    renamed = write_split(tmp_path)[0].rename(tmp_path / "mine.gguf")
    with pytest.raises(UnsupportedModel, match="part 1 of 3"):
        read_header(renamed)


def test_a_single_file_named_like_a_set_of_one_loads(tmp_path: Path) -> None:
    path = write(tmp_path, pack(), "model-00001-of-00001.gguf")
    assert read_header(path).parts == (path,)


def test_split_names_give_all_names_of_the_set() -> None:
    assert [path.name for path in split_parts(Path("x/a-00002-of-00003.gguf"))] == [
        f"a-0000{n}-of-00003.gguf" for n in (1, 2, 3)
    ]
    assert split_parts(Path("x/plain.gguf")) == (Path("x/plain.gguf"),)


# --- size and time ----------------------------------------------------------------------------------------------


def sparse(path: Path, header: bytes, size: int) -> Path:
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
    return path


def keys_only(*changed: raw.Key) -> bytes:
    return pack(with_keys(*changed), tensors=(), data=b"", alignment=1)


GIANTS: dict[str, tuple[bytes, int]] = {
    "a real text of 2 GiB": (keys_only(("k", STRING, raw.text(b"", length=2 << 30))), 3 << 30),
    "a real list of 10^8 empty texts": (keys_only(("k", ARRAY, (STRING, [], 10**8))), 1 << 30),
    "a real list of 2^31 numbers": (keys_only(("k", ARRAY, (U8, [], 1 << 31))), 3 << 30),
    "a vocabulary of 100,000 empty tokens": (
        keys_only(("tokenizer.ggml.tokens", ARRAY, (STRING, [], 100_000))), 64 * MEGABYTE
    ),
    "keys that hold many short lists": (
        pack([*GOOD_KEYS, *((f"k{n}", ARRAY, struct.pack("<iQ", U64, 1000) + b"\xab" * 8000) for n in range(2000))],
             (), b""), 0
    ),
    "names that fill the memory": (
        pack([*GOOD_KEYS, *((f"{n}" + "k" * 60_000, U8, 0) for n in range(900))], (), b""), 0
    ),
    "texts that fill the memory": (
        pack([*GOOD_KEYS, *((f"k{n}", STRING, "t" * 1_000_000) for n in range(60))], (), b""), 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("giant", GIANTS)
def test_no_file_makes_the_reader_fill_the_memory(tmp_path: Path, giant: str) -> None:
    header, size = GIANTS[giant]
    path = sparse(tmp_path / "giant.gguf", header, max(size, len(header)))
    tracemalloc.start()
    try:
        with contextlib.suppress(DamagedModel):
            read_header(path)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * MEGABYTE


def test_an_array_whose_file_shrinks_meanwhile_is_an_error_not_a_crash(tmp_path: Path, tiny_bytes: bytes) -> None:
    path = write(tmp_path, tiny_bytes)
    tokens = read_header(path).metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, GgufArray)
    os.truncate(path, tokens.offset + 20)
    with pytest.raises(DamagedModel, match="shorter"):
        tokens.values()


# --- fuzz -------------------------------------------------------------------------------------------------------


def survives(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        header = read_header(path)
    except UserError:
        return
    assert header.name
    assert header.quantization is not None
    assert all(tensor.n_bytes <= header.file_size for tensor in header.tensors)


def damaged(data: bytes, flips: list[tuple[int, int]], cut: int | None) -> bytes:
    changed = bytearray(data)
    for at, value in flips:
        changed[at % len(changed)] = value
    return bytes(changed if cut is None else changed[: cut % len(changed)])


FLIPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=8)
CUT = st.none() | st.integers(0, 1 << 20)


@pytest.fixture(scope="module")
def fuzz_seed(tiny_bytes: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A tiny model whose header is most of the file."""
    path = tiny_gguf.write_tiny(tmp_path_factory.mktemp("fuzz") / "f.gguf", n_layers=1, d_model=32, n_heads=2, d_ff=32)
    header = read_header(path)
    return path.read_bytes()[: header.data_offset + 1000]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=FLIPS, cut=CUT)
def test_flipped_and_cut_bytes_never_raise_anything_but_errors_for_people(
    tmp_path: Path, fuzz_seed: bytes, flips: list[tuple[int, int]], cut: int | None
) -> None:
    survives(tmp_path / "fuzz.gguf", damaged(fuzz_seed, flips, cut))
    survives(tmp_path / "fuzz.gguf", damaged(pack(with_keys(*vocabulary(3))), flips, cut))


@pytest.mark.acceptance
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=FLIPS, cut=CUT)
def test_thousands_of_flipped_and_cut_files_are_survived(
    tmp_path: Path, fuzz_seed: bytes, flips: list[tuple[int, int]], cut: int | None
) -> None:
    survives(tmp_path / "fuzz.gguf", damaged(fuzz_seed, flips, cut))
    survives(tmp_path / "fuzz.gguf", damaged(pack(with_keys(*vocabulary(3))), flips, cut))
