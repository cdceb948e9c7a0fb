"""Drafts from what the text has said before."""

from __future__ import annotations

import random
import sys
from itertools import islice

import pytest

from runtime.ngram import NgramDrafter


def guessed(drafter: NgramDrafter, most: int = 8) -> list[int]:
    return [guess.token for guess in islice(drafter.guesses(), most)]


def heard(ids: list[int], size: int = 2) -> NgramDrafter:
    drafter = NgramDrafter(size)
    drafter.begin(ids)
    return drafter


def test_what_followed_the_last_tokens_before_is_guessed() -> None:
    assert guessed(heard([1, 2, 3, 4, 5, 9, 1, 2]), 3) == [3, 4, 5]


def test_nothing_is_guessed_where_nothing_repeats() -> None:
    assert guessed(heard([])) == []
    assert guessed(heard([1])) == []
    assert guessed(heard([1, 2, 3, 1])) == []  # one token repeats, and two have to


@pytest.mark.parametrize("size", [1, 2, 3])
def test_only_runs_of_the_chosen_size_count(size: int) -> None:
    for length in (1, 2, 3):
        run = [7, 8, 9][:length]
        assert bool(guessed(heard([*run, 4, 5, *run], size))) == (length >= size)


def test_the_longest_match_wins_over_a_later_one() -> None:
    drafter = heard([1, 2, 3, 10, 5, 2, 3, 20, 6, 1, 2, 3])
    assert guessed(drafter, 1) == [10]


def test_of_equally_long_matches_the_latest_wins() -> None:
    assert guessed(heard([5, 2, 3, 10, 6, 2, 3, 20, 7, 2, 3]), 1) == [20]


def test_a_text_that_repeats_itself_up_to_its_end_goes_on_so() -> None:
    assert guessed(heard([0, 1, 2, 3, 1, 2, 3, 1, 2]), 7) == [3, 1, 2, 3, 1, 2, 3]


def test_guesses_after_a_longer_match_are_of_a_better_grade() -> None:
    short = next(heard([1, 2, 3, 9, 1, 2]).guesses())
    long = next(heard([4, 5, 6, 1, 2, 3, 9, 4, 5, 6, 1, 2]).guesses())
    assert short.grade < long.grade
    assert short.chance < long.chance < 1


def test_tokens_of_the_answer_are_heard_one_by_one() -> None:
    drafter = heard([1, 2, 3])
    for token in (8, 1, 2):
        drafter.add(token)
    assert guessed(drafter, 2) == [3, 8]


def test_an_index_that_grew_is_the_one_made_at_once() -> None:
    draw = random.Random(3)
    ids = [draw.randrange(4) for _ in range(400)]
    grown = heard(ids[:10])
    for at in range(10, len(ids)):
        assert guessed(grown) == guessed(heard(ids[:at]))
        if at % 3:
            grown.add(ids[at])
        else:
            grown.begin(ids[: at + 1])


def test_another_text_starts_anew() -> None:
    drafter = heard([1, 2, 3, 4])
    drafter.begin([7, 1, 2])
    assert guessed(drafter) == []
    drafter.begin([7, 1])  # an answer is thrown away
    drafter.add(5)
    assert guessed(drafter) == []


def test_a_token_costs_the_same_however_long_the_text() -> None:
    def steps(length: int) -> int:
        drafter = heard([at % 7 for at in range(length)])
        count = 0

        def tick(*_event: object) -> object:
            nonlocal count
            count += 1
            return tick

        sys.settrace(tick)  # type: ignore[arg-type]
        try:
            drafter.add(3)
            guessed(drafter)
        finally:
            sys.settrace(None)
        return count

    assert steps(40_000) <= 1.1 * steps(1000)
