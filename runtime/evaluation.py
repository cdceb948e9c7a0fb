"""What answers and replays ask of an engine: a cache of evaluated tokens, and draws from the scores behind them.

Every engine implements these in its own way. Knows no model and no text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from runtime.protocol import TokenDrawn
from runtime.schedule import Schedule

LAST = -1  # in place of a row: the scores after the token that was evaluated last


class Stopped(Exception):
    """The stop flag ended an evaluation: the person pressed Stop. The cache holds what was finished."""


class Cache(Protocol):
    """The evaluated tokens of one model, with prefix reuse. What evaluates raises `Stopped` where it was stopped."""

    @property
    def ids(self) -> list[int]:
        """The tokens, in their order."""
        ...

    def __len__(self) -> int: ...

    @property
    def longest_piece(self) -> int:
        """How many tokens are evaluated at once at most."""
        ...

    def mark(self) -> int:
        """Returns the place between what has been done with the cache so far and what comes."""
        ...

    def schedules(self, mark: int) -> tuple[Schedule, Schedule] | None:
        """Returns how an empty cache is brought to where it was at the mark, and what has been done with it since.

        None where the same steps would not lay the tokens out as they lie.
        """
        ...

    def reusable(self, prompt: Sequence[int]) -> int:
        """Returns how many of its first tokens `prompt` could use, as far as that is known without asking the model.

        Nothing is changed; any thread may ask.
        """
        ...

    def keep_common(self, prompt: Sequence[int]) -> tuple[int, str]:
        """Cuts the cache back to what `prompt` can use of it.

        Returns how many tokens are kept (fewer than the prompt has) and, where more were equal but could not be
        kept, the reason in words.
        """
        ...

    def evaluate(self, ids: Sequence[int]) -> Iterator[int]:
        """Evaluates tokens in pieces; yields the number done after each piece."""
        ...

    def append(self, token: int) -> None:
        """Evaluates one token of an answer."""
        ...

    def append_draft(self, ids: Sequence[int]) -> None:
        """Evaluates tokens at once and keeps the scores after each of them."""
        ...

    def settle(self) -> None:
        """Waits until what was evaluated is computed."""
        ...

    def take_back(self, length: int) -> bool:
        """Cuts the cache back to its first `length` tokens; False, and then it is empty, where that cannot be done."""
        ...

    def shift(self, keep: int) -> int:
        """Takes the older half of what follows the first `keep` tokens out, and lets the rest follow them.

        Returns how many tokens were taken out; 0, with nothing changed, where it cannot be done or is not worth while.
        """
        ...

    def clear(self) -> None:
        """Forgets everything."""
        ...


class Draw(Protocol):
    """Draws the tokens of one answer."""

    @property
    def drawn(self) -> TokenDrawn | None:
        """How the last token was drawn, where that was asked for."""
        ...

    def remember(self, ids: Sequence[int]) -> None:
        """Tells penalties what was said before the answer."""
        ...

    def check(self) -> None:
        """Raises `InvalidNumbers` unless the scores behind the prompt can be drawn from."""
        ...

    def draw(self, row: int = LAST) -> int | None:
        """Draws the next token from the scores after a token of the last draft; None where a form allows none.

        Raises `InvalidNumbers` where its score is no number.
        """
        ...

    def close(self) -> None: ...


class CacheRecord(msgspec.Struct, frozen=True):
    """What a cache remembers of itself: the tokens that can be used again, and how they were evaluated."""

    ids: tuple[int, ...]
    schedule: Schedule

    @property
    def adds_up(self) -> bool:
        """Whether the schedule leads to these tokens."""
        try:
            return self.schedule.held() == list(self.ids)
        except ValueError:
            return False

    def holds(self, ids: Sequence[int]) -> bool:
        """Whether all of these ids, or all but the last, stand somewhere in a row."""
        wanted = array("i", ids[:-1] if len(ids) > 1 else ids).tobytes()
        return wanted in array("i", self.ids).tobytes()


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns how many tokens at the beginning are equal."""
    limit = min(len(first), len(second))
    return next((index for index in range(limit) if first[index] != second[index]), limit)
