"""Decides how many guesses are worth checking. Pure arithmetic on what was seen; knows no model and no tokens.

Checking guesses together with the next token costs more than the token alone; how much more is measured on the way,
and so is how often guesses of each grade come true. A draft is as long as promises the most tokens for its time.

What speculation may lose is bounded whatever the estimates say. Time is counted in plain steps (one token evaluated
alone). Each plain step adds a little credit, a draft adds what it won or takes what it lost, and without credit nothing
is drafted. What was measured long ago is forgotten, so that what did not pay is tried again some time.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter

from runtime.drafts import Guess

_EARNED = 0.02  # plain steps of credit for each plain step: what trying may cost in the long run
_FIRST_CREDIT = 3.0
_MOST_CREDIT = 6.0
_MARGIN = 1.04  # a draft has to promise this many times the speed of plain steps
_FEW = 4  # tokens that a drafter reads between two drafts that win; more are what it has missed
_LEAST_PLAIN = 3  # plain steps seen before the first draft
_STALE = 512  # evaluations after which a measurement that was not repeated is forgotten
_PLAIN_EVERY = 64  # drafts after which a plain step is taken, to know how long it takes by now
_OUTLIER = 2.0  # times the usual: a busy moment is not held against the draft
_FORGET = 0.98  # what was seen of a grade fades with each further guess
_PRIOR_WEIGHT = 2.0  # guesses that a drafter's own word counts for
_UNSEEN_SLOPE = 0.25  # plain steps for a further token in a batch, before one was measured
_UNSEEN_READING = 0.25  # plain steps for a token that a drafter reads, before any was
_SMOOTHING = 0.2
_LEAST_GAIN = -0.2  # from here a trial that wins a step is enough to go on
_TRIAL_PRICE = 1.0


class DraftPace:
    """Measures and decides for one loaded model; lives as long as the model, and so knows more with each answer."""

    def __init__(self, *, free: bool, clock: Callable[[], float] = perf_counter) -> None:
        """`free` says that guessing itself takes no time worth measuring."""
        self._free = free
        self.clock = clock
        self._costs: dict[int, _Typical] = {}  # seconds by the number of tokens evaluated together
        self._sizes: list[int] = []  # the keys of the above, ascending
        self._measured_at: dict[int, int] = {}  # by size: the number of the last such evaluation, the oldest first
        self._evaluations = 0
        self._seen: dict[int, tuple[float, float]] = {}  # by grade: guesses that came true, and all
        self._guessing, self._reading = _Typical(), _Typical()  # seconds a token
        self._credit = _FIRST_CREDIT
        self._gain = 1.0  # plain steps that a draft won lately, its making included
        self._saved = 0.0  # plain steps that a drafter which costs something may take for a trial
        self._since_plain = 0
        self._drafted, self._spent, self._asked = 0, 0.0, False

    def asks(self, behind: int) -> bool:
        """Whether to make guesses at all, for which the drafter has to read the tokens that it is `behind`.

        Where guesses have not paid lately, a trial is due when plain steps have saved up its price, reading included.
        """
        if self._free:
            return True
        if not self._ready():
            return False
        if self._gain > 0:
            return True
        per_token = self._reading.value / self._plain if self._reading.value else _UNSEEN_READING
        if self._saved < _TRIAL_PRICE + behind * per_token:
            return False
        self._saved = 0.0
        return True

    def caught_up(self, n_tokens: int, seconds: float) -> None:
        """Hears what it took the drafter to read: a draft's cost, or what it missed, which is paid for by then."""
        if n_tokens >= _FEW:
            self._reading.add(seconds / n_tokens)
        else:
            self._spent += seconds

    def choose(self, guesses: Iterator[Guess], *, most: int) -> tuple[list[Guess], int]:
        """Takes guesses while they promise something; returns them, and how many of them to check."""
        started, taken, chance, promised = self.clock(), list[Guess](), 1.0, 1.0
        best, count = _MARGIN, 0
        for guess in itertools.islice(guesses, max(most, 0)):
            taken.append(guess)
            if not self._plain:
                break
            chance *= self._chance(guess)
            promised += chance
            speed = promised / self._cost(len(taken) + 1)
            if speed > best:
                best, count = speed, len(taken)
            if chance < best * self._least_chance():
                break
        if not self._free:
            self._note_asking(self.clock() - started, len(taken))
        return taken, count if self._ready() else 0

    def evaluated(self, n_drafted: int, seconds: float) -> None:
        """Hears how long it took to evaluate a token together with `n_drafted` guesses."""
        size = n_drafted + 1
        self._evaluations += 1
        self._measured_at.pop(size, None)
        self._measured_at[size] = self._evaluations
        self._costs.setdefault(size, _Typical()).add(seconds)
        self._forget_stale()
        self._sizes = sorted(self._costs)
        self._since_plain = self._since_plain + 1 if n_drafted else 0
        self._drafted = n_drafted
        self._spent += min(seconds, _OUTLIER * self._costs[size].value)

    def _forget_stale(self) -> None:
        oldest = next(iter(self._measured_at))
        if oldest > 1 and self._measured_at[oldest] < self._evaluations - _STALE:
            del self._measured_at[oldest], self._costs[oldest]

    def checked(self, guess: Guess, came_true: bool) -> None:
        """Hears what became of a guess, checked in a batch or only looked at afterwards."""
        true, of = self._seen.get(guess.grade, (0.0, 0.0))
        self._seen[guess.grade] = (true * _FORGET + came_true, of * _FORGET + 1)

    def settle(self, accepted: int) -> None:
        """Closes the books of one evaluation, of whose guesses so many came true."""
        if not self._plain:
            return
        if self._drafted or self._asked:
            won = 1 + accepted - self._spent / self._plain
            self._gain = max(self._gain + _SMOOTHING * (won - self._gain), _LEAST_GAIN)
            self._credit = min(self._credit + won, _MOST_CREDIT)
        elif self._spent:
            self._credit = min(self._credit + _EARNED, _MOST_CREDIT)
            self._saved += _EARNED
        self._drafted, self._spent, self._asked = 0, 0.0, False

    @property
    def _plain(self) -> float:
        """Seconds of a plain step; 0 where too few were seen."""
        alone = self._costs.get(1)
        return alone.value if alone is not None and alone.count >= _LEAST_PLAIN else 0.0

    def _ready(self) -> bool:
        return bool(self._plain) and self._credit > 0 and self._since_plain < _PLAIN_EVERY

    def _note_asking(self, seconds: float, guessed: int) -> None:
        self._asked = True
        self._spent += seconds
        if guessed:
            self._guessing.add(seconds / guessed)

    def _chance(self, guess: Guess) -> float:
        true, of = self._seen.get(guess.grade, (0.0, 0.0))
        return (true + _PRIOR_WEIGHT * guess.chance) / (of + _PRIOR_WEIGHT)

    def _least_chance(self) -> float:
        """Returns the chance below which a further guess takes longer than a plain step does for what it brings."""
        return self._slope(len(self._sizes) - 1) + self._guessing.value / self._plain

    def _cost(self, size: int) -> float:
        """Returns how many plain steps an evaluation of `size` tokens takes, between and beyond the measured sizes."""
        at = bisect_left(self._sizes, size)
        if at < len(self._sizes) and self._sizes[at] == size:
            return self._known(at)
        if at == len(self._sizes):
            return self._known(at - 1) + (size - self._sizes[-1]) * self._slope(at - 1)
        below, above = self._sizes[at - 1], self._sizes[at]
        share = (size - below) / (above - below)
        return (1 - share) * self._known(at - 1) + share * self._known(at)

    def _known(self, at: int) -> float:
        return self._costs[self._sizes[at]].value / self._plain

    def _slope(self, at: int) -> float:
        """Returns what each further token takes on the way to the size at this place, in plain steps."""
        size = self._sizes[at]
        return max(self._known(at) - 1, 0.0) / (size - 1) if size > 1 else _UNSEEN_SLOPE


class _Typical:
    """The median of the last few measurements: single busy moments do not move it."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=7)
        self.count = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        self._last.append(value)
        self.count += 1
        self.value = statistics.median(self._last)
