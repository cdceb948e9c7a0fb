"""Beam search against every text that there is, and against transformers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.beams import BeamParams, EarlyStopping
from runtime.engine import StopFlag
from runtime.logits import InvalidNumbers
from runtime.native.beam_search import Hypothesis, beam_search

END = 0


class Whole:
    """A model of transformers that reads every text anew at each step."""

    def __init__(self, model: Any, prompt: list[int]) -> None:
        self._model = model
        self._texts = [prompt]

    def reorder(self, rows: Tensor) -> None:
        self._texts = [self._texts[row] for row in rows.tolist()]

    def step(self, ids: Tensor) -> Tensor:
        self._texts = [[*text, token] for text, token in zip(self._texts, ids.tolist(), strict=True)]
        return self.logits()

    def logits(self) -> Tensor:
        with torch.no_grad():
            found: Tensor = self._model(torch.tensor(self._texts)).logits[:, -1].float()
        return found


@pytest.fixture(scope="session")
def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=24, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.8,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def up_to_end(ids: list[int], ends: set[int]) -> list[int]:
    """Returns a text without what fills it up."""
    return ids[: next((at + 1 for at, token in enumerate(ids) if token in ends), len(ids))]


@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize("early", ["true", "false", "never"])
def test_transformers_finds_the_same_texts(llama: Any, penalty: float, early: EarlyStopping) -> None:
    prompt, beams = [5, 9, 3], 3
    params = BeamParams(beams=beams, n_best=beams, max_tokens=12, length_penalty=penalty, early_stopping=early)
    stops = {"true": True, "false": False, "never": "never"}
    theirs = llama.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, 3, dtype=torch.long), num_beams=beams, max_new_tokens=12,
        num_return_sequences=beams, length_penalty=penalty, early_stopping=stops[early], eos_token_id=[2, 7],
        pad_token_id=0, bos_token_id=1, do_sample=False, output_scores=True, return_dict_in_generate=True,
    )  # fmt: skip

    model = Whole(llama, prompt)
    ours = beam_search(model.logits()[0], model, params=params, ends=[2, 7])

    assert [list(each.ids) for each in ours] == [up_to_end(row[3:].tolist(), {2, 7}) for row in theirs.sequences]
    assert [each.score for each in ours] == pytest.approx(theirs.sequences_scores.tolist(), abs=1e-4)


class Table:
    """A model whose next token depends on the last two: logits (V + 1, V + 1, V), with V for "nothing yet"."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits
        self._nothing = logits.shape[2]
        self._texts: list[tuple[int, ...]] = [()]
        self.widest = 1

    @property
    def first(self) -> Tensor:
        return self._after(())

    def _after(self, ids: tuple[int, ...]) -> Tensor:
        before = (self._nothing, self._nothing, *ids)[-2:]
        return self._logits[before]

    def reorder(self, rows: Tensor) -> None:
        self._texts = [self._texts[row] for row in rows.tolist()]

    def step(self, ids: Tensor) -> Tensor:
        self._texts = [(*text, token) for text, token in zip(self._texts, ids.tolist(), strict=True)]
        assert all(END not in text for text in self._texts), "a finished text is not read on"
        self.widest = max(self.widest, len(ids))
        return torch.stack([self._after(text) for text in self._texts])

    def log_probability(self, ids: tuple[int, ...]) -> float:
        steps = (torch.log_softmax(self._after(ids[:at]), 0)[token] for at, token in enumerate(ids))
        return float(sum(steps))


def table(seed: int, size: int = 3, spread: float = 1.5) -> Table:
    return Table(torch.randn(size + 1, size + 1, size, generator=torch.Generator().manual_seed(seed)) * spread)


def every_text(size: int, longest: int) -> Iterator[tuple[int, ...]]:
    for length in range(1, longest + 1):
        for body in itertools.product(range(1, size), repeat=length - 1):
            yield (*body, END)
    yield from itertools.product(range(1, size), repeat=longest)


def best_scores(model: Table, params: BeamParams, size: int = 3) -> list[float]:
    texts = every_text(size, params.max_tokens)
    scores = (model.log_probability(ids) / len(ids) ** params.length_penalty for ids in texts)
    return sorted(scores, reverse=True)[: params.n_best]


