"""Writes tiny self-made GGUF models for tests. Knows the format only through gguf-py's writer.

`write_tiny` makes a random Llama-type model, `write_scripted` one that plays back a text known in advance.
Both have a byte-level BPE vocabulary: ids 0-255 are the bytes, then come the control tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np

END_OF_TEXT, IM_START, IM_END, REPLY = 256, 257, 258, 259
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CERTAIN = 100.0  # the logit of a scripted successor; every other token has 0

_RMS_EPSILON = 1e-5
_HEAD_GAIN = 16.0  # standard deviation of a tiny model's logits: the best two differ clearly
_GOOD_SEED = 10  # with seed 0, the two best logits then differ by more than 0.05 in greedy answers to plain prompts
_CORPUS = (
    "The miller opened the sluice and the stone began to turn. Grain ran down from the hopper, and the flour came out "
    "at the other side, warm and fine. Every morning the people of the village brought their sacks, and every evening "
    "they carried them home again. When the water was low the wheel stood still; then they talked about the weather, "
    "the harvest and the price of bread. What is the answer to this question? Nobody knows, said the miller, but "
    "there are some things that we could try before the winter comes. Hello there, how are you today? I am well, thank "
    "you very much. One two three four five six seven eight nine ten. def main(): "
    "return values[index] for name in files."
)


def chatml_template() -> str:
    """Returns a plain ChatML template; its generation prompt ends with "assistant" and a newline."""
    return (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def scripted_template() -> str:
    """Returns ChatML whose generation prompt ends with the control token `<|reply|>`, which no script ever holds."""
    return chatml_template().replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<|reply|>")


def write_tiny(
    path: Path, *, seed: int = 0, n_layers: int = 2, d_model: int = 256, n_heads: int = 8, n_kv_heads: int = 2,
    head_dim: int | None = None, d_ff: int = 512, n_ctx: int = 4096, tied: bool = False,
    chat_template: str | None = chatml_template(), add_bos: bool = False, type: str = "F32", name: str = "Tiny",
    metadata: Mapping[str, Any] | None = None, tensors_per_file: int = 0,
    changes: Mapping[str, np.ndarray] | None = None, experts: int = 0,
) -> Path:  # fmt: skip
    """Writes a random Llama-type model with 512 tokens and returns `path`.

    `type` is the GGUF type of all matrices ("F32", "F16", "Q8_0", "Q4_0" …). `head_dim` other than d_model / n_heads
    is written as key and value length. `metadata` adds or replaces keys (int → u32, negative → i32, float, str, bool).
    With `experts`, each layer's feed-forward is a mixture of so many, two of which act on a token.
    `changes` are added to the matrices of their names, as (outputs, inputs), or are tensors of their own.
    With `tensors_per_file` the model is split; the first part's path, PATH-00001-of-0000N.gguf, is returned.
    """
    shape = _Shape(n_layers, d_model, n_heads, n_kv_heads, head_dim or d_model // n_heads, d_ff, n_ctx)
    spell, merges = _tiny_vocabulary()
    rng = np.random.default_rng(_GOOD_SEED + seed)
    tensors = {key: _random(rng, size, gain) for key, (size, gain) in _llama_matrices(shape).items()}
    if experts:
        tensors = _with_experts(rng, tensors, shape, experts)
        metadata = {"llama.expert_count": experts, "llama.expert_used_count": 2, **(metadata or {})}
    tensors["token_embd.weight"] = _random(rng, (512, d_model), _HEAD_GAIN)
    if not tied:
        tensors["output.weight"] = _random(rng, (512, d_model), _HEAD_GAIN)
    tensors |= {key: _random_norm(rng, d_model, key) for key in _norms(shape)}
    for key, change in (changes or {}).items():
        tensors[key] = tensors.get(key, np.float32(0)) + change.astype(np.float32)
    vocabulary = _Vocabulary(spell, _types(spell), merges)
    _write(path, shape, vocabulary, tensors, name=name, chat_template=chat_template, add_bos=add_bos, type=type,
           metadata=metadata or {}, tensors_per_file=tensors_per_file)  # fmt: skip
    return sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf"))[0] if tensors_per_file else path


def write_windowed(path: Path, *, seed: int = 0, n_layers: int = 6, window: int = 256, n_ctx: int = 4096) -> Path:
    """Writes a random Gemma-3-type model: five of six layers attend only to the last `window` tokens. Tied."""
    shape = _Shape(n_layers, 256, 4, 2, 64, 512, n_ctx, architecture="gemma3")
    spell, merges = _tiny_vocabulary()
    rng = np.random.default_rng(_GOOD_SEED + seed)
    tensors = {key: _random(rng, size, gain) for key, (size, gain) in _llama_matrices(shape).items()}
    tensors["token_embd.weight"] = _random(rng, (512, shape.d_model), 1.0)
    extra = {"post_attention_norm": shape.d_model, "post_ffw_norm": shape.d_model,
             "attn_q_norm": shape.head_dim, "attn_k_norm": shape.head_dim}  # fmt: skip
    tensors |= {
        f"blk.{layer}.{key}.weight": np.ones(size, np.float32)
        for layer in range(n_layers) for key, size in extra.items()
    }  # fmt: skip
    vocabulary = _Vocabulary(spell, _types(spell), merges)
    _write(path, shape, vocabulary, tensors, name="Windowed", chat_template=chatml_template(), add_bos=False,
           type="F32", metadata={"gemma3.attention.sliding_window": window})  # fmt: skip
    return path


def write_learned(path: Path, *, seed: int = 0, n_layers: int = 1, n_ctx: int = 128) -> Path:
    """Writes a random GPT-2-type model, which has a table of `n_ctx` positions. Tied."""
    C, F = 256, 512
    shape = _Shape(n_layers, C, 4, 4, 64, F, n_ctx, architecture="gpt2")
    spell, merges = _tiny_vocabulary()
    rng = np.random.default_rng(_GOOD_SEED + seed)
    rows = {"attn_qkv": (3 * C, C), "attn_output": (C, C), "ffn_up": (F, C), "ffn_down": (C, F)}
    tensors = {"token_embd.weight": _random(rng, (512, C), 1.0), "position_embd.weight": _random(rng, (n_ctx, C), 1.0),
               "output_norm.bias": np.zeros(C, np.float32)}  # fmt: skip
    for layer in range(n_layers):
        for key, size in rows.items():
            tensors[f"blk.{layer}.{key}.weight"] = _random(rng, size, 1.0)
            tensors[f"blk.{layer}.{key}.bias"] = np.zeros(size[0], np.float32)
        for key in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{key}.bias"] = np.zeros(C, np.float32)
    _write(path, shape, _Vocabulary(spell, _types(spell), merges), tensors, name="Learned",
           chat_template=chatml_template(), add_bos=False, type="F32",
           metadata={"gpt2.attention.layer_norm_epsilon": 1e-5})  # fmt: skip
    return path


@dataclass(frozen=True)
class Script:
    """What a scripted model will say: token ids by position, and the ids' own bytes."""

    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]
    n_vocab: int

    @property
    def data(self) -> bytes:
        """The whole reply, once through for a cyclic one."""
        return b"".join(self.pieces)


