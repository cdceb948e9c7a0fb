"""What an answer may be: follows a grammar or a JSON schema token by token. Knows nothing of probabilities.

A grammar is llama.cpp's own sampler. A schema goes through llguidance, which finds the allowed tokens of a whole
vocabulary in 0.02-0.3 ms where llama.cpp's grammar takes 8-26 ms (49,152 tokens), and which honours most of JSON
Schema exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.constraint import GrammarTooSlow, Matcher, Matchers, NotAsWritten
from runtime.errors import UserError
from runtime.gbnf import BadGrammar
from runtime.grammar import check_grammar
from runtime.llama.candidates import Candidates
from runtime.llama.vocabulary import Vocabulary
from runtime.params import SamplingParams
from runtime.text import _

# Seconds of computing for one step of a grammar. Usual are 0.00005 s for going on and 0.0003 to 0.03 s for narrowing. A
# grammar that reads a text in twice as many ways with each character takes 64 times as long for the next long token.
_SLOW_ACCEPT, _SLOW_NARROW = 0.02, 3.0


class Constraint(Protocol):
    """What may come next. `narrow` can be asked several times before a token is accepted."""

    def narrow(self, candidates: Candidates) -> None:
        """Drops the candidates that are not allowed now; none may be left."""
        ...

    def accept(self, token: int) -> None:
        """Goes on past a token that was allowed and drawn."""
        ...

    def close(self) -> None: ...


class Constraints:
    """Makes the constraints of one model's answers."""

    def __init__(self, library: Any, vocabulary: Vocabulary) -> None:
        self._library = library
        self._vocabulary = vocabulary
        self._matchers = Matchers(vocabulary)

    def make(self, params: SamplingParams, *, written: str = "", ids: Sequence[int] = ()) -> Constraint:
        """Returns what an answer is held to that goes on after `written`; `ids` are its tokens where they are known.

        Raises `BadGrammar`, `BadSchema`, and `NotAsWritten` where `written` does not follow it.
        """
        constraint = self._made(params)
        try:
            self._go_past(ids or self._tokens_of(written), constraint)
        except UserError:
            constraint.close()
            raise
        return constraint

    def _made(self, params: SamplingParams) -> Constraint:
        if params.grammar:
            return GrammarConstraint(
                self._library, self._vocabulary, params.grammar, writable=self._writable, byte_tokens=self._byte_tokens
            )
        return SchemaConstraint(self._matchers.of_schema(params.json_schema))

    def _tokens_of(self, written: str) -> list[int]:
        ids = self._vocabulary.tokenize(written) if written else []
        if b"".join(map(self._vocabulary.piece, ids)) != written.encode("utf-8", "replace"):
            raise NotAsWritten  # a tokenizer that adds a space of its own
        return ids

    def _go_past(self, ids: Sequence[int], constraint: Constraint) -> None:
        for token in ids:
            candidate = Candidates.of_token(self._library, token)
            constraint.narrow(candidate)
            if not len(candidate):
                raise NotAsWritten
            constraint.accept(token)

    @cached_property
    def _ends(self) -> list[int]:
        return [token for token in range(self._vocabulary.size) if self._vocabulary.ends_answer(token)]

    @cached_property
    def _byte_tokens(self) -> dict[bytes, int]:
        """The token of each byte, as far as the vocabulary has them."""
        piece, control = self._vocabulary.piece, self._vocabulary.control_ids
        pieces = ((piece(token), token) for token in range(self._vocabulary.size) if token not in control)
        return {data: token for data, token in pieces if len(data) == 1 and not self._vocabulary.ends_answer(token)}

    @cached_property
    def _writable(self) -> NDArray[np.bool_]:
        """(V,): all tokens but control tokens, whose names a grammar would take for text; end marks may come."""
        writable = np.ones(self._vocabulary.size, bool)
        writable[list(self._vocabulary.control_ids)] = False
        writable[self._ends] = True
        return writable


class GrammarConstraint:
    """A GBNF grammar, as llama.cpp's own sampler. Its checks ran before: a token that it did not allow ends the
    process, so only tokens that `narrow` left may be accepted."""

    def __init__(
        self, library: Any, vocabulary: Vocabulary, grammar: str, *,
        writable: NDArray[np.bool_], byte_tokens: Mapping[bytes, int],
    ) -> None:  # fmt: skip
        check_grammar(grammar)
        self._library = library
        self._vocabulary = vocabulary
        self._writable = writable
        self._byte_tokens = byte_tokens
        self._sampler = library.llama_sampler_init_grammar(vocabulary.handle, grammar.encode("utf-8"), b"root")
        if not self._sampler:
            raise BadGrammar(_("llama.cpp refused it."))

    def narrow(self, candidates: Candidates) -> None:
        candidates.keep(self._writable[candidates.rows["id"]])
        started = time.thread_time()
        candidates.apply(self._sampler)
        _require_quick(started, _SLOW_NARROW)
        candidates.keep(candidates.rows["logit"] > -math.inf)

    def accept(self, token: int) -> None:
        # Byte by byte, which is the same for the grammar: a step that takes too long is noticed before the next one.
        steps = [self._byte_tokens.get(bytes((byte,))) for byte in self._vocabulary.piece(token)]
        for step in steps if steps and None not in steps else (token,):
            started = time.thread_time()
            self._library.llama_sampler_accept(self._sampler, step)
            _require_quick(started, _SLOW_ACCEPT)

    def close(self) -> None:
        self._library.llama_sampler_free(self._sampler)


class SchemaConstraint:
    """A JSON schema, as llguidance's matcher."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def narrow(self, candidates: Candidates) -> None:
        candidates.keep(self._matcher.allowed()[candidates.rows["id"]])

    def accept(self, token: int) -> None:
        self._matcher.accept(token)

    def close(self) -> None:
        self._matcher.close()


def _require_quick(started: float, limit: float) -> None:
    if time.thread_time() - started > limit:
        raise GrammarTooSlow