def search(model: Table, params: BeamParams) -> list[Hypothesis]:
    return beam_search(model.first, model, params=params, ends=[END])


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_with_beams_for_every_text_the_best_of_all_are_found(seed: int, penalty: float) -> None:
    model = table(seed)
    params = BeamParams(beams=200, n_best=5, max_tokens=6, length_penalty=penalty, early_stopping="never")

    found = search(model, params)

    assert [each.score for each in found] == pytest.approx(best_scores(model, params), abs=1e-5)


@pytest.mark.parametrize("beams", [1, 2, 4, 8])
@pytest.mark.parametrize("early", ["true", "false", "never"])
@pytest.mark.parametrize("seed", range(5))
def test_texts_are_different_end_once_and_bear_their_own_score(beams: int, early: EarlyStopping, seed: int) -> None:
    model = table(seed, size=5)
    params = BeamParams(beams=beams, n_best=beams, max_tokens=8, length_penalty=0.7, early_stopping=early)

    found = search(model, params)

    assert len({each.ids for each in found}) == len(found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert model.widest <= beams
    for each in found:
        assert END not in each.ids[:-1]
        assert (each.ids[-1] == END) == each.finished
        assert each.finished or len(each.ids) == 8
        assert math.isclose(each.log_probability, model.log_probability(each.ids), abs_tol=1e-5)
        assert math.isclose(each.score, each.log_probability / len(each.ids) ** 0.7, abs_tol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_takes_the_likeliest_token_each_time(seed: int) -> None:
    model = table(seed, size=6)
    expected: tuple[int, ...] = ()
    while END not in expected and len(expected) < 10:
        expected = (*expected, int(model._after(expected).argmax()))

    assert search(model, BeamParams(beams=1, max_tokens=10, early_stopping="true"))[0].ids == expected


def certain(chances: dict[tuple[int, ...], tuple[float, float, float]]) -> Table:
    """A table of three tokens in which some pairs of last tokens have given chances; the others end."""
    logits = torch.log(torch.tensor([0.98, 0.01, 0.01])).repeat(4, 4, 1)
    for before, given in chances.items():
        logits[before] = torch.log(torch.tensor(given))
    return Table(logits)


def test_the_stop_rule_depends_on_the_sign_of_the_penalty() -> None:
    # The end at once has half the chance; going on is a little less likely, but certain from then on.
    model = certain({(3, 3): (0.5, 0.3, 0.2), (3, 1): (0.001, 0.998, 0.001), (1, 1): (0.001, 0.998, 0.001)})
    first_found = BeamParams(beams=1, max_tokens=6, length_penalty=2.0, early_stopping="true")
    wide = {"beams": 3, "max_tokens": 6, "early_stopping": "never"}

    assert search(model, first_found)[0].ids == (END,)
    assert search(model, BeamParams(length_penalty=2.0, **wide))[0].ids == (1, 1, 1, 1, 1, 1)  # type: ignore[arg-type]
    assert search(model, BeamParams(length_penalty=-1.0, **wide))[0].ids == (END,)  # type: ignore[arg-type]


def test_a_stop_returns_what_there_is() -> None:
    stop = StopFlag()
    stop.set()
    model = table(0)

    found = beam_search(model.first, model, params=BeamParams(beams=3, n_best=3), ends=[END], stop=stop)

    assert found
    assert all(len(each.ids) == 1 for each in found)


def test_several_tokens_may_end_a_text() -> None:
    model = table(3, size=4)

    found = beam_search(model.first, model, params=BeamParams(beams=6, n_best=6, max_tokens=4), ends=[0, 2])

    assert all(not {0, 2} & set(each.ids[:-1]) for each in found)
    assert {each.ids[-1] for each in found if each.finished} == {0, 2}


def test_impossible_tokens_are_not_in_any_text() -> None:
    logits = torch.zeros(4, 4, 3)
    logits[:, :, 2] = -math.inf
    model = Table(logits)

    found = search(model, BeamParams(beams=50, n_best=50, max_tokens=3))

    assert found
    assert all(2 not in each.ids for each in found)


def test_logits_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidNumbers):
        search(Table(torch.full((4, 4, 3), math.nan)), BeamParams())


@pytest.mark.parametrize("wrong", [{"beams": 0}, {"n_best": 0}, {"max_tokens": 0}], ids=str)
def test_a_search_for_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        search(table(0), BeamParams(**wrong))
