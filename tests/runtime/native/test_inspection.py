"""Looking inside: maps of attention, entropies, probabilities and the logit lens, against the numbers themselves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_bert
import tiny_gguf
import tiny_t5
from engines import raw
from hf_models import checkpoint_of, oracle
from runtime import engines
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.inspection import Inspection, InspectRequest
from runtime.native.attention import attend
from runtime.native.engine import NativeEngine
from runtime.native.inspection import AttentionWatch, Inspector, LensWatch, Onlooker, entropy, likely
from runtime.native.load import load_model
from runtime.native.transformer import Transformer
from runtime.params import LoadParams
from runtime.protocol import TextDelta
from tiny_tokenizers import write_tokenizer

EXACT = LoadParams(dtype="f32", threads=1)
TEXT = "Once upon a time there was a mill"
WORKED_Q = torch.tensor([[0.8, 0.2], [0.5, -0.3], [-0.2, 0.9]])[None, None]
WORKED_K = torch.tensor([[0.6, 0.1], [-0.4, 0.7], [0.2, -0.5]])[None, None]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_t5.write_tiny_t5(tmp_path_factory.mktemp("t5") / "t5.gguf").path


def seen(path: Path, text: str = TEXT, **wishes: object) -> Inspection:
    inspector = Inspector(path, EXACT)
    try:
        return inspector.inspect(InspectRequest(text=text, **wishes), StopFlag())  # type: ignore[arg-type]
    finally:
        inspector.close()


# --- attention and entropy --------------------------------------------------------------------------------------


def test_the_worked_example_of_three_words() -> None:
    """Q and K of three words: the first row's scores 0.50, -0.18, 0.06, and its weights, worked out by hand."""
    _gathered, weights = attend(WORKED_Q, WORKED_K, WORKED_K)
    watch = AttentionWatch("self", 1)

    watch.attention("self", 0, weights, 0)

    np.testing.assert_allclose(watch.map[0], [0.425, 0.263, 0.312], atol=5e-4)
    by_hand = -sum(p * math.log(p) for p in (0.425, 0.263, 0.312))
    assert entropy(weights)[0, 0, 0] == pytest.approx(by_hand, abs=1e-3)
    assert watch.entropies[0, 0] == pytest.approx(float(entropy(weights).mean()))


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_the_entropy_of_even_attention_is_the_logarithm_of_its_width(n: int) -> None:
    assert entropy(torch.full((1, n), 1 / n)) == pytest.approx(math.log(n), abs=1e-5)
    assert entropy(torch.eye(n)[:1]) == 0.0


def test_rows_sum_to_1_and_nobody_looks_ahead(tiny: Path) -> None:
    found = seen(tiny)

    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    assert not np.triu(found.weights, 1).any()
    assert found.weights.shape == (len(found.rows), len(found.columns))
    assert "".join(found.rows).endswith(TEXT)


def test_rows_sum_to_1_also_in_16_bits(tiny: Path) -> None:
    inspector = Inspector(tiny, EXACT.replace(dtype="bf16"))

    found = inspector.inspect(InspectRequest(text=TEXT), StopFlag())
    inspector.close()

    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)


def test_an_encoder_looks_both_ways(tmp_path: Path) -> None:
    found = seen(tiny_bert.write_tiny_bert(tmp_path / "bert.gguf").path, "the miller runs")

    assert found.kind == "encoder"
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    assert np.triu(found.weights, 1).any()
    assert (found.rows[0], found.rows[-1]) == ("[CLS]", "[SEP]")
    assert found.lens == ()  # a GGUF file holds no head, so no layer says anything
    assert all(place.probability is None for place in found.places)


