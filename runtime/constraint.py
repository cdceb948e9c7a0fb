"""What an answer may be, followed token by token with llguidance: a JSON schema or a grammar. Knows no probabilities.

llguidance finds the allowed tokens of a whole vocabulary in 0.02-0.3 ms for a schema. For a grammar, where each
character is a part of its own (`gbnf_lark`), that takes as little where few tokens are allowed, and 100-300 ms where
nearly all are; one token is judged in about 0.01 ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError
from runtime.gbnf import BadGrammar, read_rules
from runtime.gbnf_lark import to_lark
from runtime.grammar import check_grammar
from runtime.json_schema import BadSchema, check_schema
from runtime.params import SamplingParams
from runtime.text import _

WHITESPACE = r"[ \n\t]{1,20}"  # unbounded, small models write blanks for ever
_MOST_ITEMS = 20_000_000  # of a grammar's reading, for one token: some seconds


class GrammarTooSlow(UserError):
    """A grammar with more and more ways to read the text so far."""

    code = "grammar_too_slow"

    def __init__(self) -> None:
        super().__init__(
            _("The grammar became too slow."),
            _("It allows more and more ways to read the text so far. The text is kept."),
            _("Let alternatives in the grammar begin with different characters."),
        )


class SchemaFailed(UserError):
    """llguidance gave up on a schema in the middle of an answer."""

    code = "schema_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The JSON schema is too involved to go on with."),
            _("The text so far is kept."),
            _("Choose a simpler schema: shorter patterns, fewer alternatives."),
            details=reason,
        )


class NotAsWritten(UserError):
    """An answer that is to be continued does not follow the grammar or the schema so far."""

    code = "not_as_written"

    def __init__(self) -> None:
        super().__init__(
            _("The answer cannot be continued under the grammar or the JSON schema."),
            _("What is written so far does not follow it."),
            _("Have the answer written anew, or clear the grammar and the schema."),
        )


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    size: int

    @property
    def control_ids(self) -> Collection[int]: ...

    def raw_piece(self, token: int) -> bytes: ...

    def piece(self, token: int) -> bytes: ...

    def tokenize(self, text: str) -> list[int]: ...

    def ends_answer(self, token: int) -> bool: ...


class Matcher:
    """One answer's way through a schema or a grammar."""

    def __init__(self, tokenizer: Any, n_vocab: int, written: str, *, is_schema: bool) -> None:
        """`written` is the form as llguidance takes it. Raises `BadSchema` or `BadGrammar`."""
        import llguidance

        self._n_vocab = n_vocab
        self._is_schema = is_schema
        self._matcher = llguidance.LLMatcher(tokenizer, written, log_level=0, limits=self._limits(llguidance))
        self._mask = np.zeros((n_vocab + 1 + 31) // 32, np.uint32)
        if not self._found_mask():
            reason = str(self._matcher.get_error())
            nothing = _("Nothing follows it.") if "<state>" in reason else reason
            raise BadSchema(nothing) if is_schema else BadGrammar(nothing)

    def _limits(self, llguidance: Any) -> Any:
        return None if self._is_schema else llguidance.LLParserLimits(step_max_items=_MOST_ITEMS)

    @property
    def is_quick(self) -> bool:
        """Whether the whole vocabulary is judged in less than a millisecond, whatever is allowed."""
        return self._is_schema

    def allowed(self) -> NDArray[np.bool_]:
        """Returns for every token (V,) whether it may come now. Raises `SchemaFailed`, `GrammarTooSlow`."""
        if not self._found_mask():
            raise self._failure()
        return np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self._n_vocab].view(bool)

    def allowed_of(self, ids: Iterable[int]) -> NDArray[np.bool_]:
        """Returns for each of some tokens (n,) whether it may come now. Raises what `allowed` raises."""
        found = np.fromiter((self._matcher.validate_tokens([token]) == 1 for token in ids), bool)
        if self._matcher.is_error():
            raise self._failure()
        return found

    def accept(self, token: int) -> None:
        """Goes on past a token that was allowed and drawn."""
        if not self._matcher.consume_token(token):
            raise self._failure()

    def close(self) -> None:
        """Nothing to free: the matcher goes with this object."""

    def _failure(self) -> UserError:
        return SchemaFailed(str(self._matcher.get_error())) if self._is_schema else GrammarTooSlow()

    def _found_mask(self) -> bool:
        if not self._matcher.is_error():
            self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        return not self._matcher.is_error()


class Matchers:
    """Makes the matchers of one model's answers."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def make(self, params: SamplingParams, *, written: str = "", ids: Sequence[int] = ()) -> Matcher:
        """Returns what an answer is held to that goes on after `written`; `ids` are its tokens where they are known.

        Raises `BadGrammar`, `BadSchema`, and `NotAsWritten` where `written` does not follow it.
        """
        matcher = self.of_grammar(params.grammar) if params.grammar else self.of_schema(params.json_schema)
        for token in ids or self._tokens_of(written):
            if not matcher.allowed_of([token])[0]:
                raise NotAsWritten
            matcher.accept(token)
        return matcher

    def of_schema(self, schema: str) -> Matcher:
        """Returns a matcher at the start of a JSON schema. Raises `BadSchema`."""
        import llguidance

        check_schema(schema)
        schema = "{}" if schema.strip() == "true" else schema  # llguidance takes options only with objects
        written = llguidance.LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": WHITESPACE})
        return Matcher(self._tokenizer, self._vocabulary.size, written, is_schema=True)

    def of_grammar(self, grammar: str) -> Matcher:
        """Returns a matcher at the start of a GBNF grammar. Raises `BadGrammar`."""
        import llguidance

        check_grammar(grammar)
        written = llguidance.LLMatcher.grammar_from_lark(to_lark(read_rules(grammar)))
        return Matcher(self._tokenizer, self._vocabulary.size, written, is_schema=False)

    def _tokens_of(self, written: str) -> list[int]:
        ids = self._vocabulary.tokenize(written) if written else []
        if b"".join(map(self._vocabulary.piece, ids)) != written.encode("utf-8", "replace"):
            raise NotAsWritten  # a tokenizer that adds a space of its own
        return ids

    @cached_property
    def _tokenizer(self) -> Any:
        import llguidance

        size = self._vocabulary.size
        ends = [token for token in range(size) if self._vocabulary.ends_answer(token)]
        return llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Tokens(self._vocabulary)),
            # A token past the vocabulary stands for the end where the model has none: nothing is left then.
            n_vocab=size + 1, eos_token=ends or [size],
        )  # fmt: skip


class _Tokens:
    """The vocabulary as llguidance reads it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.tokens: Sequence[bytes] = [*(vocabulary.raw_piece(token) for token in range(vocabulary.size)), b"<end>"]
        self.special_token_ids = sorted({*vocabulary.control_ids, vocabulary.size})
        self.eos_token_id = vocabulary.size
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        return self._vocabulary.tokenize(text.decode("utf-8", "replace"))
