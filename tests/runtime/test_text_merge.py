"""Text that comes quickly is joined; nothing is lost, held for long or brought out of order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.protocol import Finished, FinishReason, GenerationEvent, PromptProgress, TextDelta, Usage
from runtime.text_merge import merged

END = Finished(id=1, reason=FinishReason.END, usage=Usage())


class Timed:
    """Events that come at given times, on a clock that follows them."""

    def __init__(self, *events: tuple[float, GenerationEvent]) -> None:
        self._events = events
        self.now = 0.0

    def __iter__(self) -> Iterator[GenerationEvent]:
        for moment, event in self._events:
            self.now = moment
            yield event

    def merged(self) -> list[GenerationEvent]:
        return list(merged(self, seconds=0.025, clock=lambda: self.now))


def text(piece: str, count: int) -> TextDelta:
    return TextDelta(id=1, text=piece, n_tokens=count)


def test_what_the_first_text_replaces_is_not_replaced_again_by_the_next() -> None:
    first = TextDelta(id=1, text="é", n_tokens=1, replaces=1)
    assert Timed((0.0, first), (0.01, text("b", 2)), (0.02, text("c", 3)), (0.03, END)).merged() == [
        first, text("bc", 3), END,
    ]  # fmt: skip


def test_the_first_text_goes_out_at_once_and_quick_ones_are_joined() -> None:
    found = Timed((0.0, text("a", 1)), (0.01, text("b", 2)), (0.02, text("c", 3)), (0.03, text("d", 4)), (0.04, END))
    assert found.merged() == [text("a", 1), text("bcd", 4), END]


def test_a_slow_model_is_not_held_back() -> None:
    events = [text("a", 1), text("b", 2), text("c", 3)]
    assert Timed((0.0, events[0]), (0.1, events[1]), (0.2, events[2])).merged() == events


def test_held_text_comes_before_whatever_follows_it() -> None:
    progress = PromptProgress(id=1, done=1, total=2)
    found = Timed((0.0, text("a", 1)), (0.001, text("b", 2)), (0.002, progress), (0.003, text("c", 3))).merged()
    assert found == [text("a", 1), text("b", 2), progress, text("c", 3)]


def test_text_held_when_the_engine_fails_still_comes_before_the_failure() -> None:
    def failing() -> Iterator[GenerationEvent]:
        yield text("a", 1)
        yield text("b", 2)
        raise RuntimeError("gone")

    found = merged(failing(), clock=lambda: 0.0)
    assert [next(found), next(found)] == [text("a", 1), text("b", 2)]
    with pytest.raises(RuntimeError, match="gone"):
        next(found)


@given(st.lists(st.tuples(st.floats(0, 0.05), st.text(max_size=3))))
def test_no_text_is_lost(pieces: list[tuple[float, str]]) -> None:
    moment, events = 0.0, []
    for count, (step, piece) in enumerate(pieces, 1):
        moment += step
        events.append((moment, text(piece, count)))
    found = [event for event in Timed(*events).merged() if isinstance(event, TextDelta)]
    assert "".join(event.text for event in found) == "".join(piece for _step, piece in pieces)
    assert not found or found[-1].n_tokens == len(pieces)
