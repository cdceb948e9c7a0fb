"""Holds a GGUF file's metadata against what models can be. Reads no file but for the vocabulary's entries.

Besides plain contradictions, these are the cases in which llama.cpp ends the process instead of reporting an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from runtime import charsmap
from runtime.gguf_reader import GgufArray, Lie, Value
from runtime.gguf_tensors import TensorInfo
from runtime.model_errors import clean_name
from runtime.text import _

_MAX_LAYERS, _MAX_EXPERTS = 512, 1024  # llama.cpp's limits; it aborts beyond them
_FEWEST_BUCKETS = 4  # with fewer, llama.cpp computes numbers of buckets that do not exist
_MAX_VOCABULARY = 1 << 19  # twice the largest that exists
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_TOKENS = "tokenizer.ggml.tokens"
_BYTE_TOKEN = 6  # llama.cpp's LLAMA_TOKEN_TYPE_BYTE
_NO_WEIGHTS = frozenset({"Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"})  # nothing can be multiplied with these
_WEIGHT_NAMES = (".weight", ".lora_a", ".lora_b")
_NO_MODEL = "imatrix"  # measurements of a model, of whatever architecture
_INTEGER_TABLES = (".ffn_gate_tid2eid.weight",)  # looked up by token number, never multiplied


def check(metadata: Mapping[str, Value]) -> None:
    """Raises `Lie` for the first contradiction between the keys."""
    architecture = metadata.get("general.architecture")
    if metadata.get("general.type") == _NO_MODEL and architecture is None:
        return
    if not isinstance(architecture, str) or not architecture.strip():
        raise Lie(_("It does not name its architecture."))
    if metadata.get("general.type", "model") == "model":
        _check_shape(_Keys(metadata, architecture))
    _check_tokens(metadata)
    n_vocab = _count(metadata.get(_TOKENS))
    if n_vocab:
        _Keys(metadata, architecture).number("decoder_start_token_id", most=n_vocab - 1)


def check_types(tensors: Iterable[TensorInfo]) -> None:
    """Raises `Lie` for a weight of a type that is not made for weights."""
    for tensor in tensors:
        if tensor.type in _NO_WEIGHTS and _is_weight(tensor.name):
            raise Lie(_("Tensor “{name}” holds numbers of type {type}, which no weights have.").format(
                name=clean_name(tensor.name), type=tensor.type))  # fmt: skip


def _is_weight(name: str) -> bool:
    return name.endswith(_WEIGHT_NAMES) and not name.endswith(_INTEGER_TABLES)


def check_vocabulary(metadata: Mapping[str, Value]) -> None:
    """Raises `Lie` for entries of the vocabulary on which llama.cpp aborts, at once or with a text that needs them."""
    _check_twins(metadata)
    model = metadata.get("tokenizer.ggml.model")
    if model == "llama":
        _check_bytes(metadata)
    if model == "t5":
        _check_charsmap(metadata.get("tokenizer.ggml.precompiled_charsmap"))
    if model == "bert" and _BYTE_TOKEN in _items(metadata.get("tokenizer.ggml.token_type")):
        raise Lie(_("Its WordPiece vocabulary holds byte tokens, which cannot be."))


def _check_charsmap(value: Value | None) -> None:
    if value is not None and not charsmap.is_sound(_bytes_of(value)):
        raise Lie(_("Its table of characters to normalize leads nowhere."))


def _bytes_of(value: Value) -> bytes:
    """Returns an array of bytes, signed or not; nothing for another value."""
    if isinstance(value, GgufArray):
        return value.raw_bytes() if value.item_type in ("u8", "i8") else b""
    numbers = value if isinstance(value, tuple) else ()
    return bytes(number & 0xFF for number in numbers if isinstance(number, int))


def _check_bytes(metadata: Mapping[str, Value]) -> None:
    """SentencePiece spells what it has no token for in bytes, as “<0x0A>” or as the character itself."""
    tokens = set(_raw_tokens(metadata.get(_TOKENS, ())))
    for byte in range(256) if tokens else ():
        if b"<0x%02X>" % byte not in tokens and bytes([byte]) not in tokens:
            raise Lie(_("Its vocabulary has no token for the byte 0x{byte:02X}.").format(byte=byte))


def _check_twins(metadata: Mapping[str, Value]) -> None:
    """llama.cpp reads each text up to a zero byte, gives empty ones a name of their own, and wants no text twice."""
    seen: set[int] = set()  # hashes, since the texts may be long
    for token, raw in enumerate(_raw_tokens(metadata.get(_TOKENS, ()))):
        known = raw.partition(b"\0")[0] or b"[EMPTY_%d]" % token
        mark = hash(known)  # of bytes: a str hashes its memory, in which "('" and "✨" are the same
        if mark in seen:
            shown = repr(known.decode("utf-8", "replace"))[:60]
            raise Lie(_("Its vocabulary holds {text} twice (id {id}).").format(text=shown, id=token))
        seen.add(mark)


def _items(value: Value | None) -> Iterable[object]:
    return value if isinstance(value, tuple | GgufArray) else ()


def _raw_tokens(tokens: Value) -> Iterable[bytes]:
    if isinstance(tokens, GgufArray):
        return tokens.raw_strings()
    assert isinstance(tokens, tuple)
    return (str(text).encode() for text in tokens)


class _Keys:
    """An architecture's own keys."""

    def __init__(self, metadata: Mapping[str, Value], architecture: str) -> None:
        self._metadata = metadata
        self._architecture = architecture

    def get(self, key: str) -> Value | None:
        return self._metadata.get(f"{self._architecture}.{key}")

    def number(self, key: str, *, least: int = 0, most: int = 0xFFFF_FFFF) -> int | None:
        """Returns a whole number, None where it is missing. Raises `Lie` outside the bounds and for other types."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int:
            raise Lie(_("“{key}” is not a whole number.").format(key=key))
        if not least <= value <= most:
            raise Lie(
                _("“{key}” is {value}; possible are {least} to {most}.").format(
                    key=key, value=f"{value:,}", least=f"{least:,}", most=f"{most:,}"
                )
            )
        return value

    def numbers(self, key: str, n_layers: int) -> tuple[int, ...]:
        """Returns a whole number per layer; nothing where the key is missing."""
        value = self.get(key)
        if not isinstance(value, tuple):
            one = self.number(key)
            return () if one is None else (one,) * n_layers
        if len(value) < n_layers or not all(type(n) is int and 0 <= n <= 0xFFFF_FFFF for n in value):
            raise Lie(_("“{key}” does not hold a whole number for each of {n} layers.").format(key=key, n=n_layers))
        return tuple(int(n) for n in value[:n_layers])


def _check_shape(keys: _Keys) -> None:
    n_layers = keys.number("block_count", least=1, most=_MAX_LAYERS) or 0
    keys.number("nextn_predict_layers", most=n_layers)
    keys.number("context_length")
    keys.number("decoder_block_count", most=_MAX_LAYERS)
    keys.number("attention.relative_buckets_count", least=_FEWEST_BUCKETS, most=1 << 16)
    d_model = keys.number("embedding_length", least=1)
    for key in ("attention.key_length", "attention.value_length"):
        keys.number(key, least=1, most=1 << 16)
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "attention.group_norm_epsilon"):
        _check_epsilon(key, keys.get(key))
    _check_heads(keys, n_layers, d_model)
    _check_experts(keys, n_layers)
    scaling = keys.get("rope.scaling.type")
    if scaling is not None and scaling not in _ROPE_SCALINGS:
        raise Lie(_("It names the RoPE scaling {name}, which does not exist.").format(name=repr(scaling)[:60]))


def _check_epsilon(key: str, value: Value | None) -> None:
    if isinstance(value, float) and not 0 <= value < math.inf:
        raise Lie(_("“{key}” is {value:g}, which cannot be.").format(key=key, value=value))


def _check_heads(keys: _Keys, n_layers: int, d_model: int | None) -> None:
    heads = keys.numbers("attention.head_count", n_layers)
    kv_heads = keys.numbers("attention.head_count_kv", n_layers) or heads
    for n_heads, n_kv_heads in zip(heads, kv_heads, strict=False):
        # Layers without attention have no heads of either kind.
        if n_heads == 0 and n_kv_heads:
            raise Lie(_("It has {kv} key and value heads and no query head.").format(kv=n_kv_heads))
        if n_heads and n_kv_heads and n_heads % n_kv_heads:
            raise Lie(_("Its {heads} query heads cannot share {kv} key and value heads.").format(
                heads=n_heads, kv=n_kv_heads))  # fmt: skip
        if n_heads and d_model and n_heads > d_model:
            raise Lie(_("It claims {heads} heads in {width} numbers.").format(heads=f"{n_heads:,}", width=d_model))
    if heads and heads[0] and d_model:
        _check_rotation(keys, keys.number("attention.key_length") or d_model // heads[0])


def _check_rotation(keys: _Keys, head_dim: int) -> None:
    rotated = keys.get("rope.dimension_count")
    if isinstance(rotated, int) and (rotated > head_dim or rotated % 2):
        raise Lie(
            _("RoPE turns {n} of a head's {size} numbers, which cannot be.").format(n=f"{rotated:,}", size=head_dim)
        )


def _check_experts(keys: _Keys, n_layers: int) -> None:
    n_experts = keys.number("expert_count", most=_MAX_EXPERTS) or 0
    used = max(keys.numbers("expert_used_count", n_layers), default=0)
    if used > n_experts or (n_experts and not used):
        raise Lie(_("It uses {used} of {n} experts, which cannot be.").format(used=used, n=n_experts))
    groups = keys.number("expert_group_count") or 0
    if groups and (groups >= n_experts or n_experts % groups):
        raise Lie(_("Its {n} experts cannot form {groups} groups.").format(n=n_experts, groups=groups))


def _check_tokens(metadata: Mapping[str, Value]) -> None:
    tokens = metadata.get(_TOKENS)
    if tokens is None:
        return
    if not _is_list_of(tokens, str, "string"):
        raise Lie(_("Its vocabulary is not a list of texts."))
    n_vocab = _count(tokens)
    if not 0 < n_vocab <= _MAX_VOCABULARY:
        raise Lie(_("Its vocabulary has {n} tokens; no model has that many.").format(n=f"{n_vocab:,}"))
    for key in ("tokenizer.ggml.scores", "tokenizer.ggml.token_type"):
        if key in metadata and _count(metadata[key]) != n_vocab:
            raise Lie(
                _("Its vocabulary has {n} tokens, but “{key}” has {other} entries.").format(
                    n=f"{n_vocab:,}", key=key, other=f"{_count(metadata[key]):,}"
                )
            )
    _check_marks(metadata, n_vocab)
    if metadata.get("tokenizer.ggml.model") == "gpt2" and not _count(metadata.get("tokenizer.ggml.merges")):
        raise Lie(_("Its BPE vocabulary comes without merges."))


def _check_marks(metadata: Mapping[str, Value], n_vocab: int) -> None:
    for key in ("bos", "eos", "eot"):
        token = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if token is None:
            continue
        if type(token) is not int or not 0 <= token < n_vocab:
            raise Lie(
                _("Its {mark} token is {token}, outside its vocabulary of {n} tokens.").format(
                    mark=key.upper(), token=repr(token)[:40], n=f"{n_vocab:,}"
                )
            )


def _count(value: Value | None) -> int:
    return len(value) if isinstance(value, tuple | GgufArray) else 0


def _is_list_of(value: Value, kind: type, item_type: str) -> bool:
    if isinstance(value, GgufArray):
        return value.item_type == item_type
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)