def test_the_map_is_the_layer_and_head_or_their_mean(tiny: Path) -> None:
    whole = seen(tiny)
    n_layers, n_heads = whole.entropy.shape

    each = np.array([[seen(tiny, layer=layer, head=head).weights for head in range(n_heads)]
                     for layer in range(n_layers)])  # fmt: skip

    np.testing.assert_allclose(whole.weights, each.mean(axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(seen(tiny, layer=0).weights, each[0].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(seen(tiny, head=1).weights, each[:, 1].mean(axis=0), atol=1e-6)
    by_hand = -(each * np.log(np.where(each > 0, each, 1))).sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(whole.entropy, by_hand, atol=1e-5)


def test_a_target_looks_at_its_source(t5: Path) -> None:
    found = seen(t5, "the miller turns", target="old bread")

    assert found.kind == "cross"
    assert (found.rows[0], found.columns[-1]) == ("<pad>", "</s>")
    assert found.weights.shape == (len(found.rows), len(found.columns)) == (3, 4)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    on_itself, source = (seen(t5, "the miller turns", target="old bread", kind=kind) for kind in ("self", "encoder"))
    assert not np.triu(on_itself.weights, 1).any()
    assert source.rows == source.columns == found.columns
    assert np.triu(source.weights, 1).any()


def test_only_one_map_and_the_entropies_are_kept() -> None:
    model = load_model(checkpoint_of(oracle("llama")))
    watch = AttentionWatch("self", model.config.n_layers)
    lens = LensWatch(model, "self", 2)

    with torch.no_grad():
        model(torch.randint(0, 96, (1, 40)), watch=Onlooker(watch, lens))

    kept = [value for value in vars(watch).values() if isinstance(value, torch.Tensor)]
    assert [tuple(tensor.shape) for tensor in kept] == [(40, 40)]
    assert not any(isinstance(value, torch.Tensor) for value in vars(lens).values())
    assert {len(found.ids[0]) for found in lens.found.values()} == {2}


# --- probabilities and the lens ---------------------------------------------------------------------------------


def families() -> list[tuple[str, bool]]:
    return [("llama", False), ("gemma2", False), ("gpt2", False), ("bert", True)]


@pytest.mark.parametrize(("name", "encodes"), families())
def test_the_lens_of_the_last_layer_is_what_the_model_says(name: str, encodes: bool) -> None:
    model = load_model(checkpoint_of(oracle(name)))
    ids = torch.randint(3, 96, (1, 12), generator=torch.Generator().manual_seed(1))
    lens = LensWatch(model, "encoder" if encodes else "self", 96)
    watch = Onlooker(AttentionWatch("cross", 0), lens)

    with torch.no_grad():
        states = model.encode(ids, watch=watch) if encodes else model.hidden(ids, watch=watch)
        expected = model.logits(states)[0].softmax(dim=-1)

    assert sorted(lens.found) == [-1, *range(model.config.n_layers)]
    last = lens.found[model.config.n_layers - 1]
    again = torch.zeros(12, 96).scatter(1, torch.tensor(last.ids), torch.tensor(last.probabilities))
    torch.testing.assert_close(again, expected, atol=1e-6, rtol=0)
    first = lens.found[0]
    assert first.ids != last.ids


@pytest.mark.parametrize("name", ["llama", "mistral, windowed", "gemma2", "bloom"])
def test_looking_on_changes_nothing(name: str) -> None:
    """Attention that is looked at is written out step by step; else one kernel does it."""
    model = load_model(checkpoint_of(oracle(name)))
    ids = torch.randint(0, 96, (1, 20), generator=torch.Generator().manual_seed(2))
    watch = Onlooker(AttentionWatch("self", model.config.n_layers), LensWatch(model, "self", 1))

    with torch.no_grad():
        torch.testing.assert_close(model(ids, watch=watch), model(ids), atol=1e-5, rtol=0)


def test_probabilities_are_those_of_the_logits(tiny: Path) -> None:
    engine = NativeEngine(tiny, EXACT)
    ids = engine._prompts.build(raw(TEXT)).ids
    logits = np.concatenate([np.array(rows) for rows in engine.logits(ids, StopFlag(), first=0, at_most=512)])
    engine.close()
    expected = torch.from_numpy(logits).softmax(dim=-1)

    places = seen(tiny, alternatives=5).places

    assert [place.id for place in places] == ids
    assert (places[0].probability, places[0].alternatives) == (None, ())
    for at in range(1, len(ids)):
        assert places[at].probability == pytest.approx(float(expected[at - 1, ids[at]]), rel=1e-4)
        best = expected[at - 1].topk(5)
        assert [guess.id for guess in places[at].alternatives] == best.indices.tolist()


def test_an_encoder_guesses_each_token_at_its_own_place(tmp_path: Path) -> None:
    model = oracle("bert", vocab_size=337)
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, "word-piece")

    found = seen(tmp_path, "the miller")

    with torch.no_grad():
        ids = torch.tensor([[place.id for place in found.places]])
        expected = model(ids).logits[0].softmax(dim=-1)
    for at, place in enumerate(found.places):
        assert place.probability == pytest.approx(float(expected[at, place.id]), rel=1e-3)
    assert len(found.lens) == 3  # the embedding and two layers


def test_likely_tokens_are_found_a_few_places_at_a_time() -> None:
    model: Transformer = load_model(checkpoint_of(oracle("llama")))
    states = torch.randn(1, 150, model.config.d_model)

    with torch.no_grad():
        found, whole = likely(model, states, 3), model.logits(states)[0].softmax(dim=-1).topk(3)

    assert found.ids == whole.indices.tolist()


def test_without_a_target_an_encoder_decoder_writes_its_own(t5: Path) -> None:
    engine = engines.open_engine(t5, LoadParams(engine="native", dtype="f32"))
    text = "".join(event.text for event in engine.generate(raw("the miller", max_tokens=8), StopFlag())
                   if isinstance(event, TextDelta))  # fmt: skip
    engine.close()

    found = seen(t5, "the miller", target_tokens=8)

    assert len(found.rows) == 9
    assert "".join(found.rows[1:]).strip() == text.strip()


# --- what cannot be looked at -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("wishes", "said"), [
    ({"layer": 99}, "layer 99"), ({"layer": -1}, "layer -1"), ({"head": 99}, "head 99"), ({"kind": "cross"}, "cross"),
])  # fmt: skip
def test_parts_that_are_not_there_are_named(wishes: dict[str, object], said: str, tiny: Path) -> None:
    with pytest.raises(UserError, match=said) as caught:
        seen(tiny, **wishes)
    assert caught.value.info.code == "no_such_part"


def test_a_text_that_is_too_long_is_refused_with_both_numbers(tiny: Path) -> None:
    with pytest.raises(UserError, match="at most 1,024"):
        seen(tiny, "word " * 2000)


def test_stop_ends_a_look(tiny: Path) -> None:
    inspector, stop = Inspector(tiny, EXACT), StopFlag()
    stop.set()

    with pytest.raises(UserError) as caught:
        inspector.inspect(InspectRequest(text=TEXT), stop)

    assert caught.value.info.code == "reading_stopped"
    inspector.close()
