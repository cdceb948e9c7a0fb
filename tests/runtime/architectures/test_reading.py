"""Settings in every layout: config.json old and new, GGUF, and what is wrong with damaged ones."""

from __future__ import annotations

import math
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from memory_checkpoint import MemoryCheckpoint
from runtime.architectures import ARCHITECTURES, reading
from runtime.architectures.rope_keys import UnknownRope
from runtime.config import Activation, ModelConfig, Rope
from runtime.errors import UserError
from tiny_native import ANY_FAMILY, CONFIG


def read(**config: Any) -> ModelConfig:
    raw = CONFIG | config
    return reading.from_hf(reading.by_hf_type(raw["model_type"]), raw)


@pytest.mark.parametrize("spelling", ["type", "rope_type"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_scaling_is_read_in_old_and_new_layouts(spelling: str, place: str) -> None:
    scaling = {spelling: "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}  # fmt: skip
    base = {"rope_theta": 5e5}
    config = read(**{place: scaling} | base) if place == "rope_scaling" else read(**{place: scaling | base})

    assert config.rope == Rope(base=5e5, scaling="llama3", factor=8.0, original_context=64)


def test_a_scaling_that_is_not_built_is_refused_and_not_ignored() -> None:
    with pytest.raises(UnknownRope, match="proportional"):
        read(rope_scaling={"rope_type": "proportional", "factor": 2.0})


def test_whole_numbers_may_be_written_as_floats_and_the_other_way_round() -> None:
    config = read(rope_theta=10000, rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1,
                                                  "original_max_position_embeddings": 64})  # fmt: skip

    assert config.rope.factor == 40.0
    assert read(hidden_size=16.0).d_model == 16


def test_a_head_size_of_its_own_is_not_derived() -> None:
    assert read(head_dim=64).head_dim == 64
    assert read(head_dim=None).head_dim == 4


def test_values_that_are_null_count_as_absent() -> None:
    assert read(num_key_value_heads=None).n_kv_heads == 4


def test_the_part_for_text_of_a_model_that_sees_is_read() -> None:
    raw = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 64,
                                                   "intermediate_size": 96, "num_hidden_layers": 12}}  # fmt: skip
    checkpoint = MemoryCheckpoint("folder", {}, config=raw)

    architecture, config = reading.identify(checkpoint)

    assert architecture.name == "gemma3"
    assert config.full_attention_layers == (5, 11)
    assert (config.rope.base, config.local_rope) == (1e6, Rope(base=1e4))


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"num_attention_heads": 5, "num_key_value_heads": 2}, "5"),
        ({"num_hidden_layers": 0}, "n_layers"),
        ({"num_hidden_layers": "two"}, "n_layers"),
        ({"hidden_size": -4}, "d_model"),
        ({"intermediate_size": 1 << 40}, "d_ff"),
        ({"hidden_act": "mish"}, "activation"),
        ({"head_dim": 5}, "5"),
        ({"vocab_size": None}, "vocab_size"),
        ({"rope_scaling": {"type": "linear"}}, "no “factor”"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor"),
        ({"rope_scaling": {"type": "dynamic", "factor": -2.0}}, "factor"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": -1}}, "beta_fast"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": -1.0}}, "attention_factor"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": -8}}, "original_max"),
        ({"rope_scaling": {"type": "llama3", "factor": 4.0, "low_freq_factor": 4.0}}, "high_freq_factor"),
        ({"rope_scaling": {"type": "su", "factor": 2}}, "short_factor"),
        ({"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 3, "long_factor": [1.0] * 4}}, "short_factor"),
        ({"rope_theta": "large"}, "base"),
        ({"rope_theta": -1}, "rope_theta"),
        ({"rope_theta": math.inf}, "rope_theta"),
        ({"rope_scaling": "none"}, "rope_scaling"),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor"),
        ({"rms_norm_eps": math.nan}, "norm_eps"),
        ({"rms_norm_eps": -1}, "norm_eps"),
        ({"num_attention_heads": 0}, "zero"),
    ],
)
def test_settings_that_cannot_be_are_named(broken: dict[str, Any], named: str) -> None:
    with pytest.raises(reading.UnusableConfig, match=named):
        read(**broken)


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("gemma2", "use_bidirectional_attention", True),
        ("gemma3_text", "use_bidirectional_attention", True),
        ("bloom", "apply_residual_connection_post_layernorm", True),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("gpt2", "add_cross_attention", True),
        ("bert", "position_embedding_type", "relative_key_query"),
        ("roberta", "position_embedding_type", "relative_key"),
    ],
)
def test_arithmetic_that_is_not_built_is_refused_and_not_left_out(family: str, key: str, value: object) -> None:
    with pytest.raises(reading.UnusableConfig, match=key):
        read(model_type=family, n_embd=64, n_layer=2, n_head=4, layer_norm_eps=1e-5, **{key: value})


def test_an_unknown_architecture_is_named_with_those_that_are_known() -> None:
    with pytest.raises(reading.UnknownArchitecture) as raised:
        reading.identify(MemoryCheckpoint("folder", {}, config={"model_type": "mamba"}))

    assert "mamba" in raised.value.info.title
    assert "llama" in raised.value.info.message


@pytest.mark.parametrize(
    ("family", "different", "said"),
    [
        ("llama", {"activation": "gelu"}, "gelu"),
        ("qwen3", {"out_bias": True}, "biases"),
        ("smollm3", {"ffn_bias": True}, "biases"),
        ("gemma3", {"activation": "silu"}, "silu"),
    ],
)
def test_what_llama_cpps_graph_lacks_is_said(family: str, different: dict[str, Any], said: str) -> None:
    architecture = reading.by_name(family)
    usual = {"activation": "gelu_tanh" if family == "gemma3" else "silu", "no_rope_layers": (3,)}
    model = read(num_hidden_layers=4)

    assert architecture.fits_gguf(msgspec.structs.replace(model, **usual)) is None
    assert said in str(architecture.fits_gguf(msgspec.structs.replace(model, **usual | different)))


