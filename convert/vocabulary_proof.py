"""Holds llama.cpp's ids against the source tokenizer's on hard texts, and finds the pre-tokenizer that way.

How a byte-level tokenizer cuts a text into words is a regular expression in its file and a name in GGUF. The name is
found by behaviour: the first one with which llama.cpp cuts every one of the hard texts as the source does. What
llama.cpp is known to do otherwise for every model becomes a note; every other difference ends the conversion. Knows no
weights.
"""

from __future__ import annotations

import json
import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from convert.gguf_file import KeyValue, layout, string
from convert.hard_texts import HARD_TEXTS
from convert.tokenizer_back import GgufVocabulary
from convert.tokenizer_json import state_of, steps_of
from convert.traits import CANONICAL, Traits
from convert.vocabulary import TokenKind, Vocabulary, VocabularyMisfit
from runtime.errors import UserError
from runtime.llama.tokenizer import GgufTokenizer, NoVocabulary
from runtime.model_errors import DamagedModel
from runtime.text import _
from runtime.token_bytes import byte_level_characters

# Names that cut differently from each other, the usual ones first. Not “whitespace”: it aborts on texts with spaces.
PRE_TOKENIZERS = (
    "gpt-2", "llama-bpe", "qwen2", "smollm", "tekken", "gpt-4o", "deepseek-v3", "deepseek-llm", "deepseek-coder",
    "glm4", "chatglm-bpe", "command-r", "starcoder", "refact", "olmo", "dbrx", "stablelm2", "falcon", "mpt", "bloom",
    "gpt3-finnish", "poro-chat", "viking", "jais", "codeshell", "exaone", "chameleon", "minerva-7b", "superbpe",
    "trillion", "bailingmoe", "seed-coder", "hunyuan", "hunyuan-dense", "kimi-k2", "grok-2", "afmoe", "minimax-m2",
    "qwen35", "smaug-bpe", "youtu", "default",
)  # fmt: skip
_BYTE_NAME = re.compile(r"<0x[0-9A-F]{2}>")
_DIGEST_LENGTH = 60
_MARKS_AMONG_WORDS = 12  # marks that are also tried between words, of those that may be thousands


class TokenizerDiffers(UserError):
    """llama.cpp would read texts in other tokens than the model was trained on."""

    code = "tokenizer_differs"

    def __init__(self, text: str, expected: Sequence[int], found: Sequence[int]) -> None:
        shown = repr(text if len(text) <= _DIGEST_LENGTH else text[:_DIGEST_LENGTH] + "…")
        super().__init__(
            _("llama.cpp cannot cut texts into tokens as this model's tokenizer does."),
            _("The first text that differs is {text}: tokens {expected} became {found}.").format(
                text=shown, expected=_some(expected), found=_some(found)
            ),
            _("The model itself runs in Quern's own engine, from its folder."),
        )
        self.found = tuple(found)


@dataclass
class _Trial:
    """What came of a candidate: notes where all differences are known, else the first that is not, and its place."""

    notes: dict[str, None] = field(default_factory=dict)
    failed_at: int = -1
    difference: TokenizerDiffers | None = None


@dataclass(frozen=True)
class _Facts:
    """What decides which differences are known. `leniently` excuses those beyond ASCII."""

    model: str
    pre: str
    unknown: Any
    leniently: bool
    bytes: frozenset[int] = frozenset()


