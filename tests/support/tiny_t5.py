"""Writes a tiny random T5 as GGUF for tests, and makes the same model in transformers.

A published T5 comes in two forms (Raffel et al. 2019, arXiv 1910.10683, and Shazeer 2020, arXiv 2002.05202): ReLU, with
a head that is the embedding times d_model^-0.5; and gated GELU, with a head of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from vocabularies import CONTROL, NORMAL, UNKNOWN, UNUSED, Token

PAD, EOS, UNK = range(3)
C, H, D, F = 64, 4, 16, 96
N_BUCKETS = 8
N_VOCAB = 128
_EPSILON = 1e-6
_WORDS = ("the", "miller", "opened", "water", "wheel", "stone", "turns", "bread", "and", "is", "old", "translate")
_SIGNS = "abcdefghijklmnopqrstuvwxyz.,:!?1234"
_NAMES = {"SelfAttention": "attn", "EncDecAttention": "cross_attn", "DenseReluDense": "ffn"}
_PARTS = {"q": "q", "k": "k", "v": "v", "o": "o", "wi": "up", "wi_0": "gate", "wi_1": "up", "wo": "down",
          "relative_attention_bias": "rel_b"}  # fmt: skip


@dataclass(frozen=True)
class TinyT5:
    """A written model, and its weights by Hugging Face's names."""

    path: Path
    weights: dict[str, np.ndarray]
    gated: bool
    n_decoder_layers: int

    def in_transformers(self) -> Any:
        """Returns the model as transformers' `T5ForConditionalGeneration`."""
        import torch
        from transformers import T5Config, T5ForConditionalGeneration

        config = T5Config(
            vocab_size=N_VOCAB, d_model=C, d_kv=D, d_ff=F, num_heads=H, num_layers=2,
            num_decoder_layers=self.n_decoder_layers, relative_attention_num_buckets=N_BUCKETS,
            layer_norm_epsilon=_EPSILON, feed_forward_proj="gated-gelu" if self.gated else "relu",
            tie_word_embeddings=not self.gated, decoder_start_token_id=PAD, pad_token_id=PAD, eos_token_id=EOS,
        )  # fmt: skip
        model = T5ForConditionalGeneration(config).eval()
        if self.gated:  # this version ties the head whatever the configuration says
            model.lm_head.weight = torch.nn.Parameter(torch.empty(N_VOCAB, C))
        for name, parameter in model.named_parameters():
            parameter.data.copy_(torch.from_numpy(self.weights[name]))
        return model


def vocabulary() -> list[Token]:
    """Returns a Unigram vocabulary: the three marks, words, signs, two sentinels, and unused tokens up to N_VOCAB."""
    tokens: list[Token] = [("<pad>", CONTROL, 0.0), ("</s>", CONTROL, 0.0), ("<unk>", UNKNOWN, 0.0)]
    tokens += [("▁", NORMAL, -9.0)]
    tokens += [(f"▁{word}", NORMAL, -2.0) for word in _WORDS] + [(sign, NORMAL, -8.0) for sign in _SIGNS]
    tokens += [(f"<extra_id_{number}>", CONTROL, 0.0) for number in range(2)]
    return tokens + [(f"[unused {at}]", UNUSED, -99.0) for at in range(len(tokens), N_VOCAB)]


def write_tiny_t5(
    path: Path, *, seed: int = 0, gated: bool = False, n_decoder_layers: int = 2, n_ctx: int = 64,
    start: int | None = PAD, tensors: dict[str, np.ndarray] | None = None, n_buckets: int = N_BUCKETS,
) -> TinyT5:  # fmt: skip
    """Writes a random T5 with 2 encoder layers; `gated` is the form with gated GELU and a head of its own.

    `tensors` replaces weights by Hugging Face's names.
    """
    weights = _weights(np.random.default_rng(seed), gated, n_decoder_layers) | (tensors or {})
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_name("Tiny T5")
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(C)
    writer.add_feed_forward_length(F)
    writer.add_block_count(2)
    writer.add_decoder_block_count(n_decoder_layers)
    writer.add_head_count(H)
    writer.add_key_length(D)
    writer.add_value_length(D)
    writer.add_layer_norm_rms_eps(_EPSILON)
    writer.add_layer_norm_eps(_EPSILON)
    writer.add_relative_attn_buckets_count(n_buckets)
    if start is not None:
        writer.add_decoder_start_token_id(start)
    _add_vocabulary(writer)
    for name, values in _gguf_tensors(weights, gated):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyT5(path, weights, gated, n_decoder_layers)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = vocabulary()
    writer.add_tokenizer_model("t5")
    writer.add_token_list([text for text, _kind, _score in tokens])
    writer.add_token_types([kind for _text, kind, _score in tokens])
    writer.add_token_scores([score for _text, _kind, score in tokens])
    writer.add_add_space_prefix(True)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(True)


