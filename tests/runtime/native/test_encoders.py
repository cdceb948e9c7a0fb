"""Every encoder family against transformers, on the weights it saves, and against llama.cpp, on the GGUF of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

import tiny_bert
from hf_models import ENCODERS, checkpoint_of, oracle
from llama_logits import llama_states
from native_gguf import gguf_checkpoint, write_native
from runtime.architectures import ARCHITECTURES, reading
from runtime.architectures.binding import TaskHead, bind
from runtime.architectures.shapes import shape_of
from runtime.checkpoint import open_checkpoint
from runtime.native.load import load_model
from runtime.native.transformer import Transformer

NAMES = [case.name for case in ENCODERS]
_GELU_TABLE = 3e-2  # llama.cpp's GELU is a table of f16 values, and in its tanh form


def ids_for(batch: int, length: int = 20) -> Tensor:
    return torch.randint(3, 96, (batch, length), generator=torch.Generator().manual_seed(3))  # no padding in them


def states_of(model: Any, ids: Tensor, **options: Tensor) -> Tensor:
    """Returns what transformers' backbone makes of the ids."""
    states: Tensor = getattr(model, model.base_model_prefix, model)(ids, **options).last_hidden_state
    return states


@pytest.fixture(scope="module")
def models() -> dict[str, Transformer]:
    return {}


@pytest.fixture(params=NAMES)
def case_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(case_name: str, models: dict[str, Transformer]) -> Transformer:
    """Our model of the weights that transformers saved."""
    if case_name not in models:
        models[case_name] = load_model(checkpoint_of(oracle(case_name)))
    return models[case_name]


