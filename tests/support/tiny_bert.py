"""Writes a tiny BERT model as GGUF for tests, and computes its vectors with numpy.

The formulas are those of Devlin et al. 2018 (arXiv 1810.04805): post-norm blocks, learned positions, and all token
types 0. GELU is the tanh form (arXiv 1606.08415), looked up in a table of 16-bit numbers as in llama.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

PAD, UNK, CLS, SEP, MASK = range(5)
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (
    *("the", "a", "miller", "stone", "mill", "turn", "water", "wheel", "bread", "flour", "grain", "river", "cat"),
    *("dog", "sleep", "run", "good", "bad", "new", "old", "and", "of", "is", ".", ","),
)
_ENDINGS = ("s", "ing", "er", "ed")  # pieces that go on with a word
_EPSILON = 1e-12
_N_LAYERS, _C, _H, _F = 2, 64, 4, 128


@dataclass(frozen=True)
class TinyBert:
    """A written model and its weights, for the reference."""

    path: Path
    weights: dict[str, np.ndarray]

    def hidden(self, ids: list[int]) -> np.ndarray:
        """Returns the last layer's hidden states (T, C)."""
        w = self.weights
        x = w["token_embd.weight"][ids] + w["position_embd.weight"][: len(ids)] + w["token_types.weight"][0]
        x = self._norm(x, "token_embd_norm")
        for layer in range(_N_LAYERS):
            block = f"blk.{layer}"
            x = self._norm(x + self._attention(x, block), f"{block}.attn_output_norm")
            inner = _gelu(self._linear(x, f"{block}.ffn_up"))
            x = self._norm(x + self._linear(inner, f"{block}.ffn_down"), f"{block}.layer_output_norm")
        return x

    def _attention(self, x: np.ndarray, block: str) -> np.ndarray:
        q, k, v = (
            self._linear(x, f"{block}.attn_{name}").reshape(len(x), _H, -1).transpose(1, 0, 2) for name in "qkv"
        )  # (H, T, D)
        scores = q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        return self._linear(mixed.transpose(1, 0, 2).reshape(len(x), _C), f"{block}.attn_output")

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def ids_of(*pieces: str) -> list[int]:
    """Returns [CLS] pieces [SEP] as ids; a piece that goes on with a word is written as "##ing"."""
    spelling = vocabulary()
    marked = [piece[2:] if piece.startswith("##") else "\u2581" + piece for piece in pieces]
    return [CLS, *(spelling.index(piece) if piece in spelling else UNK for piece in marked), SEP]


def vocabulary() -> list[str]:
    """Returns the tokens as a GGUF spells them: a word begins with U+2581, what goes on with one does not."""
    return [*_SPECIAL, *("\u2581" + word for word in _WORDS), *_ENDINGS]


def write_tiny_bert(path: Path, *, seed: int = 0, n_ctx: int = 64, pooling: int | None = 1) -> TinyBert:
    """Writes a random BERT with 2 layers; `pooling` is GGUF's number: 1 mean, 2 cls, 3 last, 4 rank."""
    weights = _weights(np.random.default_rng(seed), n_ctx)
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("Tiny BERT")
    writer.add_block_count(_N_LAYERS)
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(_C)
    writer.add_feed_forward_length(_F)
    writer.add_head_count(_H)
    writer.add_layer_norm_eps(_EPSILON)
    writer.add_causal_attention(False)
    writer.add_token_type_count(2)
    if pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(pooling))
    _add_vocabulary(writer)
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyBert(path, weights)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    spelling = vocabulary()
    kinds = [gguf.TokenType.CONTROL] * len(_SPECIAL) + [gguf.TokenType.NORMAL] * (len(spelling) - len(_SPECIAL))
    writer.add_tokenizer_model("bert")
    writer.add_token_list(spelling)
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(CLS)
    writer.add_sep_token_id(SEP)
    writer.add_unk_token_id(UNK)
    writer.add_pad_token_id(PAD)
    writer.add_mask_token_id(MASK)


def _weights(rng: np.random.Generator, n_ctx: int) -> dict[str, np.ndarray]:
    matrices = {"token_embd": (len(vocabulary()), _C), "position_embd": (n_ctx, _C), "token_types": (2, _C)}
    linear = {"attn_q": (_C, _C), "attn_k": (_C, _C), "attn_v": (_C, _C), "attn_output": (_C, _C),
              "ffn_up": (_F, _C), "ffn_down": (_C, _F)}  # fmt: skip
    blocks = [f"blk.{layer}" for layer in range(_N_LAYERS)]
    linears = {f"{block}.{name}": shape for block in blocks for name, shape in linear.items()}
    norms = ["token_embd_norm", *(f"{b}.{name}" for b in blocks for name in ("attn_output_norm", "layer_output_norm"))]
    found = {f"{name}.weight": _random(rng, shape) for name, shape in matrices.items()}
    found |= {f"{name}.weight": _random(rng, size) * np.float32(2 / size[1] ** 0.5) for name, size in linears.items()}
    found |= {f"{name}.bias": _random(rng, shape[:1]) * np.float32(0.1) for name, shape in linears.items()}
    found |= {f"{name}.weight": 1 + np.float32(0.1) * _random(rng, (_C,)) for name in norms}
    return found | {f"{name}.bias": np.float32(0.1) * _random(rng, (_C,)) for name in norms}


def _random(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float16).astype(np.float32)
    return (0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))).astype(np.float16).astype(np.float32)
