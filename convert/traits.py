"""In what llama.cpp is known to read texts otherwise than the source's tokenizer, whatever the model.

Each trait is the source's own description with one thing changed to what llama.cpp does. A difference is known where
the source, so changed, gives exactly llama.cpp's tokens: nothing is excused that cannot be accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from convert.tokenizer_json import SPACE, State, steps_of
from runtime.text import N_, _

CANONICAL = frozenset({"NFC", "NFD"})


@dataclass(frozen=True)
class Trait:
    """One thing that llama.cpp does in its own way. `change` returns whether it concerns the tokenizer.

    `respell` gives the text as the changed source has to be asked for it.
    """

    note: str
    change: Callable[[State], bool]
    respell: Callable[[str, Sequence[str]], str] = lambda text, marks: text

    def words(self) -> str:
        """Returns the note in the language of the person."""
        return _(self.note)


class Traits:
    """The traits that concern one tokenizer, and the source as it would be with each, and with all of them."""

    def __init__(self, state: Mapping[str, Any], marks: Sequence[str]) -> None:
        self._state = state
        self._marks = tuple(marks)

    def explaining(self, text: str, found: Sequence[int]) -> list[Trait]:
        """Returns the traits with which the source reads a text as llama.cpp did; nothing where none explains it."""
        for traits, tokenizer in self._changed:
            for wording in self._wordings(text, traits):
                if tokenizer.encode(wording, add_special_tokens=False).ids == list(found):
                    return traits
        return []

    @cached_property
    def _changed(self) -> list[tuple[list[Trait], Tokenizer]]:
        """Built when the first difference asks: large vocabularies take a second."""
        concerned = [trait for trait in _TRAITS if trait.change(_copy(self._state))]
        alone = [[trait] for trait in concerned]
        return [(traits, self._with(traits)) for traits in (alone if len(alone) < 2 else [*alone, concerned])]

    def _with(self, traits: Sequence[Trait]) -> Tokenizer:
        changed = _copy(self._state)
        for trait in traits:
            trait.change(changed)
        return Tokenizer.from_str(json.dumps(changed))

    def _wordings(self, text: str, traits: Sequence[Trait]) -> Iterator[str]:
        respelled = text
        for trait in traits:
            respelled = trait.respell(respelled, self._marks)
        yield from dict.fromkeys((respelled, text))


def _copy(state: Mapping[str, Any]) -> State:
    """Returns a copy that may be changed, but for the vocabulary and the merges, which are large."""
    small = {key: part for key, part in state.items() if key != "model"}
    copied: State = json.loads(json.dumps(small))
    return copied | {"model": dict(state["model"])}


# --- what llama.cpp does in its own way ------------------------------------------------------------------------------


def _is_byte_level(state: State) -> bool:
    return any(step["type"] == "ByteLevel" for step in steps_of(state.get("pre_tokenizer")))


def _puts_no_space(state: State) -> bool:
    found = [step for step in steps_of(state.get("pre_tokenizer")) if step["type"] == "ByteLevel"]
    concerned = any(step.get("add_prefix_space") for step in found)
    for step in found:
        step["add_prefix_space"] = False
    return concerned


def _normalizes_nothing(state: State) -> bool:
    """Canonical forms only: what they change looks the same, and keyboards write the composed one."""
    kinds = {step["type"] for step in steps_of(state.get("normalizer"))}
    if not _is_byte_level(state) or not kinds or not kinds <= CANONICAL:
        return False
    state["normalizer"] = None
    return True


def _always_puts_a_space(state: State) -> bool:
    """The step looks for a space that is there already; with another sign for spaces first, it finds none."""
    steps = [step for step in steps_of(state.get("pre_tokenizer")) if step["type"] == "Metaspace"]
    concerned = any(step.get("prepend_scheme", "always") != "never" for step in steps)
    for step in steps if concerned else ():
        step["prepend_scheme"] = "always"
    return concerned


def _more_space(text: str, marks: Sequence[str]) -> str:
    """Returns a text with one more space wherever it begins, or goes on after a mark, with one."""
    for mark in marks:
        text = text.replace(f"{mark} ", f"{mark}  ")
    begins = text[:1].isspace() or text[:1] == SPACE
    return f" {text}" if begins and not text.startswith(tuple(marks)) else text


def _keeps_space_around_marks(state: State) -> bool:
    tokens = state.get("added_tokens") or ()
    concerned = any(token.get("lstrip") or token.get("rstrip") or token.get("single_word") for token in tokens)
    for token in tokens if concerned else ():
        token |= {"lstrip": False, "rstrip": False, "single_word": False}
    return concerned


_TRAITS = (
    Trait(N_("llama.cpp puts no space before a text, which the source does: begin with one."), _puts_no_space),
    Trait(N_("llama.cpp leaves accents that are written apart from their letters apart; the source joins them."),
          _normalizes_nothing),
    Trait(N_("llama.cpp puts a space also before a text that begins with one, and before every text that follows a "
             "mark; the source does not."), _always_puts_a_space, _more_space),
    Trait(N_("llama.cpp keeps the spaces around marks that the source takes in with them."),
          _keeps_space_around_marks),
)  # fmt: skip
