"""Grammars through llguidance allow what they allow in llama.cpp, token by token; schemas are followed too."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

import numpy as np
import pytest

import tiny_gguf
from runtime.constraint import GrammarTooSlow, Matcher, Matchers, NotAsWritten
from runtime.errors import UserError
from runtime.gbnf import BadGrammar
from runtime.llama.candidates import Candidates
from runtime.llama.constraint import Constraint, Constraints
from runtime.llama.library import load_library
from runtime.llama.tokenizer import GgufTokenizer
from runtime.native.sampling import TokenSampler
from runtime.params import SamplingParams

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
GRAMMARS = {
    "json": JSON,
    "a text": 'root ::= "the user said"',
    "ends like it goes on": 'root ::= [a-z]* "x"',
    "overlapping": 'root ::= ([a-m] | [e-z] | "ab" | "abc")+ "." | "abd"',
    "counted": 'root ::= ("a" | "b"){2,4} [c-e]{3} "f"{2,} "g"{0,2} "h"{0}',
    "expression": 'root ::= t (("+" | "-") t)*\nt ::= "(" root ")" | [0-9]+',
    "anything": "root ::= .+",
    "anything else": 'root ::= [^a-z]{1,3} "é" [Ā-\\U0001F64F]*',
    "empty": 'root ::= "" | "a" | ("b" "")',
    "groups": 'root ::= ("a" | ("b" ("c" | "d")?)+){1,3} [\\]\\[\\-]',
    "long": 'root ::= "' + "the user " * 30 + '"',
}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GgufTokenizer]:
    with GgufTokenizer(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")) as tokenizer:
        yield tokenizer


def allowed_by(constraint: Constraint, words: GgufTokenizer) -> list[int]:
    """Returns the tokens that llama.cpp's grammar allows now; it lets bytes pass that begin no character at all."""
    candidates = Candidates.of_logits(load_library(), np.zeros(words.size, np.float32))
    constraint.narrow(candidates)
    return [token for token in sorted(candidates.rows["id"].tolist()) if begins_text(words.piece(token))]


def begins_text(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def is_text(data: bytes) -> bool:
    return data.decode("utf-8", "ignore").encode() == data != b""


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_same_tokens_are_allowed_on_every_way_through_a_grammar(words: GgufTokenizer, name: str) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = Matchers(words), Constraints(load_library(), words)
    params = SamplingParams(grammar=GRAMMARS[name])

    for _way in range(8):
        mine, reference = ours.make(params), theirs.make(params)
        for _step in range(25):
            expected = allowed_by(reference, words)
            assert mine.allowed().nonzero()[0].tolist() == expected
            whole = [token for token in expected if is_text(words.piece(token))]
            if not whole:
                break
            token = int(rng.choice(whole))
            mine.accept(token)
            reference.accept(token)
        reference.close()


@pytest.mark.parametrize("form", [{"grammar": JSON}, {"json_schema": '{"type": "array"}'}], ids=str)
def test_single_tokens_are_judged_as_all_are(words: GgufTokenizer, form: dict[str, str]) -> None:
    matcher = Matchers(words).make(SamplingParams(**form))

    for text in ("", "[", "[1", ", ", "2]"):
        for token in words.tokenize(text) if text and form.get("json_schema") else ():
            matcher.accept(token)
        assert matcher.allowed_of(range(words.size)).tolist() == matcher.allowed().tolist()


@pytest.mark.parametrize(
    ("form", "written"),
    [({"grammar": 'root ::= "a"'}, "b"), ({"json_schema": '{"type": "integer"}'}, "x")],
    ids=["grammar", "schema"],
)
def test_what_does_not_follow_the_form_is_not_continued(
    words: GgufTokenizer, form: dict[str, str], written: str
) -> None:
    with pytest.raises(NotAsWritten):
        Matchers(words).make(SamplingParams(**form), written=written)


def test_an_answer_goes_on_where_its_grammar_was(words: GgufTokenizer) -> None:
    matcher = Matchers(words).make(SamplingParams(grammar='root ::= "the user said no"'), written="the user s")

    allowed = {words.piece(int(token)) for token in matcher.allowed().nonzero()[0]}

    assert b"a" in allowed
    assert all(b"aid no".startswith(piece) for piece in allowed)


@pytest.mark.parametrize("grammar", ["root ::= [\\x00-\\x1F", "root ::= root", 'Root ::= "a"'])
def test_a_bad_grammar_is_refused(words: GgufTokenizer, grammar: str) -> None:
    with pytest.raises(BadGrammar):
        Matchers(words).of_grammar(grammar)


def test_a_class_without_characters_is_refused_or_matches_nothing(words: GgufTokenizer) -> None:
    try:
        matcher = Matchers(words).of_grammar("root ::= [^\\x00-\\U0010FFFF] | \"a\"")
    except UserError:
        return
    assert {words.piece(int(token)) for token in matcher.allowed().nonzero()[0]} == {b"a"}


def test_a_grammar_with_ever_more_ways_to_read_a_text_ends(words: GgufTokenizer) -> None:
    matcher = Matchers(words).of_grammar('root ::= [a-z ] root "b" | [a-z ] root "c" | [a-z ]')
    token = words.tokenize("a")[0]

    try:
        for _step in range(100):
            matcher.accept(token)
    except GrammarTooSlow:
        return
    assert matcher.allowed_of([token])[0]


def drawn(words: GgufTokenizer, scores: np.ndarray, params: SamplingParams, count: int) -> list[int | None]:
    def made() -> Matcher:
        return Matchers(words).make(params)

    sampler = TokenSampler(words, params, seed=4, context_length=64, constrain=made)
    rng = np.random.default_rng(1)
    return [sampler.sample(rng.permutation(scores)) for _ in range(count)]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"top_k": 0, "min_p": 0.3}], ids=str)
def test_a_shortlist_changes_no_draw(
    words: GgufTokenizer, settings: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(grammar="root ::= ([a-z ] | [0-9])+", **settings)
    scores = np.random.default_rng(0).normal(0, 3, words.size).astype(np.float32)

    with_shortlist = drawn(words, scores, params, 20)
    monkeypatch.setattr(Matcher, "is_quick", True)

    assert drawn(words, scores, params, 20) == with_shortlist


def test_a_random_models_answer_is_what_the_schema_wants(words: GgufTokenizer) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"],
              "additionalProperties": False}  # fmt: skip
    params = SamplingParams(json_schema=json.dumps(schema), temperature=1.5, top_k=0)
    sampler = TokenSampler(words, params, seed=2, context_length=64, constrain=lambda: Matchers(words).make(params))
    rng, text = np.random.default_rng(3), b""

    while True:
        token = sampler.sample(rng.normal(0, 1, words.size).astype(np.float32))
        assert token is not None
        if words.ends_answer(token):
            break
        text += words.piece(token)

    assert isinstance(json.loads(text)["n"], int)
