"""Every decoder family against its oracles: transformers on the weights it saves, llama.cpp on the GGUF of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor

from hf_models import CASES, checkpoint_of, oracle
from llama_logits import llama_logits
from native_gguf import gguf_checkpoint, write_native
from runtime.architectures import ARCHITECTURES, reading
from runtime.architectures.shapes import shape_of
from runtime.native.kv_cache import KVCache
from runtime.native.load import load_model
from runtime.native.transformer import Transformer

NAMES = [case.name for case in CASES]
LONGEST = 20  # tokens: longer than the tiny windows and the tiny original contexts
_APPROXIMATE_GELU = ("gelu", "gelu_tanh")  # llama.cpp looks it up in a table of f16 values


def ids_for(batch: int, length: int = LONGEST) -> Tensor:
    return torch.randint(0, 96, (batch, length), generator=torch.Generator().manual_seed(3))


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
    models[case_name].planned_length = 0
    return models[case_name]


def test_logits_are_those_of_transformers(case_name: str, model: Transformer) -> None:
    ids = ids_for(2)

    with torch.no_grad():
        ours, theirs = model(ids), oracle(case_name)(ids).logits

    assert theirs.abs().max() > 1  # or a model that says nothing would agree with everybody
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_token_by_token_gives_the_logits_of_the_whole(model: Transformer) -> None:
    """A first piece, then one token after the other, against everything at once."""
    ids = ids_for(2)
    model.planned_length = LONGEST
    cache = KVCache(model.config, batch=2, capacity=4)

    with torch.no_grad():
        whole = model(ids)
        pieces = []
        for piece in (ids[:, :7], *ids[:, 7:].split(1, dim=1)):
            pieces.append(model(piece, cache=cache))
            cache.advance(piece.shape[1])

    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=0)


def test_padding_on_the_left_changes_nothing(model: Transformer) -> None:
    ids = ids_for(2)
    padded = torch.stack((ids[0], torch.cat((torch.zeros(6, dtype=torch.long), ids[1, :-6]))))
    model.planned_length = LONGEST

    with torch.no_grad():
        batched = model(padded, padding=torch.tensor([0, 6]))
        alone = model(ids[1:, :-6])

    torch.testing.assert_close(batched[1:, 6:], alone, atol=1e-4, rtol=0)


def test_the_table_names_exactly_the_models_weights(model: Transformer) -> None:
    architecture = reading.by_name(model.config.family)

    assert architecture.our_names(model.config) == set(model.slots())


def test_settings_written_for_transformers_read_back_the_same(model: Transformer) -> None:
    architecture = reading.by_name(model.config.family)

    written = reading.to_hf(architecture, model.config)

    assert reading.from_hf(architecture, msgspec.json.decode(msgspec.json.encode(written))) == model.config


def test_a_gguf_of_the_model_is_read_back_the_same(model: Transformer) -> None:
    length = within_gguf(model)
    ids = ids_for(1, length)

    with torch.no_grad():
        back = load_model(gguf_checkpoint(model))
        torch.testing.assert_close(back(ids), model(ids), atol=1e-5, rtol=0)


def test_llama_cpp_reads_the_same_logits_from_the_gguf(model: Transformer, tmp_path: Path) -> None:
    ids = ids_for(1, within_gguf(model))
    path = write_native(tmp_path / "model.gguf", model)

    theirs = torch.from_numpy(llama_logits(path, ids[0].tolist(), n_ctx=128))

    with torch.no_grad():
        ours = model(ids)[0]
    tolerance = 3e-2 if model.config.activation in _APPROXIMATE_GELU else 1e-3
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


def within_gguf(model: Transformer) -> int:
    """Returns how many tokens the model's GGUF file is good for; skips models that it cannot hold."""
    architecture = reading.by_name(model.config.family)
    why_not = architecture.fits_gguf(model.config)
    if why_not:
        assert why_not.endswith(".")
        pytest.skip(why_not)
    settings = reading.to_gguf(architecture, model.config)
    return min(LONGEST, settings.get(f"{architecture.gguf}.context_length", LONGEST))


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(8, 2), (6, 2), (8, 1), (8, 8), (9, 3)])
def test_llama_cpp_agrees_for_every_layout_of_heads(n_heads: int, n_kv_heads: int, tmp_path: Path) -> None:
    """A wrong order of query and key rows shows only where n_heads / n_kv_heads is not n_kv_heads."""
    sizes = {"num_attention_heads": n_heads, "num_key_value_heads": n_kv_heads, "hidden_size": 8 * n_heads}
    model = load_model(checkpoint_of(oracle("llama", **sizes)))
    ids = ids_for(1)

    theirs = torch.from_numpy(llama_logits(write_native(tmp_path / "model.gguf", model), ids[0].tolist()))

    with torch.no_grad():
        torch.testing.assert_close(model(ids)[0], theirs, atol=1e-3, rtol=0)
        torch.testing.assert_close(model(ids), oracle("llama", **sizes)(ids).logits, atol=1e-4, rtol=0)


def test_every_decoder_family_has_a_tiny_model() -> None:
    families = {reading.by_hf_type(oracle(name).config.model_type).name for name in NAMES}

    assert families == {family.name for family in ARCHITECTURES if family.fixed.get("form", "decoder") == "decoder"}


def test_the_shapes_are_known_without_the_model(model: Transformer) -> None:
    slots = model.slots()
    assert {name: shape_of(name, model.config) for name in slots} == {
        name: tuple(slot.tensor.shape) for name, slot in slots.items()
    }
