"""The description of a Transformer: everything that decides its shape and its arithmetic.

Knows no file format, no family's names and no tensors; the model is built from it, the cache and the estimates too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ModelForm = Literal["decoder", "encoder", "encoder-decoder"]
NormKind = Literal["rms", "layer"]
# pre: x + f(norm(x)) · post: norm(x + f(x)) · both: x + norm(f(norm(x))) · branch: x + norm(f(x))
NormPlacement = Literal["pre", "post", "both", "branch"]
QkNorm = Literal["none", "head", "full"]
Positions = Literal["rope", "learned", "sinusoidal", "relative", "alibi", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
RopeLayout = Literal["half", "interleaved"]
RopeScaling = Literal["none", "linear", "dynamic", "yarn", "llama3", "longrope", "factors"]


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """Rotary positions (RoFormer, arXiv 2104.09864), and how their frequencies are stretched for long contexts.

    `dim` is how much of a head turns, 0 for all of it. `layout` says which entries form a pair: entry j and j + dim/2
    ("half"), or neighbours ("interleaved"). `attention_factor` multiplies cos and sin; 0 means what the scaling's paper
    recommends. `factors` are divisors given one by one; longrope has one list up to `original_context`, one beyond.
    """

    base: float = 10_000.0
    dim: int = 0
    layout: RopeLayout = "half"
    scaling: RopeScaling = "none"
    factor: float = 1.0
    original_context: int = 0
    attention_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One Transformer. Sizes are counts; a scale of 0 means the usual one; tuples that name layers hold their indices.

    `n_layers` counts the decoder's layers, or the encoder's where there is only one; `n_encoder_layers` the encoder's
    of an encoder-decoder. `family` names the table in runtime/architectures; no arithmetic depends on it.
    """

    family: str
    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    context_length: int
    form: ModelForm = "decoder"
    n_encoder_layers: int = 0

    norm: NormKind = "rms"
    norm_eps: float = 1e-5
    norm_placement: NormPlacement = "pre"
    parallel_residual: bool = False  # x + attention(norm(x)) + ffn(norm(x)), instead of one after the other
    embedding_norm: bool = False

    position: Positions = "rope"
    position_offset: int = 0  # learned tables that keep rows free before position 0
    rope: Rope = Rope()
    local_rope: Rope | None = None  # what windowed layers use instead, where they differ
    no_rope_layers: tuple[int, ...] = ()
    relative_buckets: int = 32
    relative_max_distance: int = 128

    qk_norm: QkNorm = "none"
    qkv_bias: bool = False
    out_bias: bool = False
    attention_scale: float = 0.0  # 0: 1 / sqrt(head_dim)
    attention_softcap: float = 0.0
    sliding_window: int = 0
    full_attention_layers: tuple[int, ...] = ()  # of a model with a window: the layers that see everything

    activation: Activation = "silu"
    gated: bool = True
    ffn_bias: bool = False
    n_experts: int = 0
    n_experts_used: int = 0
    expert_d_ff: int = 0
    normalize_expert_weights: bool = True
    dense_layers: tuple[int, ...] = ()  # of a model with experts: the layers that have a plain feed-forward part

    tied: bool = False
    head_bias: bool = False
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    logit_softcap: float = 0.0
    n_token_types: int = 0
    masked_head: bool = False  # of an encoder: it guesses hidden tokens, see `MaskedHead`

    @property
    def n_groups(self) -> int:
        """How many query heads share one key and value head."""
        return self.n_heads // self.n_kv_heads

    @property
    def score_scale(self) -> float:
        """What the scores are multiplied by before the softmax: 1 / sqrt(d_k) unless the model says otherwise."""
        return self.attention_scale or self.head_dim**-0.5

    @property
    def scores_tokens(self) -> bool:
        """Whether the model has logits at all: some encoders only make vectors."""
        return self.form != "encoder" or self.masked_head

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last layer: where the layers end in one themselves, none is needed."""
        return self.norm_placement != "post"

    def window_of(self, layer: int) -> int | None:
        """How many positions back a layer sees, itself included; None when it sees all of them."""
        return None if not self.sliding_window or layer in self.full_attention_layers else self.sliding_window

    def rope_of(self, layer: int) -> Rope | None:
        """The rotation of a layer, None where it has none."""
        if self.position != "rope" or layer in self.no_rope_layers:
            return None
        return self.local_rope if self.local_rope is not None and self.window_of(layer) else self.rope

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's feed-forward part is a mixture of experts."""
        return self.n_experts > 0 and layer not in self.dense_layers
