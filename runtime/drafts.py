"""What every source of drafts offers: guesses at the tokens that come next. Knows no model and no text.

A guess is never taken for what the model says: each one is compared with the token that the model's own draw gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Guess(NamedTuple):
    """A token that may come next, in a class of guesses that are about equally good.

    `chance` is how often guesses of this `grade` come true as far as the drafter knows, before anything was seen.
    """

    token: int
    grade: int
    chance: float


class Drafter(Protocol):
    """Guesses how the tokens that it was told of go on."""

    @property
    def behind(self) -> int:
        """How many tokens have to be read before the next guess."""
        ...

    def begin(self, ids: Sequence[int]) -> None:
        """Hears what stands before an answer; cheap where it begins with what was heard before."""
        ...

    def add(self, token: int) -> None:
        """Hears one more token of the answer."""
        ...

    def catch_up(self) -> None:
        """Reads what it is behind."""
        ...

    def guesses(self) -> Iterator[Guess]:
        """Yields one token after the other, each as if those before it had come true."""
        ...
