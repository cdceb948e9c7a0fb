"""How many guesses are worth checking, with a clock that the test turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from runtime.draft_pace import DraftPace
from runtime.drafts import Guess

PLAIN = 0.010  # seconds


class Machine:
    """Writes tokens with guesses that come true at random, on a made-up clock."""

    def __init__(
        self, *, slope: float, hit_rate: Callable[[int], float], guess_seconds: float = 0.0, prompt: int = 0
    ) -> None:
        self.now = 0.0
        self.slope, self.hit_rate, self.guess_seconds = slope, hit_rate, guess_seconds
        self.pace = DraftPace(free=not guess_seconds, clock=lambda: self.now)
        self.draw = random.Random(7)
        self.behind = prompt
        self.drafted = self.tokens = 0

    def write(self, count: int, *, most: int = 16) -> float:
        """Returns how many times faster than plain steps `count` tokens were written."""
        started, first = self.now, self.tokens
        while self.tokens < first + count:
            self._round(most)
        return (self.tokens - first) * PLAIN / (self.now - started)

    def _round(self, most: int) -> None:
        guesses: list[Guess] = []
        chosen = 0
        if self.pace.asks(self.behind):
            if self.guess_seconds:
                seconds = self.behind * self.guess_seconds / 4
                self.now += seconds
                self.pace.caught_up(self.behind, seconds)
                self.behind = 0
            guesses, chosen = self.pace.choose(self._guesses(), most=most)
        seconds = PLAIN * (1 + self.slope * chosen)
        self.now += seconds
        self.pace.evaluated(chosen, seconds)
        accepted = self._check(guesses, chosen)
        self.pace.settle(accepted)
        self.behind += 1 + accepted
        self.drafted += chosen
        self.tokens += 1 + accepted

    def _guesses(self) -> Iterator[Guess]:
        while True:
            self.now += self.guess_seconds
            yield Guess(0, grade=3, chance=0.75)

    def _check(self, guesses: list[Guess], chosen: int) -> int:
        for at, guess in enumerate(guesses[: max(chosen, 1)]):
            came_true = self.draw.random() < self.hit_rate(self.tokens)
            self.pace.checked(guess, came_true)
            if not came_true:
                return min(at, chosen)
        return chosen


@pytest.mark.parametrize("guess_seconds", [0.0, 0.0005])
@pytest.mark.parametrize("slope", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("tokens", [128, 2000])
def test_wrong_guesses_cost_less_than_a_twentieth(slope: float, guess_seconds: float, tokens: int) -> None:
    machine = Machine(slope=slope, hit_rate=lambda _: 0.0, guess_seconds=guess_seconds)
    assert machine.write(tokens) >= 0.95
    assert machine.drafted > 0


@pytest.mark.parametrize("slope", [0.05, 0.3])
def test_right_guesses_are_made_use_of(slope: float) -> None:
    machine = Machine(slope=slope, hit_rate=lambda _: 0.9)
    assert machine.write(500) > (4.0 if slope < 0.1 else 1.8)


def test_guesses_that_are_not_worth_their_time_are_not_checked() -> None:
    machine = Machine(slope=1.2, hit_rate=lambda _: 1.0)  # three tokens at once take longer than three after another
    assert machine.write(3000) >= 0.97
    assert machine.drafted < 300


def test_a_short_draft_is_chosen_where_long_ones_rarely_come_true() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda _: 0.5)
    machine.write(300)
    choice = machine.pace.choose(machine._guesses(), most=16)[1]
    assert 1 <= choice <= 3


def test_when_the_text_begins_to_repeat_itself_drafts_come_back() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda tokens: 0.95 if tokens > 1000 else 0.0)
    assert machine.write(1000) >= 0.95
    assert machine.write(1000) > 2.0


def test_when_the_text_stops_repeating_itself_drafts_end_soon() -> None:
    machine = Machine(slope=0.3, hit_rate=lambda tokens: 0.95 if tokens < 500 else 0.0)
    machine.write(500)
    assert machine.write(400) >= 0.95


def test_a_slow_draft_model_is_soon_left_alone() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda _: 0.8, guess_seconds=0.009)
    assert machine.write(2000) >= 0.95


def test_a_quick_draft_model_is_used() -> None:
    machine = Machine(slope=0.1, hit_rate=lambda _: 0.8, guess_seconds=0.0005)
    assert machine.write(1000) > 1.9


def test_reading_a_long_prompt_is_no_mere_trial() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda _: 0.0, guess_seconds=0.001, prompt=100)
    machine.write(600)
    before = machine.now

    machine.behind = 100_000  # a new prompt, of which the draft has read nothing
    machine.write(600)

    assert machine.now - before < 600 * PLAIN * 1.05
    assert not machine.pace.asks(100_000)


def test_a_trial_waits_until_plain_steps_have_paid_for_what_it_has_to_read() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda _: 0.0, guess_seconds=0.001, prompt=100)
    machine.write(600)

    def plain_steps_until_a_trial(behind: int) -> int:
        for step in range(100_000):
            if machine.pace.asks(behind):
                return step
            machine.pace.evaluated(0, PLAIN)
            machine.pace.settle(0)
        raise AssertionError("no trial")

    plain_steps_until_a_trial(0)
    assert 45 <= plain_steps_until_a_trial(0) <= 55  # a plain step for the trial, at two in a hundred
    assert 800 <= plain_steps_until_a_trial(600) <= 850  # 600 tokens take as long to read as 15 plain steps


def test_a_draft_model_is_used_again_when_its_guesses_come_true_again() -> None:
    machine = Machine(
        slope=0.1, hit_rate=lambda tokens: 0.9 if tokens > 500 else 0.0, guess_seconds=0.0005, prompt=200
    )
    assert machine.write(500) >= 0.93  # the prompt was read by the draft model, too
    machine.write(500)
    assert machine.write(500) > 2.0


def test_drafts_come_back_when_checking_them_becomes_cheap() -> None:
    machine = Machine(slope=1.2, hit_rate=lambda _: 1.0)
    machine.write(1000)
    machine.slope = 0.05

    machine.write(1500)

    assert machine.write(500) > 3


def test_a_busy_moment_is_not_held_against_drafts() -> None:
    machine = Machine(slope=0.2, hit_rate=lambda _: 0.9)
    machine.write(300)
    machine.pace.choose(machine._guesses(), most=8)
    machine.pace.evaluated(8, 100 * PLAIN)
    machine.pace.settle(0)
    assert machine.write(300) > 2.0


def test_nothing_is_guessed_before_a_plain_step_was_measured() -> None:
    machine = Machine(slope=0.1, hit_rate=lambda _: 1.0)
    assert machine.pace.choose(machine._guesses(), most=8)[1] == 0
    machine.write(3)
    assert machine.drafted == 0
    machine.write(20)
    assert machine.drafted > 0


def test_where_there_is_no_room_nothing_is_guessed() -> None:
    machine = Machine(slope=0.1, hit_rate=lambda _: 1.0)
    machine.write(50)
    assert machine.pace.choose(machine._guesses(), most=0) == ([], 0)
    assert machine.pace.choose(machine._guesses(), most=3)[1] <= 3