_TURNING = [family for family in ARCHITECTURES if family.fixed.get("position", "rope") == "rope"]
_GELU = {"gelu", "gelu_tanh"}


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a.gguf], ids=lambda found: found.name)
def test_a_graph_takes_no_activation_but_its_own(architecture: Any) -> None:
    model = read(**ANY_FAMILY | {"model_type": architecture.hf_types[0]})
    kinds = get_args(Activation) if "activation" not in architecture.fixed else [model.activation]

    taken = {
        kind for kind in kinds for tied in (True, False)
        if not architecture.fits_gguf(msgspec.structs.replace(model, activation=kind, tied=tied))
    }  # fmt: skip

    assert taken
    assert taken <= _GELU or len(taken) == 1


@pytest.mark.parametrize("scaling", ["linear", "dynamic", "yarn"])
@pytest.mark.parametrize("architecture", _TURNING, ids=lambda found: found.name)
def test_every_family_writes_its_positions_as_it_reads_them(architecture: Any, scaling: str) -> None:
    stretched = {"rope_type": scaling, "factor": 4.0, "original_max_position_embeddings": 16}
    model = read(**ANY_FAMILY | {"model_type": architecture.hf_types[0], "rope_scaling": stretched})
    assert model.rope.scaling == scaling

    written = msgspec.json.decode(msgspec.json.encode(reading.to_hf(architecture, model)))

    assert reading.from_hf(architecture, written).rope == model.rope


def test_windows_with_stretched_positions_are_not_in_gemma_3s_graph() -> None:
    plain = {"rope_type": "default", "rope_theta": 1e4}
    kinds = {"full_attention": plain, "sliding_attention": plain}
    said = ANY_FAMILY | {"model_type": "gemma3_text", "hidden_act": None}
    gemma = reading.by_name("gemma3")

    fits, differs = (
        gemma.fits_gguf(read(**said | {"rope_parameters": kinds | more}))
        for more in ({}, {"sliding_attention": plain | {"rope_type": "linear", "factor": 2.0}})
    )

    assert fits is None
    assert "stretches no positions" in str(differs)


def test_older_names_of_settings_are_known() -> None:
    raw = {"model_type": "bloom", "n_embed": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 8}

    config = reading.from_hf(reading.by_hf_type("bloom"), raw)

    assert (config.d_model, config.n_layers, config.n_heads) == (32, 3, 4)


def test_a_config_without_a_type_is_known_by_its_class() -> None:
    raw = {key: value for key, value in CONFIG.items() if key != "model_type"}

    assert reading.identify(MemoryCheckpoint("folder", {}, config=raw))[0].name == "llama"


def gguf(name: str, **settings: Any) -> MemoryCheckpoint:
    usual = {"block_count": 2, "embedding_length": 16, "attention.head_count": 4, "feed_forward_length": 20,
             "context_length": 64, "attention.layer_norm_rms_epsilon": 1e-5}  # fmt: skip
    keys = {f"{name}.{key}": value for key, value in (usual | settings).items()}
    tensors = {"token_embd.weight": np.zeros((24, 16), np.float32)}
    return MemoryCheckpoint("gguf", tensors, metadata={"general.architecture": name} | keys)


def test_families_that_share_a_name_in_gguf_are_told_apart() -> None:
    mixed = gguf("llama", expert_count=4, expert_used_count=2)

    assert reading.identify(gguf("llama"))[0].name == "llama"
    assert reading.identify(mixed)[0].name == "mixtral"
    assert reading.identify(mixed)[1].expert_d_ff == 20


def test_a_gguf_shows_its_vocabulary_and_ties_by_its_tensors() -> None:
    config = reading.identify(gguf("llama"))[1]

    assert (config.vocab_size, config.tied, config.n_kv_heads, config.head_dim) == (24, True, 4, 4)


def test_a_context_length_of_0_in_a_gguf_says_nothing() -> None:
    assert reading.identify(gguf("llama", context_length=0))[1].context_length == 2048  # as where the key is missing
    assert reading.identify(gguf("llama", context_length=7))[1].context_length == 7


def test_a_gguf_without_an_embedding_is_refused() -> None:
    checkpoint = gguf("llama")
    checkpoint.tensors = {}

    with pytest.raises(reading.UnusableConfig, match="token_embd"):
        reading.identify(checkpoint)


def test_sizes_that_differ_from_layer_to_layer_are_refused() -> None:
    same, other = ({"attention.head_count": heads, "attention.key_length": 4} for heads in ([4, 4], [4, 2]))

    assert reading.identify(gguf("llama", **same))[1].n_heads == 4
    with pytest.raises(reading.UnusableConfig, match="n_heads"):
        reading.identify(gguf("llama", **other))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_every_family_refuses_an_empty_config_in_words(architecture: Any) -> None:
    with pytest.raises(UserError) as raised:
        reading.from_hf(architecture, {"model_type": architecture.hf_types[0]})

    assert raised.value.info.message


def test_names_of_families_and_types_are_unique() -> None:
    types = [name for architecture in ARCHITECTURES for name in architecture.hf_types]

    assert len(types) == len(set(types))
    assert len({architecture.name for architecture in ARCHITECTURES}) == len(ARCHITECTURES)