class _Source:
    """The source's tokenizer with the texts that a vocabulary is held against, and what it makes of them."""

    def __init__(self, tokenizer: Tokenizer, marks: Sequence[str], texts: Sequence[str]) -> None:
        self.texts = [*texts, *marks, *_among_words(marks)]
        tokenizer.encode_special_tokens = False
        self.expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in self.texts]
        self._tokenizer = tokenizer
        self._state = state_of(tokenizer)
        self.unknown = tokenizer.token_to_id(self._state["model"].get("unk_token") or "")
        self.traits = Traits(self._state, marks)

    @property
    def keeps_texts(self) -> bool:
        """Whether texts are at most brought into a canonical form first, which looks the same."""
        return {step["type"] for step in steps_of(self._state.get("normalizer"))} <= CANONICAL

    def without_strange_bytes(self, text: str) -> list[int] | None:
        """Returns a text's tokens where bytes that the vocabulary lacks keep what stands around them apart.

        None where it lacks none. Merging finds other neighbours when such bytes are left out before it.
        """
        if self._spelling_all is None:
            return None
        tokens = self._spelling_all.encode(text, add_special_tokens=False).tokens
        ids = (self._tokenizer.token_to_id(token) for token in tokens)
        return [id for id in ids if id is not None]

    @cached_property
    def _spelling_all(self) -> Tokenizer | None:
        """The source with a token for every byte. Their ids mean nothing: their texts are looked up in the source."""
        vocabulary = self._state["model"]["vocab"]
        missing = [sign for sign in byte_level_characters() if sign not in vocabulary]
        if not missing:
            return None
        first = max(vocabulary.values(), default=-1) + 1
        whole = {**vocabulary, **{sign: first + at for at, sign in enumerate(missing)}}
        changed = {**self._state, "model": {**self._state["model"], "vocab": whole}}
        return Tokenizer.from_str(json.dumps(changed))


def proven(
    ways: Sequence[Vocabulary], tokenizer: Tokenizer, *, about: Mapping[str, KeyValue] | None = None,
    texts: Sequence[str] = HARD_TEXTS,
) -> Vocabulary:  # fmt: skip
    """Returns the first way to write the vocabulary with which every text comes out in the source's tokens.

    `about` are the model's keys that llama.cpp also heeds: its architecture and name. Raises `TokenizerDiffers`, and
    `VocabularyMisfit` where llama.cpp cannot open it at all.
    """
    source = _Source(tokenizer, ways[0].marks(), texts)
    furthest: tuple[int, UserError] | None = None
    for candidate, leniently in _candidates(ways, excuses=source.keeps_texts):
        try:
            trial = _tried(candidate, source, about or {}, leniently=leniently)
        except VocabularyMisfit as misfit:
            furthest = furthest or (-1, misfit)
            continue
        if trial.difference is None:
            return replace(candidate, notes=[*candidate.notes, *trial.notes])
        if furthest is None or trial.failed_at > furthest[0]:
            furthest = trial.failed_at, trial.difference
    assert furthest is not None
    raise furthest[1]


def _candidates(ways: Sequence[Vocabulary], *, excuses: bool) -> Iterator[tuple[Vocabulary, bool]]:
    """Yields what to try, and whether to excuse differences beyond ASCII: only for names that the source spells out."""
    for way in ways:
        if way.model != "gpt2" or way.pre:
            yield way, False
            continue
        for name in way.likely:
            yield replace(way, pre=name), False
        for name in way.likely if excuses else ():
            yield replace(way, pre=name), True
        for name in PRE_TOKENIZERS:
            if name not in way.likely:
                yield replace(way, pre=name), False


def _tried(vocabulary: Vocabulary, source: _Source, about: Mapping[str, KeyValue], *, leniently: bool) -> _Trial:
    unknown = vocabulary.more.get("unknown_token_id")
    spelled = frozenset(id for id, kind in enumerate(vocabulary.kinds) if kind is TokenKind.BYTE)
    facts = _Facts(vocabulary.model, vocabulary.pre, unknown.content if unknown else None, leniently, spelled)
    with tempfile.TemporaryDirectory(prefix="quern-") as folder:
        path = Path(folder) / "vocabulary.gguf"
        keys = {"general.architecture": string("llama"), **about, **vocabulary.keys()}
        path.write_bytes(layout(keys, ()).header)
        return _held_against(path, facts, source)


def proven_back(path: Path, vocabulary: GgufVocabulary, tokenizer: Tokenizer) -> list[str]:
    """Returns what is to be said of a tokenizer made from a GGUF file's vocabulary. Raises `TokenizerDiffers`."""
    marks = [text for id, text in enumerate(vocabulary.tokens) if vocabulary.is_mark(id) and text.strip()]
    facts = _Facts(vocabulary.model, vocabulary.pre, vocabulary.keys.get("unknown_token_id"), leniently=True)
    trial = _held_against(path, facts, _Source(tokenizer, marks, HARD_TEXTS))
    if trial.difference is not None:
        raise trial.difference
    return list(trial.notes)


