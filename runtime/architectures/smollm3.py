"""SmolLM3: Llama's shape, where every fourth layer has no positions at all (arXiv 2501.18795)."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, Settings, Source
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    gated_ffn,
    hf_layer_types,
    hf_windows,
    norms,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_EVERY = 4  # what llama.cpp's graph has built in
_FUNCTIONS = RopeFunctions(
    base=2_000_000.0,
    biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias", "ffn_bias": "mlp_bias"},
)


def _every(step: int, n_layers: int) -> tuple[int, ...]:
    return tuple(layer for layer in range(n_layers) if (layer + 1) % step == 0)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    rotated = raw.get("no_rope_layers")  # in spite of its name, 1 where a layer has RoPE
    plain = _every(raw.get("no_rope_layer_interval", _EVERY), known["n_layers"])
    if rotated:
        plain = tuple(layer for layer, has in enumerate(rotated[: known["n_layers"]]) if not has)
    window = hf_windows(raw, known, lambda layer: layer in plain)
    return _FUNCTIONS.extra_hf(raw, known) | {"no_rope_layers": plain} | window


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    return _FUNCTIONS.extra_gguf(settings, known, source) | {"no_rope_layers": _every(_EVERY, known["n_layers"])}


def _write_hf(config: ModelConfig) -> Fields:
    rotated = [int(layer not in config.no_rope_layers) for layer in range(config.n_layers)]
    window = hf_layer_types(config) | {"use_sliding_window": bool(config.sliding_window)}
    return _FUNCTIONS.write_hf(config) | window | {"no_rope_layers": rotated}


def _fits(config: ModelConfig) -> str | None:
    if config.no_rope_layers != _every(_EVERY, config.n_layers):
        return _("llama.cpp leaves the positions out on every fourth layer; this model does it on others.")
    return _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="smollm3",
    hf_types=("smollm3",),
    hf_classes=("SmolLM3ForCausalLM",),
    gguf="smollm3",
    hf_defaults={"tie_word_embeddings": True, "use_sliding_window": False, "num_key_value_heads": 4,
                 "max_position_embeddings": 32768},
    tensors=(*ends(), *norms(), *attention(permuted=True), *gated_ffn()),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