def write_scripted(
    path: Path, reply: Sequence[bytes], *, cyclic: bool = False, n_ctx: int = 4096,
    chat_template: str | None = scripted_template(), add_bos: bool = False, control: Collection[bytes] = (),
    user_defined: Collection[bytes] = (), distribution: Mapping[bytes | None, Mapping[bytes, float]] | None = None,
    name: str = "Scripted", metadata: Mapping[str, Any] | None = None,
) -> Script:  # fmt: skip
    """Writes a model that answers every prompt with the tokens of `reply`, then ends (or starts over, if `cyclic`).

    Each entry is one token with exactly these bytes, and must be different from the others. An entry of one byte is
    the byte's own token, and `b"<|im_end|>"` is the control token: a raw prompt that ends with such a token goes on
    after it instead of starting the reply. Entries in `control` or `user_defined` get that token type.
    `distribution` replaces the certain successor of an entry (None: of the prompt) by tokens with these
    probabilities; tokens named there that the reply lacks are added and followed by the reply's start.
    """
    choices = dict(distribution or {})
    entries = list(dict.fromkeys([*reply, *(token for chances in choices.values() for token in chances)]))
    if len(set(reply)) != len(reply) or b"" in entries or not reply:
        raise ValueError("a script needs entries, all different from each other and none empty")
    known = _scripted_vocabulary(entries, frozenset(control), frozenset(user_defined))
    ids = [known.ids[entry] for entry in reply]
    size = len(known.vocabulary.spelling)
    follows: dict[int, dict[int, float]] = {token: {ids[0]: 1.0} for token in range(size)}
    follows |= {now: {then: 1.0} for now, then in zip(ids, [*ids[1:], ids[0] if cyclic else IM_END], strict=True)}
    for entry, chances in choices.items():
        row = {known.ids[token]: chance for token, chance in chances.items()}
        starts = [token for token in range(size) if token not in ids]
        follows |= {token: row for token in ([known.ids[entry]] if entry is not None else starts)}
    shape = _Shape(n_layers=1, d_model=size, n_heads=2, n_kv_heads=1, head_dim=32, d_ff=32, n_ctx=n_ctx)
    tensors = {key: np.zeros(dims, np.float32) for key, (dims, _) in _llama_matrices(shape).items()}
    tensors["token_embd.weight"] = np.eye(size, dtype=np.float32)
    tensors["output.weight"] = _successor_matrix(follows, size)
    _write(path, shape, known.vocabulary, tensors, name=name, chat_template=chat_template, add_bos=add_bos,
           type="F32", metadata=metadata or {})  # fmt: skip
    return Script(tuple(ids), tuple(reply), size)


