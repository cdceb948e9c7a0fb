"""What an engine finds out by reading texts: how likely they are, and vectors of what they say. Knows no engine."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from runtime.errors import UserError
from runtime.text import _

Pooling = Literal["auto", "mean", "cls", "last"]
POOLINGS: tuple[Pooling, ...] = ("auto", "mean", "cls", "last")


class ReadingStopped(UserError):
    """The person ended the reading."""

    code = "reading_stopped"

    def __init__(self) -> None:
        super().__init__(_("Reading the text was stopped."))


class ReadingFailed(UserError):
    """The engine could not evaluate a text."""

    code = "reading_failed"

    def __init__(self, status: int, log: str) -> None:
        super().__init__(
            _("The text could not be read: llama.cpp reported error {status}.").format(status=status),
            _("It gives no reason; what it wrote before is in the details."),
            _("Load the model with a shorter context length, or read a shorter text."),
            details=log,
        )


class NothingToScore(UserError):
    """A text in which no token follows another one."""

    code = "nothing_to_score"

    def __init__(self) -> None:
        super().__init__(
            _("There is nothing to score: the text has no token that follows another one."),
            _("A token's probability comes from what stands before it."),
            _("Score a longer text."),
        )


class ReadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """`done` of `total` tokens are read; what must be read twice counts twice."""

    done: int
    total: int


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """How likely a model finds a text, token by token.

    `logprobs` holds, for each of `ids`, the natural logarithm of its probability given what stands before it. `ids` is
    the whole text where `begin_mark` says that the model puts one before it, and lacks the first token otherwise.
    A text longer than the context was read in `windows`; after the first one, each token had at least `stride` tokens
    of the text before it.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    begin_mark: bool
    windows: int
    stride: int

    @property
    def tokens(self) -> int:
        return len(self.logprobs)

    @property
    def perplexity(self) -> float:
        """e to the mean of the negative log-probabilities; infinite where a token was impossible."""
        try:
            return math.exp(-math.fsum(self.logprobs) / len(self.logprobs))
        except OverflowError:
            return math.inf


# --- vectors ----------------------------------------------------------------------------------------------------


class NothingToEmbed(UserError):
    """A text without a single token of its own."""

    code = "nothing_to_embed"

    def __init__(self, number: int) -> None:
        super().__init__(
            _("Text {number} is empty: there is nothing to make a vector of.").format(number=number),
            "",
            _("Leave the text out, or write something."),
        )


class TextTooLong(UserError):
    """A text with more tokens than the model reads at once."""

    code = "text_too_long"

    def __init__(self, number: int, *, tokens: int, limit: int) -> None:
        title = _("Text {number} has {tokens} tokens; this model is loaded for {limit} at once.")
        super().__init__(
            title.format(number=number, tokens=f"{tokens:,}", limit=f"{limit:,}"),
            _("A vector is made of a text as a whole."),
            _("Split the text, have it cut with --truncate, or, where the model was trained for more, raise "
              "--context-length."),
        )  # fmt: skip


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to make vectors of, in order.

    A token's vectors become the text's by `pooling`: their mean, the first token's ("cls") or the last one's; "auto"
    is what the model's file says, and the mean where it says nothing. With `normalize`, each vector has the length 1.
    A text that is too long raises `TextTooLong`, or is cut at its end with `truncate`.
    """

    texts: tuple[str, ...]
    pooling: Pooling = "auto"
    normalize: bool = True
    truncate: bool = False


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """One vector for each text. `tokens` is how many tokens were read of each; `notes` say which texts were cut."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: tuple[int, ...]
    pooling: Pooling
    notes: tuple[str, ...] = ()
