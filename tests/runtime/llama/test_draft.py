"""Guessing with a second, smaller model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import engines
import recurrent_gguf
import tiny_bert
import tiny_gguf
from engines import EXACT, chat, collect, raw
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.llama.draft import ModelDrafter
from runtime.llama.engine import LlamaEngine
from runtime.params import LoadParams
from runtime.protocol import FinishReason, PromptProgress, TextDelta
from speculating import ids_of, speculate

SENTENCE = "The miller opened the sluice and the stone began to turn."


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "target": tiny_gguf.write_tiny(folder / "target.gguf"),
        "close": tiny_gguf.write_tiny(folder / "close.gguf", type="Q8_0"),
        "stranger": tiny_gguf.write_tiny(folder / "stranger.gguf", seed=1, n_layers=1),
    }


@pytest.fixture(scope="module")
def plain(models: dict[str, Path]) -> Iterator[Engine]:
    engine = engines.load(models["target"], **EXACT)
    yield engine
    engine.close()


def with_draft(models: dict[str, Path], draft: str, **options: object) -> Engine:
    """Returns an engine that checks every guess of its draft model."""
    settings = {"speculation": "draft", "draft_model": str(models[draft]), **EXACT, **options}
    engine = engines.load(models["target"], **settings)
    return speculate(engine, drafter_of(engine))


def drafter_of(engine: Engine) -> ModelDrafter:
    drafter = engine._draft  # type: ignore[attr-defined]
    assert isinstance(drafter, ModelDrafter)
    return drafter


# --- guessing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", ["close", "stranger"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 3}], ids=["greedy", "sampled"])
def test_the_text_is_the_same_as_without_a_draft(
    models: dict[str, Path], plain: Engine, draft: str, sampling: dict[str, object]
) -> None:
    engine = with_draft(models, draft)

    for request in (chat("hello there", **sampling), chat("hello there", "yes", "and then?", **sampling)):
        expected, answer = collect(plain, request), collect(engine, request)
        assert answer.text == expected.text
        assert ids_of(engine) == ids_of(plain)
        assert answer.end.usage.drafted_tokens > 0


@pytest.mark.shows("speculation", "draft_model")
def test_a_draft_that_is_nearly_the_model_guesses_most_tokens(models: dict[str, Path]) -> None:
    usage = collect(with_draft(models, "close"), chat("hello there")).end.usage

    assert usage.accepted_tokens > 40
    assert usage.accepted_tokens > usage.drafted_tokens / 2


@pytest.mark.shows("draft_min_p")
def test_the_draft_stops_where_it_is_less_sure_than_asked(models: dict[str, Path]) -> None:
    bold = collect(with_draft(models, "close"), chat("hello there")).end.usage
    wary = collect(with_draft(models, "close", draft_min_p=0.9), chat("hello there")).end.usage

    assert 0 < wary.drafted_tokens < bold.drafted_tokens
    assert wary.accepted_tokens / wary.drafted_tokens > bold.accepted_tokens / bold.drafted_tokens


def test_the_draft_follows_a_context_that_rolls_on(models: dict[str, Path]) -> None:
    before = engines.load(models["target"], context_length=64, **EXACT)
    engine = with_draft(models, "close", context_length=64)
    request = raw(SENTENCE, max_tokens=150, context_policy="shift")

    expected, answer = collect(before, request), collect(engine, request)

    assert answer.text == expected.text
    assert answer.end.usage.accepted_tokens > 0


def test_where_the_drafts_own_context_ends_the_answer_goes_on_without(tmp_path: Path, models: dict[str, Path]) -> None:
    short = tiny_gguf.write_tiny(tmp_path / "short.gguf", n_ctx=256)  # llama.cpp has room for exactly so many
    engine = with_draft({**models, "short": short}, "short")

    answer = collect(engine, raw(SENTENCE, max_tokens=400))

    assert answer.end.usage.generated_tokens == 400
    assert 100 < answer.end.usage.accepted_tokens < 256


def test_what_was_heard_is_read_once_and_what_was_guessed_wrong_is_let_go(models: dict[str, Path]) -> None:
    drafter = drafter_of(with_draft(models, "close"))
    drafter.begin([5, 6, 7])
    assert drafter.behind == 3
    drafter.catch_up()
    first = [guess.token for guess in islice(drafter.guesses(), 4)]

    drafter.add(first[0])
    drafter.add(first[1] ^ 1)

    assert drafter.behind == 1
    drafter.catch_up()
    after = [guess.token for guess in islice(drafter.guesses(), 4)]
    fresh = drafter_of(with_draft(models, "close"))
    fresh.begin([5, 6, 7, first[0], first[1] ^ 1])
    fresh.catch_up()
    assert after == [guess.token for guess in islice(fresh.guesses(), 4)]


def test_stop_reaches_the_draft_model(models: dict[str, Path]) -> None:
    engine, stop = with_draft(models, "close"), StopFlag()
    events = engine.generate(chat("hello there"), stop)
    for event in events:
        if isinstance(event, PromptProgress) and event.done == event.total:
            stop.set()
    assert event.reason is FinishReason.STOPPED  # type: ignore[union-attr]
    assert not isinstance(event, TextDelta)


# --- loading ----------------------------------------------------------------------------------------------------


def refusal(path: Path, draft: str | Path) -> UserError:
    with pytest.raises(UserError) as refused:
        engines.load(path, speculation="draft", draft_model=str(draft))
    return refused.value


def test_what_was_loaded_is_told(models: dict[str, Path]) -> None:
    alone = engines.load(models["target"]).info
    info = with_draft(models, "close").info

    assert (info.speculation, info.draft_path) == ("draft", str(models["close"]))
    assert info.memory_bytes > alone.memory_bytes
    assert info.notes == ()


def test_loading_two_models_is_shown_as_one(models: dict[str, Path]) -> None:
    heard: list[float] = []
    params = LoadParams(speculation="draft", draft_model=str(models["close"]), context_length=512, threads=1)

    engine = LlamaEngine(models["target"], params, listener=lambda fraction: heard.append(fraction) is None)

    engine.close()
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1)
    assert any(0.5 < fraction < 0.9 for fraction in heard)


def test_a_draft_has_to_be_named_and_to_be_there(models: dict[str, Path], tmp_path: Path) -> None:
    assert refusal(models["target"], " ").code == "no_draft_model"
    assert refusal(models["target"], tmp_path / "missing.gguf").code == "model_missing"
    bert = tiny_bert.write_tiny_bert(tmp_path / "bert.gguf").path
    assert refusal(models["target"], bert).code == "unsupported_model"


def test_a_draft_with_other_tokens_is_refused_with_the_difference(models: dict[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "script.gguf"
    tiny_gguf.write_scripted(script, [b"one ", b"two "])
    begins = tiny_gguf.write_tiny(tmp_path / "begins.gguf", add_bos=True)
    large = tmp_path / "large.gguf"
    tiny_gguf.write_scripted(large, [f"word{at}".encode() for at in range(600)])

    for path, words in ((script, "Its token 259 is"), (begins, "with another token"), (large, "the model has 512")):
        error = refusal(models["target"], path)
        assert error.code == "draft_vocabulary"
        assert words in error.info.message


def test_a_draft_that_cannot_go_back_is_not_used_and_that_is_said(models: dict[str, Path], tmp_path: Path) -> None:
    mamba = recurrent_gguf.write_recurrent(tmp_path / "mamba.gguf")

    engine = engines.load(models["target"], speculation="draft", draft_model=str(mamba))

    assert any("draft model cannot take tokens back" in note for note in engine.info.notes)
    assert engine.info.speculation == "off"
    assert collect(engine, chat("hello")).end.usage.drafted_tokens == 0


def test_a_windowed_draft_keeps_everything(tmp_path: Path) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "windowed.gguf", window=16)
    engine = engines.load(path, speculation="draft", draft_model=str(path), **EXACT)
    before = engines.load(path, **EXACT)
    request = raw(SENTENCE, max_tokens=100)

    answer = collect(speculate(engine, drafter_of(engine)), request)

    assert answer.text == collect(before, request).text
    assert answer.end.usage.accepted_tokens > 50
