"""How long Stop may take before the engine counts as hung. Knows no process."""

from __future__ import annotations

import time
from collections.abc import Callable

STOP_SECONDS = 3.0
MAX_STOP_SECONDS = 15.0


class StopPatience:
    """Watches the pace of an answer.

    The engine looks at Stop after each token, and while it reads the prompt hundreds of times a token, so three seconds
    are plenty, except for a model so large that one token takes longer: it gets twice its slowest token.
    """

    def __init__(self, least: float = STOP_SECONDS, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`least` is in seconds; `clock` tells the time in seconds."""
        self._least = least
        self._clock = clock
        self._last: float | None = None
        self._slowest = 0.0
        self.n_tokens = 0

    def begin(self) -> None:
        """A command was sent."""
        self._last, self._slowest, self.n_tokens = None, 0.0, 0

    def token(self, n_tokens: int) -> None:
        """Text has come; the answer has `n_tokens` so far. What precedes the first text is the prompt, not a token."""
        moment = self._clock()
        if self._last is not None:
            self._slowest = max(self._slowest, moment - self._last)
        self._last, self.n_tokens = moment, n_tokens

    @property
    def seconds(self) -> float:
        """How long to wait for the closing event."""
        return min(max(self._least, 2 * self._slowest), max(self._least, MAX_STOP_SECONDS))