def pieces_of(text: str) -> list[bytes]:
    """Splits a text into different pieces, about a word each, so that it can be scripted."""
    seen: set[bytes] = set()
    pieces: list[bytes] = []
    current = b""
    for part in re.findall(r"\s?\S{1,6}|\s", text):
        current += part.encode()
        if current not in seen and len(current) > 1:
            seen.add(current)
            pieces.append(current)
            current = b""
    if current:  # what is left over may repeat an earlier piece: the last piece takes it in
        pieces[-1:] = [(pieces[-1] if pieces else b"") + current]
    return pieces


def spelled(data: bytes) -> str:
    """Returns bytes in GPT-2's spelling, in which every byte is a printable character."""
    return "".join(_byte_characters()[byte] for byte in data)


# --- vocabulary -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Vocabulary:
    spelling: list[str]
    types: list[int]
    merges: list[str]


@dataclass(frozen=True)
class _ScriptedVocabulary:
    vocabulary: _Vocabulary
    ids: dict[bytes, int] = field(default_factory=dict)


@cache
def _byte_characters() -> tuple[str, ...]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


def _types(spelling: Sequence[str], control: Collection[str] = CONTROL_TOKENS) -> list[int]:
    return [int(gguf.TokenType.CONTROL if text in control else gguf.TokenType.NORMAL) for text in spelling]


@cache
def _tiny_vocabulary() -> tuple[list[str], list[str]]:
    spelling = [*_byte_characters(), *CONTROL_TOKENS]
    merges: list[str] = []
    words = [list(spelled(word.encode())) for word in re.findall(r" ?\w+| ?[^\s\w]+", _CORPUS)]
    while len(spelling) < 512:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        first, second = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(f"{first} {second}")
        words = [_merged(word, first, second) for word in words]
        if first + second not in spelling:
            spelling.append(first + second)
    return spelling, merges


def _merged(word: list[str], first: str, second: str) -> list[str]:
    result: list[str] = []
    for part in word:
        if result and result[-1] == first and part == second:
            result[-1] += part
        else:
            result.append(part)
    return result


