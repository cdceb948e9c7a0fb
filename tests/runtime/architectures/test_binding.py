"""Finding each tensor's place: wrapped names, ties that are none, and what is left over or missing."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from memory_checkpoint import MemoryCheckpoint
from runtime.architectures import ARCHITECTURES, reading
from runtime.architectures.base import Architecture
from runtime.architectures.binding import AdapterOnly, Binding, LeftoverTensors, MissingTensors, bind, placements
from tiny_native import ANY_FAMILY, tiny_checkpoint


def bound(checkpoint: MemoryCheckpoint) -> Binding:
    return bind(*reading.identify(checkpoint), checkpoint)


def renamed(checkpoint: MemoryCheckpoint, old: str, new: str) -> MemoryCheckpoint:
    checkpoint.tensors = {
        new + name.removeprefix(old) if name.startswith(old) else name: tensor
        for name, tensor in checkpoint.tensors.items()
    }
    return checkpoint


def test_every_tensor_is_claimed_once() -> None:
    checkpoint = tiny_checkpoint()

    found = bound(checkpoint)

    assert sorted(name for claim in found.claims for name in claim.sources) == sorted(checkpoint.names)
    assert found.ignored == ()


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod.", "base_model.model."])
def test_names_that_a_wrapper_made_longer_are_recognized(wrapper: str) -> None:
    assert bound(renamed(tiny_checkpoint(), "", wrapper)).claims


def test_a_backbone_without_its_prefix_is_recognized() -> None:
    found = bound(renamed(tiny_checkpoint(), "model.", ""))

    assert "layers.0.mlp.up_proj.weight" in {name for claim in found.claims for name in claim.sources}


@pytest.mark.parametrize(("prefix", "head"), [("model.language_model.", "lm_head."),
                                              ("language_model.model.", "language_model.lm_head.")])  # fmt: skip
def test_the_language_part_of_a_model_that_sees_is_taken_alone(prefix: str, head: str) -> None:
    checkpoint = renamed(renamed(tiny_checkpoint(), "model.", prefix), "lm_head.", head)
    checkpoint.tensors["model.vision_tower.layers.0.weight"] = np.zeros(3, np.float32)

    assert bound(checkpoint).ignored == ("model.vision_tower.layers.0.weight",)


def test_tables_that_older_programs_saved_are_passed_over() -> None:
    checkpoint = tiny_checkpoint()
    harmless = ("model.layers.0.self_attn.rotary_emb.inv_freq", "value_head.weight")
    checkpoint.tensors |= {name: np.zeros(4, np.float32) for name in harmless}

    assert bound(checkpoint).ignored == harmless


def test_a_weight_without_a_place_is_named() -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors["model.layers.0.self_attn.sinks"] = np.zeros(4, np.float32)

    with pytest.raises(LeftoverTensors) as raised:
        bound(checkpoint)

    assert "model.layers.0.self_attn.sinks" in str(raised.value)


def test_a_bias_that_adds_nothing_is_passed_over() -> None:
    """GPTQ's first program wrote one beside every matrix, whatever the model had."""
    checkpoint = tiny_checkpoint()
    zeros = ("model.layers.0.self_attn.o_proj.bias", "model.layers.1.mlp.up_proj.bias")
    checkpoint.tensors |= {name: np.zeros(16, np.float32) for name in zeros}

    assert bound(checkpoint).ignored == zeros


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.o_proj.bias", "model.layers.0.strange.bias"])
def test_a_bias_that_adds_something_or_to_nothing_has_no_place(name: str) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors[name] = np.zeros(16, np.float32)
    if "strange" not in name:
        checkpoint.tensors[name][3] = 1e-3

    with pytest.raises(LeftoverTensors, match=name):
        bound(checkpoint)


def test_what_is_missing_is_named_and_counted() -> None:
    checkpoint = tiny_checkpoint()
    for layer in range(2):
        del checkpoint.tensors[f"model.layers.{layer}.mlp.down_proj.weight"]

    with pytest.raises(MissingTensors) as raised:
        bound(checkpoint)

    assert "2 tensors" in raised.value.info.message
    assert "model.layers.0.mlp.down_proj.weight" in raised.value.info.message


def test_a_tied_head_may_be_absent() -> None:
    checkpoint = tiny_checkpoint(tie_word_embeddings=True)
    checkpoint.tensors.pop("lm_head.weight", None)

    assert bound(checkpoint).config.tied


def test_a_head_equal_to_the_embedding_is_passed_over() -> None:
    checkpoint = tiny_checkpoint(tie_word_embeddings=True)
    checkpoint.tensors["lm_head.weight"] = checkpoint.tensors["model.embed_tokens.weight"].copy()

    found = bound(checkpoint)

    assert found.config.tied
    assert found.ignored == ("lm_head.weight",)


@pytest.mark.parametrize(
    "architecture", [a for a in ARCHITECTURES if a.fixed.get("form") != "encoder"], ids=lambda found: found.name
)  # fmt: skip
def test_every_family_passes_over_a_copy_of_its_embedding(architecture: Architecture) -> None:
    raw = ANY_FAMILY | {"model_type": architecture.hf_types[0], "tie_word_embeddings": True}
    config = reading.from_hf(architecture, raw)
    names = [name for claim in placements(architecture, config, "folder") for name in claim.sources]
    (head,) = {name for row in architecture.tensors if row.ours == "head.weight" for name in row.names("folder")}
    checkpoint = MemoryCheckpoint("folder", {name: np.zeros(1, np.float32) for name in (*names, head)}, config=raw)

    found = bound(checkpoint)

    assert found.config.tied
    assert head in found.ignored


def test_a_head_that_differs_is_kept_whatever_the_settings_say(caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = tiny_checkpoint(tie_word_embeddings=True)
    checkpoint.tensors["lm_head.weight"] = checkpoint.tensors["model.embed_tokens.weight"] * 2

    with caplog.at_level(logging.WARNING):
        found = bound(checkpoint)

    assert not found.config.tied
    assert "head.weight" in {name for claim in found.claims for name in claim.ours}
    assert "the head differs" in caplog.text


def test_an_adapter_is_told_from_a_model() -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors = {
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": np.zeros((2, 16), np.float32)
    }

    with pytest.raises(AdapterOnly):
        bound(checkpoint)


def test_an_adapter_saved_with_its_model_is_no_adapter_but_is_not_dropped() -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors["model.layers.0.self_attn.q_proj.lora_A.default.weight"] = np.zeros((2, 16), np.float32)

    with pytest.raises(LeftoverTensors):
        bound(checkpoint)


def test_experts_saved_from_memory_are_read_too() -> None:
    raw = {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1, "vocab_size": 8, "hidden_size": 8,
           "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
           "num_key_value_heads": 2}  # fmt: skip
    architecture = reading.by_hf_type("mixtral")
    config = reading.from_hf(architecture, raw)
    names = [name for claim in placements(architecture, config, "folder") for name in claim.sources]
    fused = [name.replace("block_sparse_moe", "mlp") for name in names if ".experts." not in name]
    fused += ["model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.down_proj"]
    checkpoint = MemoryCheckpoint("folder", {name: np.zeros(1, np.float32) for name in fused}, config=raw)

    claims = {claim.sources: claim.ours for claim in bound(checkpoint).claims}

    assert claims[("model.layers.0.mlp.experts.gate_up_proj",)] == (
        "decoder.layers.0.ffn.experts.gate.weight",
        "decoder.layers.0.ffn.experts.up.weight",
    )
