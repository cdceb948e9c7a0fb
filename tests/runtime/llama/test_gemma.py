"""A second real family: Gemma 3 270M, whose layers look through a window, and which has no chat template."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import engines
import gemma
from engines import EXACT, GREEDY, Answer, chat, collect, raw
from runtime import memory
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.gguf_header import read_header
from runtime.llama.token_types import TokenAttribute
from runtime.llama.tokenizer import GgufTokenizer
from runtime.params import LoadParams
from runtime.protocol import FinishReason, GenerationRequest
from runtime.reading import Scored

TEXTS = (
    "The miller opened the sluice.", " two spaces  inside", "\n\n\ttabs\r\n", "L'été à Zürich: 25 °C, ½ price!",
    "我想在苹果工作", "👩‍👩‍👧 🦙", "def f(x):\n    return x ** 2  # 10,000", "", "𓀀𓂀 ᚠᛇᚻ", "<start_of_turn>user",
)  # fmt: skip
PROSE = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light."
)


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[GgufTokenizer]:
    with GgufTokenizer(gemma.model_file()) as opened:
        yield opened


@pytest.fixture(scope="module")
def base() -> Iterator[Engine]:
    """The model as a person would load it, with a short context."""
    engine = engines.load(gemma.model_file(), context_length=512, threads=2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def exact() -> Iterator[Engine]:
    """The model with a cache of full numbers, in which half of the prompt lies outside the window."""
    engine = engines.load(gemma.model_file(), context_length=1280, threads=2, micro_batch=128, **EXACT)
    yield engine
    engine.close()


def story(vocabulary: GgufTokenizer, n_tokens: int) -> list[int]:
    """Returns the begin mark and a text of this many tokens in all that never repeats itself."""
    lines = (f" On day {day} the miller sold {day * 7 % 31} sacks to farm {day * day % 97}." for day in range(99))
    ids = [2, *vocabulary.tokenize("A mill:" + "".join(lines))]
    assert len(ids) >= n_tokens
    return ids[:n_tokens]


def reading(engine: Engine, ids: list[int]) -> tuple[Answer, np.ndarray]:
    """Reads a prompt, draws one token, and returns with it the logits (V,) that it was drawn from."""
    answer = collect(engine, GenerationRequest(prompt_ids=tuple(ids), sampling=GREEDY.replace(max_tokens=1)))
    model = engine._model  # type: ignore[attr-defined]
    logits = model.library.llama_get_logits_ith(model.context, -1)[: model.vocabulary.size]
    return answer, np.array(logits, np.float32)


def fresh(engine: Engine, ids: list[int]) -> np.ndarray:
    engine._cache.clear()  # type: ignore[attr-defined]
    answer, logits = reading(engine, ids)
    assert answer.end.usage.cached_tokens == 0
    return logits


# --- text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back_from_its_tokens(vocabulary: GgufTokenizer, text: str) -> None:
    ids = vocabulary.tokenize(text)
    assert vocabulary.decode(ids) == text.encode()
    assert not vocabulary.control_ids & set(ids)


def test_known_words_have_the_ids_of_gemmas_tokenizer(vocabulary: GgufTokenizer) -> None:
    assert (vocabulary.kind, vocabulary.size) == ("spm", 262_144)
    assert (vocabulary.special.bos, vocabulary.special.eos, vocabulary.special.pad, vocabulary.unknown) == (2, 1, 0, 3)
    assert vocabulary.tokenize("", add_bos=True) == [2]
    assert vocabulary.tokenize("<start_of_turn>user<end_of_turn>", special=True) == [105, 2364, 106]
    assert not vocabulary.prefixes_space


def test_what_has_no_token_is_spelled_in_bytes_also_in_an_answer(base: Engine, vocabulary: GgufTokenizer) -> None:
    sign = "𓀀"
    ids = vocabulary.tokenize(sign)
    assert [vocabulary.attributes(token) for token in ids] == [TokenAttribute.BYTE] * 4
    answer = collect(base, raw("The hieroglyph", grammar=f'root ::= "{sign}"'))
    assert answer.text == sign
    assert answer.end.usage.generated_tokens == 4


def test_a_text_is_likelier_than_its_words_in_any_order(base: Engine) -> None:
    *_, sensible = base.score(PROSE, StopFlag())
    *_, shuffled = base.score(" ".join(sorted(PROSE.split())), StopFlag())
    assert isinstance(sensible, Scored)
    assert isinstance(shuffled, Scored)
    assert sensible.begin_mark
    assert 1 < sensible.perplexity < 10
    assert shuffled.perplexity > 20 * sensible.perplexity


# --- without a template -----------------------------------------------------------------------------------------


def test_a_raw_text_is_continued_sensibly(base: Engine) -> None:
    answer = collect(base, raw("1, 2, 3, 4, 5, 6,", max_tokens=6))
    assert answer.text.startswith(" 7, 8")
    assert not base.info.has_template


def test_a_conversation_is_refused_with_what_works_instead(base: Engine) -> None:
    with pytest.raises(UserError) as caught:
        collect(base, chat("hi"))
    assert caught.value.info.code == "no_template"


# --- the window -------------------------------------------------------------------------------------------------


def test_an_edit_further_back_than_the_window_is_read_anew_and_gives_what_a_fresh_reading_gives(
    exact: Engine, vocabulary: GgufTokenizer
) -> None:
    first = story(vocabulary, 900)  # a windowed layer's cache holds 768 of them
    edited = [*first[:150], *vocabulary.tokenize(" Nobody bought."), *first[150:]]
    reading(exact, first)

    answer, logits = reading(exact, edited)

    assert answer.end.usage.cached_tokens == 0
    assert f"{gemma.WINDOW}" in answer.end.usage.reuse_note
    assert np.abs(logits - fresh(exact, edited)).max() < 1e-4


def test_an_edit_near_the_end_reuses_the_rest_and_gives_what_a_fresh_reading_gives(
    exact: Engine, vocabulary: GgufTokenizer
) -> None:
    first = story(vocabulary, 760)
    edited = first[:660] + vocabulary.tokenize(" Then a fire broke out, and the mill burned down.")
    reading(exact, first)

    answer, logits = reading(exact, edited)

    assert answer.end.usage.cached_tokens == 640  # where a piece of 128 tokens begins
    assert answer.end.usage.reuse_note == ""
    assert np.abs(logits - fresh(exact, edited)).max() < 1e-4


# --- a full context ---------------------------------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[Engine]:
    engine = engines.load(gemma.model_file(), context_length=96, threads=2, swa_full=True)
    yield engine
    engine.close()


def test_a_conversation_grows_past_five_contexts(small: Engine) -> None:
    turns = [f"{PROSE[: 60 + at]} ({at})" for at in range(41)]
    assert len(small.tokenize("".join(turns))) > 5 * 96

    trimmed = collect(small, chat(*turns, max_tokens=4, template="gemma"))  # which the base model's file lacks
    assert len(trimmed.dropped) > 30
    assert trimmed.dropped == tuple(range(len(trimmed.dropped)))
    assert trimmed.end.usage.context_used <= 96
    with pytest.raises(UserError) as caught:
        collect(small, chat(*turns, context_policy="stop", template="gemma"))
    assert caught.value.info.code == "nothing_may_be_left_out"


def test_an_answer_rolls_on_past_the_context_where_every_layer_keeps_all(small: Engine) -> None:
    request = raw("1, 2, 3, 4, 5, 6,", max_tokens=110, context_policy="shift")
    answer = collect(small, GenerationRequest(prompt=request.prompt, ignore_end=True, sampling=request.sampling))
    assert answer.end.reason is FinishReason.LENGTH
    assert answer.end.usage.generated_tokens == 110
    assert answer.end.usage.context_used <= 96
    assert any("oldest tokens were let go" in note for note in answer.end.notes)


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context_length", "params"), [(512, {}), (4096, {"micro_batch": 256}), (4096, {"swa_full": True, **EXACT})]
)
def test_the_memory_that_was_foretold_is_what_is_taken(context_length: int, params: dict[str, object]) -> None:
    path = gemma.model_file()
    foretold = memory.estimate(read_header(path), LoadParams(**params), context_length=context_length)  # type: ignore[arg-type]
    engine = engines.load(path, context_length=context_length, **params)
    assert engine.info.memory_bytes == pytest.approx(foretold.total, rel=0.1)
