"""Stop texts end an answer wherever they begin, and nothing of them is shown."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.stop import StopMatcher


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    """Returns all that is shown, and the stop text."""
    matcher = StopMatcher(stops)
    shown = ""
    for piece in pieces:
        text, stopped = matcher.feed(piece)
        shown += text
        if stopped is not None:
            return shown + matcher.finish(), stopped
    return shown + matcher.finish(), None


def expected(stops: list[str], text: str) -> tuple[str, str | None]:
    """The definition, in quadratic time: the stop that is complete first, the longest of several."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


def test_stop_text_spread_over_pieces_is_not_shown() -> None:
    assert run(["\nUser:"], ["Hello\nUs", "er:", "junk"]) == ("Hello", "\nUser:")


def test_false_start_is_shown_in_full() -> None:
    assert run(["\nUser:"], ["Hello\nUs", "ed", " cars"]) == ("Hello\nUsed cars", None)


def test_stop_text_in_the_middle_of_a_piece_ends_the_text_there() -> None:
    assert run(["STOP"], ["before STOP after"]) == ("before ", "STOP")


def test_unfinished_stop_text_is_released_at_the_end() -> None:
    assert run(["\nUser:"], ["Hello", "\nUser"]) == ("Hello\nUser", None)


def test_stop_text_with_emoji_is_found() -> None:
    assert run(["👨‍👩‍👧!"], ["a👨", "‍👩‍", "👧", "!b"]) == ("a", "👨‍👩‍👧!")


def test_first_stop_text_to_be_complete_wins() -> None:
    assert run(["world", "lo"], ["Hello world"]) == ("Hel", "lo")
    assert run(["abcd", "bc"], ["abcd"]) == ("a", "bc")


def test_longest_of_the_stop_texts_complete_together_wins() -> None:
    assert run(["User:", "\nUser:"], ["Hello\nUser:"]) == ("Hello", "\nUser:")
    assert run(["\nUser:", "User:"], ["Hello", "\n", "User", ":"]) == ("Hello", "\nUser:")


def test_stop_text_that_begins_inside_a_false_start_is_found() -> None:
    assert run(["aab"], ["a", "a", "a", "b"]) == ("a", "aab")
    assert run(["abac"], ["abab", "ac"]) == ("ab", "abac")


def test_empty_stop_text_is_ignored() -> None:
    assert run(["", "x"], ["abc"]) == ("abc", None)
    assert run([""], ["abc"]) == ("abc", None)
    assert run([], ["abc"]) == ("abc", None)


def test_no_more_is_held_back_than_may_become_a_stop_text() -> None:
    matcher = StopMatcher(["\nUser:", "END"])

    assert matcher.feed("Hello") == ("Hello", None)
    assert matcher.feed(" E") == (" ", None)
    assert matcher.feed("N\n") == ("EN", None)
    assert matcher.feed("x") == ("\nx", None)
    assert matcher.finish() == ""


def test_nothing_comes_out_after_a_stop() -> None:
    matcher = StopMatcher(["x"])

    assert matcher.feed("axb") == ("a", "x")
    assert matcher.feed("more") == ("", "x")
    assert matcher.finish() == ""


texts = st.text(alphabet="ab\n😀", max_size=12)


@given(stops=st.lists(st.text(alphabet="ab\n😀", max_size=4), max_size=4), pieces=st.lists(texts, max_size=6))
@example(stops=["ab", "b"], pieces=["a", "b"])
@example(stops=["aabaa", "aba"], pieces=["aab", "aa"])
def test_cutting_the_text_differently_changes_nothing(stops: list[str], pieces: list[str]) -> None:
    assert run(stops, pieces) == expected(stops, "".join(pieces))


@given(stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4), text=st.text(alphabet="abc"))
def test_held_back_text_is_the_longest_end_that_begins_a_stop_text(stops: list[str], text: str) -> None:
    if expected(stops, text)[1] is not None:
        return
    matcher = StopMatcher(stops)

    shown, _stopped = matcher.feed(text)

    ends = [text[at:] for at in range(len(text)) if any(stop.startswith(text[at:]) for stop in stops)]
    assert text[len(shown) :] == max(ends, key=len, default="")


@pytest.mark.parametrize("count", [1, 1000])
def test_many_stop_texts_are_found_like_one(count: int) -> None:
    stops = [f"<stop {number}>" for number in range(count)]

    assert run(stops, ["a <stop" * 1000, " 0", ">"]) == ("a <stop" * 999 + "a ", "<stop 0>")
