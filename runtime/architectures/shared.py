"""Rows and functions that many families share. Knows no family."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from runtime.architectures.base import (
    Fields,
    KeyRow,
    Settings,
    Source,
    TensorRow,
    always,
    untied,
    with_experts,
    with_ffn_bias,
    with_out_bias,
    with_qkv_bias,
    without_experts,
)
from runtime.architectures.forms import FUSED_GATE_UP, PERMUTE_ROPE, SAME, STACK, Form
from runtime.architectures.rope_keys import (
    gguf_context,
    gguf_rope,
    hf_rope,
    rope_misfit,
    rope_tensors,
    rope_to_gguf,
    rope_to_hf,
)
from runtime.config import ModelConfig, RopeLayout
from runtime.text import _

LAYER, HF_LAYER, BLK = "decoder.layers.{i}.", "model.layers.{i}.", "blk.{i}."
QKV = tuple(f"{LAYER}attention.{part}.weight" for part in "qkv")
QKV_BIASES = tuple(f"{LAYER}attention.{part}.bias" for part in "qkv")
GATE_UP = (f"{LAYER}ffn.gate.weight", f"{LAYER}ffn.up.weight")
EXPERT_GATE_UP = (f"{LAYER}ffn.experts.gate.weight", f"{LAYER}ffn.experts.up.weight")


# --- settings ---------------------------------------------------------------------------------------------------


def not_computed(key: str, value: object) -> ValueError:
    """Returns the error for a setting that asks for an arithmetic which the family's table lacks."""
    return ValueError(_("“{key}” is “{value}”, which this version does not compute.").format(key=key, value=value))


def refuse(raw: Settings, **unwanted: object) -> None:
    """Raises ValueError, with a sentence, where a setting has the value, or one of several, that is not computed."""
    for key, values in unwanted.items():
        if raw.get(key) in (values if isinstance(values, tuple) else (values,)):
            raise not_computed(key, raw[key])