def _scripted_vocabulary(
    entries: Sequence[bytes], control: frozenset[bytes], user_defined: frozenset[bytes]
) -> _ScriptedVocabulary:
    base = [*_byte_characters(), *CONTROL_TOKENS, "<|reply|>", spelled(b"\0\0")]  # the last one for the only merge
    types = _types(base, (*CONTROL_TOKENS, "<|reply|>"))
    ids = {bytes([byte]): byte for byte in range(256)}
    ids |= {text.encode(): 256 + at for at, text in enumerate((*CONTROL_TOKENS, "<|reply|>"))}
    for entry in (entry for entry in entries if entry not in ids):
        raw = entry in control or entry in user_defined
        ids[entry] = len(base)
        base.append(entry.decode() if raw else spelled(entry))
        kind = gguf.TokenType.CONTROL if entry in control else gguf.TokenType.USER_DEFINED
        types.append(int(kind if raw else gguf.TokenType.NORMAL))
    size = -(-max(len(base), 512) // 256) * 256
    unused = range(len(base), size)
    base += [f"[unused {token}]" for token in unused]
    types += [int(gguf.TokenType.UNUSED) for _ in unused]
    return _ScriptedVocabulary(_Vocabulary(base, types, [f"{spelled(bytes(1))} {spelled(bytes(1))}"]), ids)


# --- weights ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    n_ctx: int
    architecture: str = "llama"


def _llama_matrices(shape: _Shape) -> dict[str, tuple[tuple[int, int], float]]:
    """Returns each matrix of the blocks as (rows, columns) and gain."""
    C, Q, KV, F = shape.d_model, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim, shape.d_ff
    rows = {
        "attn_q": ((Q, C), 1.0), "attn_k": ((KV, C), 1.0), "attn_v": ((KV, C), 2.0), "attn_output": ((C, Q), 2.0),
        "ffn_gate": ((F, C), 1.0), "ffn_up": ((F, C), 1.0), "ffn_down": ((C, F), 1.0),
    }  # fmt: skip
    return {f"blk.{layer}.{key}.weight": row for layer in range(shape.n_layers) for key, row in rows.items()}


def _with_experts(
    rng: np.random.Generator, tensors: Mapping[str, np.ndarray], shape: _Shape, experts: int
) -> dict[str, np.ndarray]:
    """Returns the matrices with a stack of random ones for each of the feed-forward's, and a router (E, C)."""
    found: dict[str, np.ndarray] = {}
    for key, values in tensors.items():
        if ".ffn_" in key:
            stack = [_random(rng, values.shape, 1.0) for _ in range(experts)]
            found[key.replace(".weight", "_exps.weight")] = np.stack(stack)
        else:
            found[key] = values
    routers = {f"blk.{layer}.ffn_gate_inp.weight": (experts, shape.d_model) for layer in range(shape.n_layers)}
    return found | {key: _random(rng, size, 4.0) for key, size in routers.items()}


def _random(rng: np.random.Generator, size: tuple[int, int], gain: float) -> np.ndarray:
    return (rng.standard_normal(size, np.float32) * np.float32(gain / size[1] ** 0.5)).astype(np.float32)


def _random_norm(rng: np.random.Generator, size: int, name: str) -> np.ndarray:
    """Returns norm weights near 1. The last norm's have random signs, or a tied head would repeat the last token."""
    weights = 1 + 0.1 * rng.standard_normal(size, np.float32)
    return weights * (rng.choice(np.float32([-1, 1]), size) if name == "output_norm.weight" else np.float32(1))


def _successor_matrix(follows: Mapping[int, Mapping[int, float]], size: int) -> np.ndarray:
    """Returns the head (V, C) whose logits after a token are CERTAIN + ln p for its successors, and 0 else."""
    norm_of_one_hot = 1 / (1 / size + _RMS_EPSILON) ** 0.5  # RMSNorm turns the embedding's single 1 into this
    head = np.zeros((size, size), np.float32)
    for token, chances in follows.items():
        for then, chance in chances.items():
            head[then, token] = (CERTAIN + np.log(chance)) / norm_of_one_hot
    return head


# --- the file ---------------------------------------------------------------------------------------------------


def _write(
    path: Path, shape: _Shape, vocabulary: _Vocabulary, tensors: Mapping[str, np.ndarray], *, name: str,
    chat_template: str | None, add_bos: bool, type: str, metadata: Mapping[str, Any], tensors_per_file: int = 0,
) -> None:  # fmt: skip
    writer = gguf.GGUFWriter(path, shape.architecture, split_max_tensors=tensors_per_file)
    for key, value in (_llama_metadata(shape, name, len(vocabulary.spelling), type) | dict(metadata)).items():
        _add(writer, key, value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.spelling)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    for key, token in (("bos", END_OF_TEXT), ("eos", IM_END), ("padding", END_OF_TEXT)):
        if f"tokenizer.ggml.{key}_token_id" not in metadata:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token)
    writer.add_add_bos_token(add_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for key, values in {**_norms(shape), **tensors}.items():
        _add_tensor(writer, key, values, type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _llama_metadata(shape: _Shape, name: str, n_vocab: int, type: str) -> dict[str, Any]:
    own: dict[str, Any] = {
        "block_count": shape.n_layers, "context_length": shape.n_ctx, "embedding_length": shape.d_model,
        "feed_forward_length": shape.d_ff, "attention.head_count": shape.n_heads,
        "attention.head_count_kv": shape.n_kv_heads, "attention.layer_norm_rms_epsilon": _RMS_EPSILON,
        "rope.freq_base": 10000.0, "rope.dimension_count": shape.head_dim, "vocab_size": n_vocab,
    }  # fmt: skip
    if shape.head_dim * shape.n_heads != shape.d_model or shape.architecture != "llama":
        own |= {"attention.key_length": shape.head_dim, "attention.value_length": shape.head_dim}
    general = {"name": name, "file_type": int(_file_type(type)), "quantization_version": 2}
    return {f"general.{key}": value for key, value in general.items()} | {
        f"{shape.architecture}.{key}": value for key, value in own.items()
    }


def _file_type(type: str) -> int:
    names = {"F32": "ALL_F32"}
    return gguf.LlamaFileType[names.get(type, f"MOSTLY_{type}")]


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if key == "general.alignment":
        writer.add_custom_alignment(value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        (writer.add_uint32 if value >= 0 else writer.add_int32)(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _norms(shape: _Shape) -> dict[str, np.ndarray]:
    names = [f"blk.{layer}.{key}.weight" for layer in range(shape.n_layers) for key in ("attn_norm", "ffn_norm")]
    return {name: np.ones(shape.d_model, np.float32) for name in (*names, "output_norm.weight")}


def _add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, type: str) -> None:
    kind = gguf.GGMLQuantizationType[type]
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if values.ndim < 2 or type == "F32" or values.shape[-1] % block:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
