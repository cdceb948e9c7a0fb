"""Answers that follow a grammar or a JSON schema, on models whose next-token distribution is known exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
from engines import collect, raw
from runtime.constraint import GrammarTooSlow
from runtime.engine import Engine
from runtime.errors import UserError
from runtime.gbnf import BadGrammar
from runtime.json_schema import BadSchema
from runtime.llama.candidates import Candidates
from runtime.llama.constraint import Constraint, Constraints
from runtime.llama.sampler import SamplerChain
from runtime.llama.vocabulary import Vocabulary
from runtime.params import SamplingParams
from runtime.protocol import FinishReason, GenerationRequest

DRAWS = 1000
WORDS = {b"A1": 0.4, b"B1": 0.3, b"C1": 0.15, b"D1": 0.1, b"E1": 0.05}
VALUES = {b'"no"': 0.4, b"true": 0.3, b"false": 0.15, b"null": 0.1, b"7": 0.05}
GRAMMAR = {"grammar": 'root ::= "B1" | "C1" | "E1"'}
SCHEMA = {"json_schema": '{"type": ["boolean", "integer"]}'}
OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "seed": 3}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def load(tmp_path: Path, distribution: dict[bytes, float]) -> Engine:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"ok"], distribution={None: distribution})
    engine = engines.load(path)
    collect(engine, engines.chat("hi", max_tokens=1))  # the logits of the first token are now in the context
    return engine


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = load(tmp_path_factory.mktemp("words"), WORDS)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = load(tmp_path_factory.mktemp("values"), VALUES)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = engines.load(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))
    yield engine
    engine.close()


def draw(engine: Any, draws: int = DRAWS, history: list[int] | None = None, **settings: Any) -> dict[bytes, float]:
    """Returns how often each piece was drawn as the first token: the constraint never goes on."""
    params = SamplingParams(**{**OFF, **settings}).validated()
    model = engine._model

    def at_its_start() -> Constraint:
        made = Constraints(model.library, model.vocabulary).make(params)
        made.accept = lambda token: None  # type: ignore[method-assign]
        return made

    chain = SamplerChain(
        model.library, model.vocabulary, params, seed=params.seed, context_length=512, constrain=at_its_start
    )
    chain.remember(history or [])
    counts: dict[bytes, float] = {}
    for _ in range(draws):
        token = chain.sample(model.context)
        assert token is not None
        piece = model.vocabulary.piece(token)
        counts[piece] = counts.get(piece, 0) + 1 / draws
    chain.close()
    return counts


def near(found: dict[bytes, float], expected: dict[bytes, float]) -> bool:
    """True where every frequency is within four standard errors, and nothing else was drawn."""
    total = sum(expected.values())
    share = {piece: value / total for piece, value in expected.items()}
    return set(found) <= set(share) and all(
        abs(found.get(piece, 0) - p) <= 4 * (p * (1 - p) / DRAWS) ** 0.5 + 1e-9 for piece, p in share.items()
    )


# --- what is drawn ----------------------------------------------------------------------------------------------


@pytest.mark.shows("grammar")
def test_only_what_is_allowed_is_drawn_in_the_models_proportions(words: Engine, values: Engine) -> None:
    assert near(draw(words, **GRAMMAR), {b"B1": 0.3, b"C1": 0.15, b"E1": 0.05})
    assert near(draw(values, **SCHEMA), {b"true": 0.3, b"false": 0.15, b"7": 0.05})


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"top_k": 2}, 2),
        ({"top_k": 1}, 1),
        ({"min_p": 0.4}, 2),  # C1 is half as likely as the best allowed one, but only 0.375 of the best of all
        ({"min_p": 0.9}, 1),
        ({"top_p": 0.55}, 1),  # B1 alone holds 0.6 of what is allowed, and 0.3 of all
        ({"top_p": 0.7}, 2),
        ({"top_k": 40, "top_p": 0.95, "min_p": 0.05}, 3),
        ({"top_n_sigma": 0.0001}, 1),
    ],
)
def test_filters_act_on_what_the_constraint_allows(
    words: Engine, values: Engine, settings: dict[str, float], left: int
) -> None:
    allowed = list({b"B1": 0.3, b"C1": 0.15, b"E1": 0.05}.items())[:left]
    assert near(draw(words, **GRAMMAR, **settings), dict(allowed))
    allowed = list({b"true": 0.3, b"false": 0.15, b"7": 0.05}.items())[:left]
    assert near(draw(values, **SCHEMA, **settings), dict(allowed))


def test_temperature_and_penalties_and_biases_act_under_a_constraint(words: Any) -> None:
    best = next(at for at in range(512) if words._model.vocabulary.piece(at) == b"B1")
    assert near(draw(words, **GRAMMAR, temperature=0.5), {b"B1": 0.09, b"C1": 0.0225, b"E1": 0.0025})
    assert draw(words, 20, **GRAMMAR, temperature=0.0) == {b"B1": pytest.approx(1.0)}
    assert draw(words, 1, [best], **GRAMMAR, temperature=0.0, presence_penalty=1.0) == {b"C1": 1.0}
    assert draw(words, 20, **GRAMMAR, temperature=0.0, logit_bias=("E1=+5",)) == {b"E1": pytest.approx(1.0)}
    assert draw(words, 20, **GRAMMAR, temperature=0.0, logit_bias=("A1=+50",)) == {b"B1": pytest.approx(1.0)}


@pytest.mark.parametrize(
    "settings", [{"mirostat": "1"}, {"mirostat": "2"}, {"adaptive_p_target": 0.5, "min_p": 0.01}, {"typical_p": 0.9}]
)
def test_other_ways_to_draw_stay_within_the_constraint(words: Engine, values: Engine, settings: dict[str, Any]) -> None:
    assert set(draw(words, 300, **GRAMMAR, **settings)) <= {b"B1", b"C1", b"E1"}
    assert set(draw(values, 300, **SCHEMA, **settings)) <= {b"true", b"false", b"7"}


# --- whole answers ----------------------------------------------------------------------------------------------


@pytest.mark.shows("json_schema")
@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_an_answer_of_a_random_model_follows_the_schema(tiny: Engine, temperature: float) -> None:
    # Given a model that knows nothing of JSON
    for seed in range(3):
        request = raw("Hello", json_schema=json.dumps(PERSON), temperature=temperature, seed=seed, max_tokens=400)
        # When it writes
        answer = collect(tiny, request)
        # Then the text is what the schema says
        assert answer.end.reason is FinishReason.END
        person = json.loads(answer.text)
        assert list(person) == ["name", "age"]
        assert len(person["name"]) <= 12
        assert 0 <= person["age"] <= 99


@pytest.mark.parametrize("schema", ["{}", " true"])
def test_an_empty_schema_is_any_json(tiny: Engine, schema: str) -> None:
    short = tuple(f'"{start}"=-inf' for start in "[{-0123456789")  # a text or a word, so that it ends
    answer = collect(tiny, raw("Hello", json_schema=schema, logit_bias=short, temperature=1.0, seed=2, max_tokens=400))
    assert answer.end.reason is FinishReason.END
    json.loads(answer.text)


@pytest.mark.shows("grammar")
@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_an_answer_of_a_random_model_follows_the_grammar(tiny: Engine, temperature: float) -> None:
    greeting = 'greeting ::= "Hello" | "Good " ("day" | "bye")'
    grammar = 'root ::= greeting ", " ("miller" | "мельник" | "🦙"){2} [!?.]\n' + greeting
    for seed in range(3):
        answer = collect(tiny, raw("x", grammar=grammar, temperature=temperature, seed=seed, max_tokens=100))
        assert answer.end.reason is FinishReason.END
        start, rest = answer.text.split(", ")
        assert start in ("Hello", "Good day", "Good bye")
        for word in ("miller", "мельник", "🦙"):
            rest = rest.replace(word, "")
        assert rest in ("!", "?", ".")


def test_a_control_token_is_no_text_for_a_grammar(tmp_path: Path) -> None:
    # Given a model that would write a mark whose name the grammar seems to allow
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"a1", b"<|mark|>", b"b1"], control=[b"<|mark|>"])
    engine = engines.load(path)
    # When it answers under the grammar, Then the mark's name is written out
    answer = collect(engine, engines.chat("hi", grammar='root ::= "a1" "<|mark|>"'))
    engine.close()
    assert answer.text == "a1<|mark|>"


def test_a_complete_grammar_on_a_model_without_an_end_mark_stops_with_the_reason(tiny: Any) -> None:
    vocabulary = tiny._model.vocabulary
    ends = [f"{token}=-inf" for token in range(vocabulary.size) if vocabulary.ends_answer(token)]
    for form in ({"grammar": 'root ::= "yes"'}, {"json_schema": '{"const": true}'}):
        answer = collect(tiny, raw("Hello", logit_bias=tuple(ends), **form))
        assert answer.end.reason is FinishReason.GRAMMAR
        assert answer.text in ("yes", "true")


def test_a_grammar_that_allows_only_a_token_that_cannot_come_stops_with_the_reason(tiny: Engine) -> None:
    answer = collect(tiny, raw("Hello", grammar='root ::= "$" "$"', logit_bias=("$=-inf",)))
    assert (answer.text, answer.end.reason) == ("", FinishReason.GRAMMAR)
    assert collect(tiny, raw("Hello", max_tokens=2)).end.reason is FinishReason.LENGTH  # the engine goes on


def test_an_end_that_is_to_be_ignored_still_ends_a_grammar(tiny: Engine) -> None:
    params = SamplingParams(grammar='root ::= "yes"', max_tokens=20)
    answer = collect(tiny, GenerationRequest(prompt="Hello", ignore_end=True, sampling=params))
    assert (answer.text, answer.end.reason) == ("yes", FinishReason.END)


def test_a_vocabulary_without_any_end_is_enough_for_a_schema(tiny: Any) -> None:
    class Endless(Vocabulary):
        def ends_answer(self, token: int) -> bool:
            return False

    model = tiny._model
    vocabulary = Endless(model.library, model.vocabulary.handle)
    made = Constraints(model.library, vocabulary).make(SamplingParams(json_schema='{"const": 1}'))
    made.accept(vocabulary.tokenize("1")[0])
    left = Candidates.of_token(model.library, vocabulary.tokenize("1")[0])
    made.narrow(left)
    assert len(left) == 0


# --- what is continued ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ('{"name": "Jo', {"json_schema": json.dumps(PERSON)}),
        ("Hello, mil", {"grammar": 'root ::= "Hello, " ("miller" | "baker")'}),
    ],
)
def test_a_cut_answer_goes_on_where_its_grammar_was(tiny: Engine, written: str, form: dict[str, str]) -> None:
    request = engines.chat("Who?", written, max_tokens=200, **form)
    answer = collect(tiny, GenerationRequest(messages=request.messages, continue_last=True, sampling=request.sampling))
    assert answer.end.reason is FinishReason.END
    whole = written + answer.text
    assert whole == "Hello, miller" if "grammar" in form else set(json.loads(whole)) == {"name", "age"}


def test_an_answer_that_was_cut_inside_a_character_goes_on_with_its_bytes(tiny: Engine) -> None:
    # Given an answer of four bytes, cut after the second
    form = {"grammar": 'root ::= "🦙"'}
    first = collect(tiny, engines.chat("An animal?", max_tokens=2, **form))
    assert (first.text, first.end.reason) == ("\ufffd", FinishReason.LENGTH)
    # When it is continued, Then it ends as the grammar says
    request = engines.chat("An animal?", first.text, max_tokens=20, **form)
    answer = collect(tiny, GenerationRequest(messages=request.messages, continue_last=True, sampling=request.sampling))
    assert (answer.text, answer.end.reason) == ("🦙", FinishReason.END)


def test_an_answer_that_does_not_follow_its_grammar_is_not_continued(tiny: Engine) -> None:
    for form in ({"grammar": 'root ::= "yes"'}, {"json_schema": "{}"}):
        request = engines.chat("Who?", "no idea", **form)
        with pytest.raises(UserError) as caught:
            collect(tiny, GenerationRequest(messages=request.messages, continue_last=True, sampling=request.sampling))
        assert caught.value.info.code == "not_as_written"


# --- what is refused --------------------------------------------------------------------------------------------


def test_a_bad_form_is_refused_before_anything_is_written(tiny: Engine) -> None:
    with pytest.raises(BadGrammar):
        collect(tiny, raw("Hello", grammar="root ::= " + "(" * 60_000))
    impossible = '{"type": "integer", "minimum": 3, "maximum": 2}'
    for schema in ('{"not": {}}', impossible, '{"$ref": "#"}', '{"format": "x"}', "false"):
        with pytest.raises(BadSchema):
            collect(tiny, raw("Hello", json_schema=schema))
    assert collect(tiny, raw("Hello", max_tokens=2)).end.reason is FinishReason.LENGTH


def test_a_bad_grammar_never_reaches_native_code(tiny: Any) -> None:
    # A library without a single function: any call would raise AttributeError
    made = Constraints(object(), tiny._model.vocabulary)
    with pytest.raises(BadGrammar):
        made.make(SamplingParams(grammar="root ::= " + "(" * 60_000))


def test_a_grammar_with_ever_more_ways_to_read_a_text_is_given_up(tiny: Engine) -> None:
    # Each character doubles the ways; after a few tokens llama.cpp would compute for hours
    grammar = 'root ::= [a-z ] root "b" | [a-z ] root "c" | [a-z ]'
    with pytest.raises(GrammarTooSlow):
        collect(tiny, raw("Hello", grammar=grammar, temperature=1.0, max_tokens=100))
    assert collect(tiny, raw("Hello", max_tokens=2)).end.reason is FinishReason.LENGTH