def _gguf_tensors(weights: dict[str, np.ndarray], gated: bool) -> list[tuple[str, np.ndarray]]:
    found = [("token_embd.weight", weights["shared.weight"])]
    # llama.cpp does not scale the decoder's output where the head is tied: a head of its own holds the factor.
    head = weights["lm_head.weight"] if gated else weights["shared.weight"] * np.float32(C**-0.5)
    found.append(("output.weight", head))
    return found + [(_gguf_name(name), values) for name, values in weights.items() if "." in name and _is_block(name)]


def _is_block(name: str) -> bool:
    return name.startswith(("encoder.", "decoder.")) and "embed_tokens" not in name


def _gguf_name(name: str) -> str:
    """Returns GGUF's name of one of Hugging Face's, "decoder.block.0.layer.1.EncDecAttention.q.weight" for one."""
    side = name[:3]
    if "final_layer_norm" in name:
        return f"{side}.output_norm.weight"
    _side, _block, layer, _layer, part, *rest = name.split(".")
    if rest[0] == "layer_norm" or rest == ["weight"]:
        kinds = ("attn", "ffn") if side == "enc" else ("attn", "cross_attn", "ffn")
        return f"{side}.blk.{layer}.{kinds[int(part)]}_norm.weight"
    return f"{side}.blk.{layer}.{_NAMES[rest[0]]}_{_PARTS[rest[1]]}.weight"


def _weights(rng: np.random.Generator, gated: bool, n_decoder_layers: int) -> dict[str, np.ndarray]:
    shapes: dict[str, tuple[tuple[int, ...], float]] = {"shared.weight": ((N_VOCAB, C), 1.0)}
    for side, count in (("encoder", 2), ("decoder", n_decoder_layers)):
        for layer in range(count):
            shapes |= _block(f"{side}.block.{layer}.layer", gated, first=layer == 0, crosses=side == "decoder")
        shapes[f"{side}.final_layer_norm.weight"] = ((C,), 0.0)
    if gated:
        shapes["lm_head.weight"] = ((N_VOCAB, C), 0.5)
    found = {name: _random(rng, size, gain) for name, (size, gain) in shapes.items()}
    # With random signs in the last norm, a tied head does not just repeat the last token.
    found["decoder.final_layer_norm.weight"] *= rng.choice(np.float32([-1, 1]), C)
    return found


def _block(at: str, gated: bool, *, first: bool, crosses: bool) -> dict[str, tuple[tuple[int, ...], float]]:
    """Returns shapes and standard deviations; a deviation of 0 stands for a norm's weights, which lie near 1."""
    found: dict[str, tuple[tuple[int, ...], float]] = {}
    kinds = ["SelfAttention", *(["EncDecAttention"] if crosses else [])]
    for number, kind in enumerate(kinds):
        # Scores are not divided by the root of the head size, so the queries' weights are that much smaller.
        gains = {"q": (C * D) ** -0.5 * 2, "k": C**-0.5, "v": C**-0.5, "o": (H * D) ** -0.5 * 2}
        sizes = {"q": (H * D, C), "k": (H * D, C), "v": (H * D, C), "o": (C, H * D)}
        found |= {f"{at}.{number}.{kind}.{name}.weight": (sizes[name], gains[name]) for name in sizes}
        found[f"{at}.{number}.layer_norm.weight"] = ((C,), 0.0)
    if first:
        found[f"{at}.0.SelfAttention.relative_attention_bias.weight"] = ((N_BUCKETS, H), 1.0)
    names = ("wi_0", "wi_1") if gated else ("wi",)
    found |= {f"{at}.{len(kinds)}.DenseReluDense.{name}.weight": ((F, C), C**-0.5) for name in names}
    found[f"{at}.{len(kinds)}.DenseReluDense.wo.weight"] = ((C, F), F**-0.5)
    found[f"{at}.{len(kinds)}.layer_norm.weight"] = ((C,), 0.0)
    return found


def _random(rng: np.random.Generator, size: tuple[int, ...], gain: float) -> np.ndarray:
    values = rng.standard_normal(size, np.float32)
    return values * np.float32(gain) if gain else 1 + np.float32(0.1) * values