def test_last_states_are_those_of_transformers(case_name: str, model: Transformer) -> None:
    ids = ids_for(2)

    with torch.no_grad():
        ours, theirs = model.encode(ids), states_of(oracle(case_name), ids)

    assert theirs.abs().max() > 1
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_guesses_at_hidden_tokens_are_those_of_transformers(case_name: str, model: Transformer) -> None:
    if not model.config.masked_head:
        with pytest.raises(ValueError, match="vectors"):
            model.logits(torch.zeros(1, 1, model.config.d_model))
        return
    ids = ids_for(2)

    with torch.no_grad():
        found = oracle(case_name)(ids)
        theirs = found.logits if "logits" in found else found.prediction_logits
        torch.testing.assert_close(model.logits(model.encode(ids)), theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(side: str, model: Transformer) -> None:
    ids = ids_for(2)
    short, filler, real = ids[1, :-6], torch.zeros(6, dtype=torch.long), torch.ones(14, dtype=torch.bool)
    pair = (filler, short) if side == "left" else (short, filler)
    marks = (filler.bool(), real) if side == "left" else (real, filler.bool())
    mask = torch.stack((torch.ones(20, dtype=torch.bool), torch.cat(marks)))

    with torch.no_grad():
        batched = model.encode(torch.stack((ids[0], torch.cat(pair))), mask)
        alone = model.encode(short[None])

    torch.testing.assert_close(batched[1][mask[1]], alone[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(batched[0], model.encode(ids[:1])[0], atol=1e-5, rtol=0)


def test_the_types_of_tokens_count() -> None:
    model, theirs = load_model(checkpoint_of(oracle("bert"))), oracle("bert")
    ids, types = ids_for(1), torch.tensor([[0] * 8 + [1] * 7 + [2] * 5])

    with torch.no_grad():
        ours = model.encode(ids, token_types=types)
        torch.testing.assert_close(ours, states_of(theirs, ids, token_type_ids=types), atol=1e-4, rtol=0)
        assert (ours - model.encode(ids)).abs().max() > 1e-2


def test_the_table_names_exactly_the_models_weights(model: Transformer) -> None:
    architecture = reading.by_name(model.config.family)

    assert architecture.our_names(model.config) == set(model.slots())


def test_settings_written_for_transformers_read_back_the_same(model: Transformer) -> None:
    architecture = reading.by_name(model.config.family)

    written = reading.to_hf(architecture, model.config)

    assert reading.from_hf(architecture, msgspec.json.decode(msgspec.json.encode(written))) == model.config


def test_llama_cpp_makes_the_same_states_of_the_gguf(model: Transformer, tmp_path: Path) -> None:
    ids = ids_for(1)

    theirs = torch.from_numpy(llama_states(write_native(tmp_path / "model.gguf", model), ids[0].tolist()))

    with torch.no_grad():
        torch.testing.assert_close(model.encode(ids)[0], theirs, atol=_GELU_TABLE, rtol=0)


def test_a_gguf_of_the_model_is_read_back_without_its_head(model: Transformer) -> None:
    """Also of RoBERTa, whose positions begin further down in its own table."""
    ids = ids_for(1)

    back = load_model(gguf_checkpoint(model))

    assert not back.config.scores_tokens
    tolerance = 1e-2 if model.config.activation == "gelu_tanh" else 1e-5  # the file does not say which GELU it is
    with torch.no_grad():
        torch.testing.assert_close(back.encode(ids), model.encode(ids), atol=tolerance, rtol=0)


def test_a_gguf_by_others_agrees_with_the_formulas_and_with_llama_cpp(tmp_path: Path) -> None:
    written = tiny_bert.write_tiny_bert(tmp_path / "bert.gguf")
    ids = tiny_bert.ids_of("the", "miller", "##s", "run")

    with open_checkpoint(written.path) as checkpoint, torch.no_grad():
        ours = load_model(checkpoint).encode(torch.tensor([ids]))[0].numpy()

    np.testing.assert_allclose(ours, written.hidden(ids), atol=_GELU_TABLE)
    np.testing.assert_allclose(ours, llama_states(written.path, ids), atol=_GELU_TABLE)


def test_norms_by_their_first_names_are_recognized() -> None:
    """Google's first checkpoints call them gamma and beta."""
    checkpoint = checkpoint_of(oracle("bert"))
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for name in checkpoint.names:
        old = next((name.replace(new, first) for new, first in names.items() if new in name), name)
        checkpoint.tensors[old] = checkpoint.tensors.pop(name)
    ids = ids_for(1)

    with torch.no_grad():
        ours, theirs = load_model(checkpoint).encode(ids), states_of(oracle("bert"), ids)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_a_head_is_taken_for_what_the_tensors_show_not_the_class_that_is_named() -> None:
    named_without, named_with = checkpoint_of(oracle("bert")), checkpoint_of(oracle("bert, tanh, without a head"))
    named_without.config = {**named_without.config, "architectures": ["BertModel"]}
    named_with.config = {**named_with.config, "architectures": ["BertForMaskedLM"]}

    assert load_model(named_without).config.masked_head
    assert not load_model(named_with).config.masked_head


@pytest.mark.parametrize("head", ["classifier.weight", "qa_outputs.weight", "classifier.out_proj.weight",
                                  "cls.output.weight"])  # fmt: skip
def test_a_model_that_sorts_texts_is_refused_in_so_many_words(head: str) -> None:
    checkpoint = checkpoint_of(oracle("bert, tanh, without a head"))
    checkpoint.tensors[head] = np.zeros((3, 32), np.float32)

    with pytest.raises(TaskHead) as caught:
        bind(*reading.identify(checkpoint), checkpoint)

    assert head in str(caught.value)


@pytest.mark.parametrize("setting", [{"is_decoder": True}, {"position_embedding_type": "relative_key"}])
def test_what_is_not_computed_is_refused(setting: dict[str, Any]) -> None:
    checkpoint = checkpoint_of(oracle("bert"))
    checkpoint.config = {**checkpoint.config, **setting}

    with pytest.raises(reading.UnusableConfig) as caught:
        reading.identify(checkpoint)

    assert next(iter(setting)) in str(caught.value)


def test_every_encoder_family_has_a_tiny_model() -> None:
    families = {reading.by_hf_type(oracle(name).config.model_type).name for name in NAMES}

    assert families == {family.name for family in ARCHITECTURES if family.fixed.get("form") == "encoder"}


def test_the_shapes_are_known_without_the_model(model: Transformer) -> None:
    slots = model.slots()
    assert {name: shape_of(name, model.config) for name in slots} == {
        name: tuple(slot.tensor.shape) for name, slot in slots.items()
    }
