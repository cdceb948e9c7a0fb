"""Makes GGUF files that mean harm: by hand, and by chance from a seed. Every file is small.

A sound model is taken apart into its keys, tensors and weights; what is wrong is put in, and it is packed again.
"""

from __future__ import annotations

import math
import random
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import raw_gguf
import tiny_gguf
from raw_gguf import ARRAY, BOOL, F32, I32, STRING, U8, U32, U64
from runtime.gguf_header import GgufArray, read_header
from runtime.gguf_types import TENSOR_TYPES, VALUE_TYPE_NAMES

_TYPE_NUMBERS = {name: number for number, name in VALUE_TYPE_NAMES.items()}
_TENSOR_NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_SCALARS = {bool: BOOL, int: U32, float: F32, str: STRING}
EDGES = (0, 1, 2, 3, 7, 31, 255, 65_535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


@dataclass(frozen=True)
class Parts:
    """A file taken apart: keys by name as (type, value), tensors as `raw_gguf` has them, and the weights' bytes."""

    keys: dict[str, tuple[int, Any]]
    tensors: tuple[raw_gguf.Tensor, ...]
    data: bytes
    claims: dict[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        return raw_gguf.pack(
            [(key, *typed) for key, typed in self.keys.items()], self.tensors, self.data, **self.claims
        )

    def having(self, **changed: tuple[int, Any]) -> Parts:
        """Returns it with keys set; two underscores stand for a point."""
        return replace(self, keys=self.keys | {key.replace("__", "."): typed for key, typed in changed.items()})

    def without(self, *names: str) -> Parts:
        keys = {key: typed for key, typed in self.keys.items() if key not in names}
        return replace(self, keys=keys, tensors=tuple(tensor for tensor in self.tensors if tensor[0] not in names))

    def listed(self, key: str) -> list[Any]:
        """Returns the items of a list, to be changed."""
        return list(self.keys[f"tokenizer.ggml.{key}"][1][1])

    def with_list(self, key: str, items: list[Any]) -> Parts:
        kind = self.keys[f"tokenizer.ggml.{key}"][1][0]
        items = [raw_gguf.text(item) if isinstance(item, bytes) else item for item in items]
        return self.having(**{f"tokenizer__ggml__{key}": (ARRAY, (kind, items))})

    def with_tensor(self, at: int, **changed: Any) -> Parts:
        """Returns it with one tensor described in another way: name, dims, kind or offset."""
        name, dims, kind, offset = self.tensors[at]
        new = {"name": name, "dims": dims, "kind": kind, "offset": offset, **changed}
        tensors = list(self.tensors)
        tensors[at] = (new["name"], new["dims"], new["kind"], new["offset"])
        return replace(self, tensors=tuple(tensors))


@cache
def sound() -> Parts:
    """Returns a tiny Llama with a BPE vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_gguf.write_tiny(
            Path(folder) / "model.gguf", n_layers=1, d_model=64, n_heads=4, n_kv_heads=2, d_ff=64, n_ctx=256
        )
        return taken_apart(path)


def taken_apart(path: Path) -> Parts:
    header = read_header(path)
    keys = {key: _typed(value) for key, value in header.metadata.items()}
    keys["tokenizer.ggml.token_type"] = (ARRAY, (I32, list(keys["tokenizer.ggml.token_type"][1][1])))
    tensors = tuple((t.name, t.shape, _TENSOR_NUMBERS[t.type], t.offset) for t in header.tensors)
    return Parts(keys, tensors, path.read_bytes()[header.data_offset :])


def _typed(value: Any) -> tuple[int, Any]:
    if isinstance(value, GgufArray):
        return ARRAY, (_TYPE_NUMBERS[value.item_type], value.values())
    if isinstance(value, tuple):
        return ARRAY, (_SCALARS[type(value[0])] if value else U32, list(value))
    return _SCALARS[type(value)], value


@cache
def sentencepiece() -> Parts:
    """Returns the same model with a SentencePiece vocabulary."""
    base = sound()
    size = len(base.listed("tokens"))
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    letters = [chr(code) for code in range(0x61, 0x7B)]
    pairs = [a + b for a in letters for b in letters]
    tokens = [*tokens, *letters, "▁", *pairs][:size]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (size - 259)]
    changed = base.having(
        tokenizer__ggml__model=(STRING, "llama"), tokenizer__ggml__tokens=(ARRAY, (STRING, tokens)),
        tokenizer__ggml__token_type=(ARRAY, (I32, kinds)),
        tokenizer__ggml__scores=(ARRAY, (F32, [-float(n) for n in range(size)])),
        tokenizer__ggml__bos_token_id=(U32, 1), tokenizer__ggml__eos_token_id=(U32, 2),
        tokenizer__ggml__padding_token_id=(U32, 0),
    )  # fmt: skip
    return changed.without("tokenizer.ggml.merges", "tokenizer.ggml.pre")


# --- by hand ----------------------------------------------------------------------------------------------------

Change = Callable[[Parts], Parts | bytes]
NAN, ENDLESS = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))
BOMBS = {
    "an endless loop": "{% for a in range(10**9) %}{% for b in range(10**9) %}x{% endfor %}{% endfor %}",
    "a huge number": "{{ 10**(10**9) }}",
    "a huge text": "{{ 'A' * 10**10 }}",
    "a macro that calls itself": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "code": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a syntax error": "{% for %}",
    "deep brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "nothing": "",
    "control tokens": "<|im_start|>" * 2000,
    "100,000 letters": "a" * 100_000,
    "bytes that are no text": "\udcff\udcfe",
}


def handmade() -> Iterator[tuple[str, bytes]]:
    """Yields a name and the bytes of each file."""
    for base, changes in ((sound, _CHANGES), (sentencepiece, _SENTENCEPIECE)):
        for name, change in changes.items():
            changed = change(base())
            yield name, changed if isinstance(changed, bytes) else changed.pack()


def _tokens(at: int, text: str | bytes) -> Change:
    def change(parts: Parts) -> Parts:
        tokens = parts.listed("tokens")
        tokens[at] = text
        return parts.with_list("tokens", tokens)

    return change


def _merges(*merges: str | bytes) -> Change:
    return lambda parts: parts.with_list("merges", [*parts.listed("merges"), *merges])


def _kinds(kind: int, first: int = 0, last: int | None = None) -> Change:
    def change(parts: Parts) -> Parts:
        kinds = parts.listed("token_type")
        kinds[first:last] = [kind] * len(kinds[first:last])
        return parts.with_list("token_type", kinds)

    return change


def _key(name: str, kind: int, value: Any) -> Change:
    return lambda parts: replace(parts, keys=parts.keys | {name: (kind, value)})


def _drop(*names: str) -> Change:
    return lambda parts: parts.without(*names)


def _weights(pattern: bytes) -> Change:
    return lambda parts: replace(parts, data=(pattern * (len(parts.data) // len(pattern) + 1))[: len(parts.data)])


def _resized(name: str, *dims: int) -> Change:
    """Gives a tensor another shape; only the shape is wrong."""
    return lambda parts: _laid_out(parts, [(t[0], dims if t[0] == name else t[1]) for t in parts.tensors])


def _lacking(name: str) -> Change:
    """Leaves a tensor out; only that is wrong."""
    return lambda parts: _laid_out(parts, [(t[0], t[1]) for t in parts.tensors if t[0] != name])


def _laid_out(parts: Parts, shapes: Sequence[tuple[str | bytes, Sequence[int]]]) -> Parts:
    """Returns it with these tensors in F32, one behind the other, and weights of zero."""
    laid, at = [], 0
    for name, shape in shapes:
        laid.append((name, shape, 0, at))
        at += -(-4 * math.prod(shape) // 32) * 32
    return replace(parts, tensors=tuple(laid), data=bytes(at))


def _scores(value: float, count: int | None = None) -> Change:
    return lambda parts: parts.with_list("scores", [value] * (count or len(parts.listed("scores"))))


_HPARAMS = {
    "block_count": (0, 2, 511, 1 << 31), "embedding_length": (0, 1, 63, 1 << 30), "context_length": (0, 1 << 31),
    "feed_forward_length": (0, 1, 1 << 31), "attention.head_count": (1, 3, 64, 1 << 31),
    "attention.head_count_kv": (0, 1, 3, 1 << 20), "rope.dimension_count": (0, 2, 8, 1 << 31),
    "attention.key_length": (1, 17, 1 << 15), "attention.value_length": (1, 48), "vocab_size": (1, 1 << 31),
    "expert_count": (8, 1 << 16), "attention.sliding_window": (1, (1 << 32) - 1), "nextn_predict_layers": (1,),
}  # fmt: skip
_CHANGES: dict[str, Change] = {
    "a sound model": lambda parts: parts,
    **{f"{key} = {value}": _key(f"llama.{key}", U32, value) for key, values in _HPARAMS.items() for value in values},
    **{f"a template with {name}": _key("tokenizer.chat_template", STRING, raw_gguf.text(
        text.encode("utf-8", "surrogateescape"))) for name, text in BOMBS.items()},
    "a token with a zero byte": _tokens(300, b"a\0b"),
    "a token of invalid UTF-8": _tokens(300, b"\xff\xfe\x80"),
    "an empty token": _tokens(300, ""),
    "a token twice": _tokens(300, "a"),
    "a token of 100,000 letters": _tokens(300, "q" * 100_000),
    "a merge without a space": _merges("abc"),
    "an empty merge": _merges(""),
    "a merge of a space": _merges(" "),
    "a merge of unknown texts": _merges("☃ ☃"),
    "a merge with a zero byte": _merges(b"a\0 b"),
    "a merge that is no text": _merges(b"\xff \xfe"),
    "the same merge 10,000 times": _merges(*["a b"] * 10_000),
    "merges of numbers": _key("tokenizer.ggml.merges", ARRAY, (U32, [1, 2, 3])),
    "no merges": _drop("tokenizer.ggml.merges"),
    "token types of 99": _kinds(99),
    "token types of -1": _kinds(-1),
    "byte tokens only": _kinds(6),
    "control tokens only": _kinds(3),
    "unused tokens only": _kinds(5),
    "unknown tokens only": _kinds(2),
    "user's tokens only": _kinds(4),
    "token types as texts": _key("tokenizer.ggml.token_type", ARRAY, (STRING, ["1"] * 512)),
    "token types as bytes": _key("tokenizer.ggml.token_type", ARRAY, (U8, [1] * 512)),
    "scores as texts": _key("tokenizer.ggml.scores", ARRAY, (STRING, ["1"] * 512)),
    "an unknown tokenizer": _key("tokenizer.ggml.model", STRING, "magic"),
    "no tokenizer": _drop("tokenizer.ggml.model"),
    "a tokenizer as a number": _key("tokenizer.ggml.model", U32, 1),
    "an unknown pre-tokenizer": _key("tokenizer.ggml.pre", STRING, "magic"),
    "a pre-tokenizer as a number": _key("tokenizer.ggml.pre", U32, 5),
    "a BPE vocabulary called SentencePiece": _key("tokenizer.ggml.model", STRING, "llama"),
    "a BPE vocabulary called WordPiece": _key("tokenizer.ggml.model", STRING, "bert"),
    "a BPE vocabulary called unigram": _key("tokenizer.ggml.model", STRING, "t5"),
    "a BPE vocabulary called RWKV": _key("tokenizer.ggml.model", STRING, "rwkv"),
    "a BPE vocabulary called PLaMo": _key("tokenizer.ggml.model", STRING, "plamo2"),
    "a BOS outside": _key("tokenizer.ggml.bos_token_id", U32, 1 << 30),
    "an end of turn outside": _key("tokenizer.ggml.eot_token_id", U32, 512),
    "an end of message outside": _key("tokenizer.ggml.eom_token_id", U32, 1 << 31),
    "a separator outside": _key("tokenizer.ggml.seperator_token_id", U32, 1 << 31),
    "a padding token outside": _key("tokenizer.ggml.padding_token_id", U32, 512),
    "a newline token outside": _key("tokenizer.ggml.fim_pre_token_id", U32, 1 << 31),
    "BOS wanted and not there": lambda parts: parts.without("tokenizer.ggml.bos_token_id").having(
        tokenizer__ggml__add_bos_token=(BOOL, 1)),
    "BOS wanted as a number": _key("tokenizer.ggml.add_bos_token", U32, 7),
    "a negative BOS": _key("tokenizer.ggml.bos_token_id", I32, -1),
    "a precompiled map of garbage": _key("tokenizer.ggml.precompiled_charsmap", ARRAY, (U8, [255] * 100)),
    "weights of NaN": _weights(NAN),
    "endless weights": _weights(ENDLESS),
    "weights of ones in all bits": _weights(b"\xff"),
    "weights of zero": _weights(b"\0"),
    "an output norm of the wrong size": _resized("output_norm.weight", 32),
    "a wide embedding": _resized("token_embd.weight", 128, 512),
    "an embedding with few rows": _resized("token_embd.weight", 64, 8),
    "an embedding with many rows": _resized("token_embd.weight", 64, 1024),
    "a square of queries too large": _resized("blk.0.attn_q.weight", 64, 4096),
    "keys with too few rows": _resized("blk.0.attn_k.weight", 64, 2),
    "a feed-forward of one row": _resized("blk.0.ffn_up.weight", 64, 1),
    "a matrix of four dimensions": _resized("blk.0.attn_q.weight", 8, 8, 8, 8),
    "no embedding": _lacking("token_embd.weight"),
    "no queries": _lacking("blk.0.attn_q.weight"),
    "no tensors": lambda parts: replace(parts, tensors=(), data=b""),
    "tensors that overlap": lambda parts: parts.with_tensor(3, offset=0),
    "all tensors in one place": lambda parts: replace(parts, tensors=tuple((*t[:3], 0) for t in parts.tensors)),
    "a norm in F16": lambda parts: parts.with_tensor(0, kind=1),
    "a matrix in I8": lambda parts: parts.with_tensor(2, kind=24),
    "a name with a line break": lambda parts: parts.with_tensor(2, name="blk.0\n\x1b[31m.attn_q.weight"),
    "an unknown extra tensor": lambda parts: parts.with_tensor(2, name="surprise.weight"),
    "layer 10^9": lambda parts: parts.with_tensor(2, name="blk.1000000000.attn_q.weight"),
    "another architecture's name": _key("general.architecture", STRING, "gpt2"),
    "an encoder's architecture": _key("general.architecture", STRING, "t5"),
    "a recurrent architecture": _key("general.architecture", STRING, "mamba"),
    "a name of escapes": _key("general.name", STRING, "\x1b]0;owned\x07" * 50),
    "a name of a megabyte": _key("general.name", STRING, "n" * (1 << 20)),
    "a file type of nonsense": _key("general.file_type", U32, (1 << 32) - 1),
    "split into 65,535 parts": _key("split.count", U32, 65_535),
    "a RoPE base of 0": _key("llama.rope.freq_base", F32, 0.0),
    "a RoPE base of NaN": _key("llama.rope.freq_base", F32, float("nan")),
    "a RoPE factor of 0": _key("llama.rope.scaling.factor", F32, 0.0),
    "YaRN over nothing": lambda parts: parts.having(
        llama__rope__scaling__type=(STRING, "yarn"), llama__rope__scaling__factor=(F32, 1e30)),
    "an epsilon of NaN": _key("llama.attention.layer_norm_rms_epsilon", F32, float("nan")),
    "no epsilon": _drop("llama.attention.layer_norm_rms_epsilon"),
    "no head count": _drop("llama.attention.head_count"),
    "a head count as a list too long": _key("llama.attention.head_count", ARRAY, (U32, [4] * 600)),
    "a feed-forward as a list of texts": _key("llama.feed_forward_length", ARRAY, (STRING, ["64"])),
    "a scale of NaN": _key("llama.attention.scale", F32, float("nan")),
    "endless logit scale": _key("llama.logit_scale", F32, float("inf")),
    "adapter keys": _key("general.type", STRING, "adapter"),
    "a cut file": lambda parts: parts.pack()[:-1000],
    "a file with a tail": lambda parts: parts.pack() + b"tail" * 1000,
}  # fmt: skip
_SENTENCEPIECE: dict[str, Change] = {
    "a sound SentencePiece model": lambda parts: parts,
    "scores of NaN": _scores(float("nan")),
    "endless scores": _scores(float("inf")),
    "huge scores": _scores(3e38),
    "SentencePiece without scores": _drop("tokenizer.ggml.scores"),
    "SentencePiece without types": _drop("tokenizer.ggml.token_type"),
    "SentencePiece without bytes": lambda parts: parts.with_list("tokens", [f"t{n}" for n in range(512)]),
    "SentencePiece with a wrong byte": _tokens(100, "<0xZZ>"),
    "SentencePiece of byte tokens only": _kinds(6),
    "SentencePiece with a byte token that is none": _kinds(6, 259, 300),
    "SentencePiece with an unknown token outside": _key("tokenizer.ggml.unknown_token_id", U32, 1 << 31),
    "SentencePiece without an unknown token": lambda parts: _kinds(1, 0, 1)(parts),
    "SentencePiece called BPE": _key("tokenizer.ggml.model", STRING, "gpt2"),
    "SentencePiece called unigram": _key("tokenizer.ggml.model", STRING, "t5"),
    "SentencePiece called WordPiece": _key("tokenizer.ggml.model", STRING, "bert"),
    "SentencePiece with tokens of 60,000 letters": _tokens(300, "ab" * 30_000),
    "SentencePiece with invalid UTF-8": _tokens(400, b"\xc3\x28"),
}


# --- by chance --------------------------------------------------------------------------------------------------


def mutants(count: int, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yields so many damaged files; the same ones for the same seed."""
    draw = random.Random(seed)
    for number in range(count):
        base = draw.choice((sound, sentencepiece))()
        kind = draw.choice(list(_MUTATIONS))
        yield f"{number}: {kind}", _MUTATIONS[kind](base, draw)


def _flipped(parts: Parts, draw: random.Random) -> bytes:
    data = bytearray(parts.pack())
    for _n in range(draw.randint(1, 6)):
        data[draw.randrange(len(data) - len(parts.data))] = draw.randrange(256)
    return bytes(data)


def _flipped_bit(parts: Parts, draw: random.Random) -> bytes:
    data = bytearray(parts.pack())
    data[draw.randrange(len(data) - len(parts.data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _cut(parts: Parts, draw: random.Random) -> bytes:
    data = parts.pack()
    return data[: draw.randrange(len(data))]


def _extended(parts: Parts, draw: random.Random) -> bytes:
    return parts.pack() + draw.randbytes(draw.choice((1, 31, 32, 4096)))


def _swapped(parts: Parts, draw: random.Random) -> bytes:
    data = parts.pack()
    a, b, c = sorted(draw.sample(range(24, len(data) - len(parts.data)), 3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _other_counts(parts: Parts, draw: random.Random) -> bytes:
    claim = draw.choice(("n_kv", "n_tensors"))
    true = len(parts.keys) if claim == "n_kv" else len(parts.tensors)
    return replace(parts, claims={claim: max(0, true + draw.choice((-3, -1, 1, 2, 1 << 40)))}).pack()


def _other_tensor(parts: Parts, draw: random.Random) -> bytes:
    at = draw.randrange(len(parts.tensors))
    name, dims, _kind, offset = parts.tensors[at]
    new: dict[str, Any] = draw.choice((
        {"kind": draw.randrange(45)}, {"offset": max(0, offset + draw.choice((-32, 1, 32, 1 << 40)))},
        {"dims": (*dims[:-1], draw.choice(EDGES))}, {"dims": dims[::-1]}, {"dims": (*dims, 1)},
        {"name": str(name).replace("0", "1")}, {"name": draw.choice(parts.tensors)[0]},
    ))  # fmt: skip
    return parts.with_tensor(at, **new).pack()


def _other_shape(parts: Parts, draw: random.Random) -> bytes:
    resized = draw.choice(parts.tensors)[0]
    shapes = [
        (name, [draw.choice((1, 2, 32, 64, 128, 512, length)) for length in dims] if name == resized else dims)
        for name, dims, _kind, _offset in parts.tensors
    ]
    return _laid_out(parts, shapes).pack()


def _other_number(parts: Parts, draw: random.Random) -> bytes:
    key = draw.choice([key for key, (kind, _value) in parts.keys.items() if kind in (U32, F32, BOOL)])
    kind = draw.choice((parts.keys[key][0], U32, F32, U64, I32))
    number = draw.choice((*EDGES, draw.randrange(512)))
    limits = {BOOL: number % 256, I32: min(number, (1 << 31) - 1)}
    odd = draw.choice((float(number), float("nan"), float("inf"), -1.0, 1e-38))
    value = odd if kind == F32 else limits.get(kind, number)
    return replace(parts, keys=parts.keys | {key: (kind, value)}).pack()


def _missing(parts: Parts, draw: random.Random) -> bytes:
    return parts.without(draw.choice([*parts.keys, *(str(tensor[0]) for tensor in parts.tensors)])).pack()


def _other_tokens(parts: Parts, draw: random.Random) -> bytes:
    tokens = parts.listed("tokens")
    for _n in range(draw.randint(1, 20)):
        odd = (draw.randbytes(draw.randrange(9)), draw.choice(tokens), "", "▁" * 20, b"\0", "é" * draw.randrange(3000))
        tokens[draw.randrange(len(tokens))] = draw.choice(odd)
    return parts.with_list("tokens", tokens).pack()


def _other_kinds(parts: Parts, draw: random.Random) -> bytes:
    kinds = parts.listed("token_type")
    for _n in range(draw.choice((1, 20, 400))):
        kinds[draw.randrange(len(kinds))] = draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 99, -1))
    return parts.with_list("token_type", kinds).pack()


def _other_merges(parts: Parts, draw: random.Random) -> bytes:
    if "tokenizer.ggml.merges" not in parts.keys:
        scores = [draw.choice((0.0, 1e38, float("nan"), -1e38, score)) for score in parts.listed("scores")]
        return parts.with_list("scores", scores).pack()
    merges = parts.listed("merges")
    for _n in range(draw.randint(1, 20)):
        odd = (draw.randbytes(8), "x  y", " ", "", "a b c", b"\xff \xff", "Ġ Ġ", draw.choice(merges))
        merges.insert(draw.randrange(len(merges)), draw.choice(odd))
    return parts.with_list("merges", merges).pack()


def _other_weights(parts: Parts, draw: random.Random) -> bytes:
    data = bytearray(parts.data)
    for _n in range(draw.choice((1, 10, 1000))):
        at = draw.randrange(len(data) // 4) * 4
        data[at : at + 4] = draw.choice((NAN, ENDLESS, b"\xff\xff\x7f\x7f", draw.randbytes(4)))
    return replace(parts, data=bytes(data)).pack()


def _other_order(parts: Parts, draw: random.Random) -> bytes:
    keys = list(parts.keys.items())
    draw.shuffle(keys)
    tensors = list(parts.tensors)
    if draw.random() < 0.3:
        draw.shuffle(tensors)
    return replace(parts, keys=dict(keys), tensors=tuple(tensors)).pack()


_MUTATIONS: dict[str, Callable[[Parts, random.Random], bytes]] = {
    "bytes flipped in the header": _flipped,
    "a bit flipped in the header": _flipped_bit,
    "cut": _cut,
    "extended": _extended,
    "sections swapped": _swapped,
    "other counts": _other_counts,
    "a tensor described wrongly": _other_tensor,
    "a tensor of another shape": _other_shape,
    "another number": _other_number,
    "something missing": _missing,
    "other tokens": _other_tokens,
    "other token types": _other_kinds,
    "other merges or scores": _other_merges,
    "other weights": _other_weights,
    "another order": _other_order,
}