def _held_against(path: Path, facts: _Facts, source: _Source) -> _Trial:
    trial = _Trial()
    for at, difference in _differences(path, source):
        known = _known(facts, source, at, difference)
        if not known:
            return _Trial(failed_at=at, difference=difference)
        trial.notes |= dict.fromkeys(known)
    return trial


def _known(facts: _Facts, source: _Source, at: int, difference: TokenizerDiffers) -> list[str]:
    """Returns what is to be said of a difference that llama.cpp makes for every model; nothing for any other."""
    text, expected = source.texts[at], source.expected[at]
    traits = source.traits.explaining(text, difference.found)
    if traits:
        return [trait.words() for trait in traits]
    if facts.model == "gpt2" and _without(source.unknown, difference.found) == _without(source.unknown, expected):
        return [_("llama.cpp leaves characters out that the vocabulary does not have; the source has a token for "
                  "them.")]  # fmt: skip
    if facts.model == "gpt2" and _without(source.unknown, difference.found) == source.without_strange_bytes(text):
        return [_("Characters that the vocabulary does not have are left out; llama.cpp then joins what stood around "
                  "them otherwise than the source.")]  # fmt: skip
    if facts.model == "bert" and (_has_accents(text) or facts.unknown in (*expected, *difference.found)):
        return [_("llama.cpp cuts some texts, such as Korean ones, otherwise than Hugging Face's library does.")]
    if facts.model == "t5" and (_has_accents(text) or any(unicodedata.category(sign) == "Cc" for sign in text)):
        return [_("llama.cpp takes accents that are written apart from their letters, and control signs, otherwise "
                  "than Hugging Face's library does.")]  # fmt: skip
    if facts.model == "t5" and facts.bytes and _BYTE_NAME.search(text):
        return [_("The source takes a text like “<0x0A>” for the byte; llama.cpp reads it as it stands.")]
    if facts.model == "t5" and _without_bytes(facts, difference.found) == _without_bytes(facts, expected):
        return [_("Characters without a token that the source normalizes first are spelled in other bytes.")]
    if facts.leniently and facts.model == "gpt2" and not text.isascii():
        return [_("llama.cpp cuts some words of other scripts otherwise than Hugging Face's library does, as in all "
                  "files with the pre-tokenizer “{name}”.").format(name=facts.pre)]  # fmt: skip
    return []


def _without(token: int | None, ids: Sequence[int]) -> list[int]:
    return [id for id in ids if id != token]


def _without_bytes(facts: _Facts, ids: Sequence[int]) -> list[int]:
    return [id for id in ids if id not in facts.bytes and id != facts.unknown]


def _has_accents(text: str) -> bool:
    """Whether a text has signs that llama.cpp takes for accents: more than Unicode does, Korean ones, too."""
    signs = unicodedata.normalize("NFD", text)
    return any(unicodedata.category(sign)[0] == "M" or "\u1160" <= sign <= "\u11ff" for sign in signs)


def _among_words(marks: Sequence[str]) -> Iterator[str]:
    """Yields texts in which marks stand between words, with and without spaces."""
    step = max(1, len(marks) // _MARKS_AMONG_WORDS)
    for mark in marks[::step]:
        yield from (f"{mark}a", f"a{mark}b", f"a {mark} b", f"{mark}\nb")


def _differences(path: Path, source: _Source) -> Iterator[tuple[int, TokenizerDiffers]]:
    """Yields which texts llama.cpp reads otherwise with the vocabulary of a file."""
    with _opened(path) as tokenizer:
        for at, (text, wanted) in enumerate(zip(source.texts, source.expected, strict=True)):
            found = tokenizer.tokenize(text, special=True)
            if found != wanted:
                yield at, TokenizerDiffers(text, wanted, found)


def _opened(path: Path) -> GgufTokenizer:
    try:
        return GgufTokenizer(path)
    except (DamagedModel, NoVocabulary) as error:
        raise VocabularyMisfit(error.info.message) from error


def _some(ids: Sequence[int], most: int = 8) -> str:
    return "[" + ", ".join(map(str, ids[:most])) + (", …]" if len(ids) > most else "]")