def sizes(*, d_ff: str = "intermediate_size") -> tuple[KeyRow, ...]:
    """Returns the sizes that nearly every decoder's config.json names alike."""
    return (
        KeyRow("vocab_size", "vocab_size", "vocab_size"),
        KeyRow("d_model", "hidden_size", "embedding_length"),
        KeyRow("n_layers", "num_hidden_layers", "block_count"),
        KeyRow("n_heads", "num_attention_heads", "attention.head_count"),
        KeyRow("n_kv_heads", "num_key_value_heads", "attention.head_count_kv", lambda known: known["n_heads"]),
        KeyRow("head_dim", "head_dim", "attention.key_length", lambda known: known["d_model"] // known["n_heads"]),
        KeyRow("head_dim", "", "attention.value_length", lambda known: known["head_dim"]),
        KeyRow("d_ff", d_ff, "feed_forward_length"),
        KeyRow("context_length", "max_position_embeddings", "context_length", 2048),
    )


RMS_EPS = KeyRow("norm_eps", "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-6)
TIED = KeyRow("tied", "tie_word_embeddings", "", False)
EXPERTS = (
    KeyRow("n_experts", "num_local_experts", "expert_count"),
    KeyRow("n_experts_used", "num_experts_per_tok", "expert_used_count"),
)

_BIASES = ("qkv_bias", "out_bias", "ffn_bias")
_HF_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh",
                   "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu"}  # fmt: skip


def hf_activation(raw: Settings, *names: str) -> str:
    """Returns the activation that config.json names under the first of `names` it has; an unknown name as it is."""
    name = next((str(raw[key]) for key in names if raw.get(key)), "silu")
    return _HF_ACTIVATIONS.get(name, name)


def hf_activation_name(config: ModelConfig) -> str:
    """Returns config.json's name of the activation."""
    return "gelu_pytorch_tanh" if config.activation == "gelu_tanh" else config.activation


def hf_windows(raw: Settings, known: Fields, default: Callable[[int], bool] = lambda layer: True) -> Fields:
    """Returns the window and the layers without one; `default` says which layers slide in files without a list."""
    window = raw.get("sliding_window")
    if not window or raw.get("use_sliding_window") is False:
        return {}
    kinds = raw.get("layer_types") or []
    slides = [kinds[i] == "sliding_attention" if kinds else default(i) for i in range(known["n_layers"])]
    if not any(slides):
        return {}
    return {"sliding_window": window, "full_attention_layers": tuple(i for i, is_so in enumerate(slides) if not is_so)}


def hf_late_windows(raw: Settings, known: Fields) -> Fields:
    """Returns the window of Qwen's models: the layers before max_window_layers see everything."""
    first = raw.get("max_window_layers", 28)
    return hf_windows(raw, known, lambda layer: layer >= first)


def hf_layer_types(config: ModelConfig) -> Fields:
    """Returns the keys for a window on some layers."""
    if not config.sliding_window:
        return {"sliding_window": None}
    kinds = ["sliding_attention" if config.window_of(i) else "full_attention" for i in range(config.n_layers)]
    return {"sliding_window": config.sliding_window, "layer_types": kinds}


def gguf_names(settings: Settings, known: Fields, source: Source) -> Fields:
    """Returns the fields that a GGUF file only shows by the tensors it holds."""
    return {
        "vocab_size": source.info("token_embd.weight").shape[0],
        "tied": "output.weight" not in source.names,
        "qkv_bias": "blk.0.attn_q.bias" in source.names or "blk.0.attn_qkv.bias" in source.names,
        "out_bias": "blk.0.attn_output.bias" in source.names,
        "ffn_bias": "blk.0.ffn_up.bias" in source.names,
    }


class RopeFunctions:
    """The functions of an `Architecture` with rotary positions.

    `base` is the family's in files that do not say; `biases` gives config.json's key for those of our fields that it
    says. The others tell of llama.cpp's graph: whether it reads a table of `divisors` and has sliding `windows`, its
    activation, and which biases it adds.
    """

    def __init__(
        self, *, base: float = 10_000.0, layout: RopeLayout = "half", divisors: bool = False, windows: bool = False,
        biases: Mapping[str, str] | None = None, activation: str = "silu",
        graph_biases: Collection[str] = ("qkv_bias",),
    ) -> None:  # fmt: skip
        self.base, self.layout, self.divisors, self.windows = base, layout, divisors, windows
        self.biases = biases or {}
        self.activation, self.graph_biases = activation, graph_biases

    def extra_hf(self, raw: Settings, known: Fields) -> Fields:
        """Returns rope, activation, and biases."""
        return {
            "rope": hf_rope(raw, known["head_dim"], base=self.base, layout=self.layout),
            "activation": hf_activation(raw, "hidden_activation", "hidden_act"),
        } | {ours: bool(raw.get(key, False)) for ours, key in self.biases.items()}

    def extra_gguf(self, settings: Settings, known: Fields, source: Source) -> Fields:
        """Returns rope, activation, and what the names of the tensors tell."""
        rope = gguf_rope(settings, known["head_dim"], source, layout=self.layout)
        return {"rope": rope, "activation": self.activation} | gguf_names(settings, known, source)

    def write_hf(self, config: ModelConfig) -> Fields:
        """Returns the keys of rope, activation, and biases."""
        return (
            rope_to_hf(config.rope, config.head_dim)
            | {"hidden_act": hf_activation_name(config)}
            | {key: getattr(config, ours) for ours, key in self.biases.items()}
        )

    def write_gguf(self, config: ModelConfig) -> Fields:
        """Returns the keys of rope, and the context length that llama.cpp's graph reads exactly."""
        rope = rope_to_gguf(config.rope, config.head_dim, divisors=self.divisors)
        return rope | {"context_length": gguf_context(config, windows=self.windows)}

    def gguf_tensors(self, config: ModelConfig) -> dict[str, NDArray[Any]]:
        """Returns the tables of divisors."""
        return rope_tensors(config, divisors=self.divisors)

    def fits_gguf(self, config: ModelConfig) -> str | None:
        """Says why llama.cpp's graph cannot turn, bend or shift as the model does."""
        if config.activation != self.activation:
            return _("llama.cpp's graph of this family has another activation than “{name}”.").format(
                name=config.activation
            )
        if any(getattr(config, bias) for bias in _BIASES if bias not in self.graph_biases):
            return _("llama.cpp's graph of this family adds fewer biases than this model.")
        return rope_misfit(config, divisors=self.divisors)


# --- tensors ----------------------------------------------------------------------------------------------------


def ends() -> tuple[TensorRow, ...]:
    """Returns embedding, last norm and head."""
    return (
        TensorRow("embedding.weight", "model.embed_tokens.weight", "token_embd.weight"),
        TensorRow("decoder.norm.weight", "model.norm.weight", "output_norm.weight"),
        TensorRow("head.weight", "lm_head.weight", "output.weight", when=untied),
    )


def norms(form: Form = SAME) -> tuple[TensorRow, ...]:
    """Returns the two norms of layers that have one before each part."""
    return (
        TensorRow(f"{LAYER}attention_residual.norm.weight", f"{HF_LAYER}input_layernorm.weight",
                  f"{BLK}attn_norm.weight", hf_form=form),
        TensorRow(f"{LAYER}ffn_residual.norm.weight", f"{HF_LAYER}post_attention_layernorm.weight",
                  f"{BLK}ffn_norm.weight", hf_form=form),
    )  # fmt: skip


def attention(*, permuted: bool = False) -> tuple[TensorRow, ...]:
    """Returns separate projections; `permuted` where llama.cpp's graph turns neighbours and we do not."""
    forms = {"q": PERMUTE_ROPE, "k": PERMUTE_ROPE} if permuted else {}
    return (
        *(
            TensorRow(f"{LAYER}attention.{part}.{kind}", f"{HF_LAYER}self_attn.{part}_proj.{kind}",
                      f"{BLK}attn_{part}.{kind}", gguf_form=forms.get(part, SAME),
                      when=with_qkv_bias if kind == "bias" else always)
            for kind in ("weight", "bias") for part in "qkv"
        ),
        TensorRow(f"{LAYER}attention.out.weight", f"{HF_LAYER}self_attn.o_proj.weight", f"{BLK}attn_output.weight"),
        TensorRow(f"{LAYER}attention.out.bias", f"{HF_LAYER}self_attn.o_proj.bias", f"{BLK}attn_output.bias",
                  when=with_out_bias),
    )  # fmt: skip


def qk_norms(form: Form = SAME) -> tuple[TensorRow, ...]:
    """Returns the norms of queries and keys."""
    return tuple(
        TensorRow(f"{LAYER}attention.{part}_norm.weight", f"{HF_LAYER}self_attn.{part}_norm.weight",
                  f"{BLK}attn_{part}_norm.weight", hf_form=form)
        for part in "qk"
    )  # fmt: skip


def gated_ffn() -> tuple[TensorRow, ...]:
    """Returns the gated feed-forward part's matrices, and their biases where it has some."""
    return tuple(
        TensorRow(f"{LAYER}ffn.{part}.{kind}", f"{HF_LAYER}mlp.{part}_proj.{kind}", f"{BLK}ffn_{part}.{kind}",
                  when=without_experts if kind == "weight" else with_ffn_bias)
        for kind in ("weight", "bias") for part in ("gate", "up", "down")
    )  # fmt: skip


def expert_rows(hf: str, parts: Mapping[str, str]) -> tuple[TensorRow, ...]:
    """Returns router and experts. `hf` is where folders keep them, `parts` what they call gate, up and down there.

    A state saved from memory, by transformers 5, holds all experts in two tensors instead.
    """
    return (
        *(
            TensorRow(f"{LAYER}ffn.router.weight", f"{HF_LAYER}{place}.gate.weight", f"{BLK}ffn_gate_inp.weight",
                      when=with_experts)
            for place in dict.fromkeys((hf, "mlp"))
        ),
        *(
            TensorRow(f"{LAYER}ffn.experts.{part}.weight", f"{HF_LAYER}{hf}.experts.{{e}}.{name}.weight",
                      f"{BLK}ffn_{part}_exps.weight", hf_form=STACK, when=with_experts)
            for part, name in parts.items()
        ),
        TensorRow(EXPERT_GATE_UP, f"{HF_LAYER}mlp.experts.gate_up_proj", "", hf_form=FUSED_GATE_UP, when=with_experts),
        TensorRow(f"{LAYER}ffn.experts.down.weight", f"{HF_LAYER}mlp.experts.down_proj", "", when=with_experts),
    )  # fmt: skip
