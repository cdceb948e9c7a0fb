"""In which pieces tokens were evaluated, written down so that an empty cache can be led the same way again.

Evaluating the same tokens in other pieces gives slightly other numbers, and with a quantized model sometimes another
word; so does another history of the cache. A schedule therefore tells every step since the cache was empty that still
shows in what it holds. Knows no model and no library.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

LEAST_SHIFT = 8  # a shift takes out at least one part in eight of the context: each has every key computed anew
Kind = Literal["read", "draft", "cut", "shift"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a cache.

    "read" evaluates `ids` at once and asks for the scores after the last of them, "draft" for those after each one.
    "cut" leaves the first `keep` tokens. "shift" takes `taken` tokens out behind the first `keep`; the rest moves up.
    """

    kind: Kind
    ids: tuple[int, ...] = ()
    keep: int = 0
    taken: int = 0

    def length_after(self, before: int) -> int:
        """Returns how many tokens a cache with `before` tokens holds afterwards."""
        return {"cut": self.keep, "shift": before - self.taken}.get(self.kind, before + len(self.ids))


class Step(msgspec.Struct, frozen=True, array_like=True):
    """Operations as they are stored.

    For "read" and "draft": `second` pieces of `first` tokens each. For "cut": `first` tokens stay. For "shift":
    `second` tokens are taken out behind the first `first`.
    """

    kind: Kind
    first: int
    second: int = 1


class Schedule(msgspec.Struct, frozen=True):
    """Operations in their order: the tokens that they evaluate, one after the other, and how these are cut up."""

    ids: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> Schedule:
        """Returns the schedule of these operations; equal pieces in a row become one step."""
        ids: list[int] = []
        steps: list[Step] = []
        for operation in operations:
            ids += operation.ids
            step = _step(operation)
            if steps and operation.ids and (steps[-1].kind, steps[-1].first) == (step.kind, step.first):
                step = Step(step.kind, step.first, steps.pop().second + 1)
            steps.append(step)
        return cls(tuple(ids), tuple(steps))

    def operations(self) -> Iterator[Operation]:
        """Yields the operations. Raises ValueError where the steps and the tokens do not add up."""
        pieces = sum(step.first * step.second for step in self.steps if step.kind in ("read", "draft"))
        if pieces != len(self.ids) or any(_impossible(step) for step in self.steps):
            raise ValueError(f"the steps tell of {pieces} tokens, and there are {len(self.ids)}")
        at = 0
        for step in self.steps:
            if step.kind == "cut":
                yield Operation("cut", keep=step.first)
            elif step.kind == "shift":
                yield Operation("shift", keep=step.first, taken=step.second)
            else:
                for _piece in range(step.second):
                    yield Operation(step.kind, self.ids[at : at + step.first])
                    at += step.first

    def held(self, before: Sequence[int] = ()) -> list[int]:
        """Returns what a cache holds afterwards that held `before`. Raises ValueError where a step cannot be done."""
        ids = list(before)
        for operation in self.operations():
            ids += operation.ids
            if operation.keep + operation.taken > len(ids):
                raise ValueError(f"a step leaves more than the {len(ids)} tokens that are there")
            if operation.kind == "cut":
                del ids[operation.keep :]
            elif operation.kind == "shift":
                del ids[operation.keep : operation.keep + operation.taken]
        return ids


def after_source(source: Sequence[int], start: Schedule) -> Schedule:
    """Returns the schedule of an encoder-decoder: source and what begins the target are one piece."""
    return Schedule.of([Operation("read", (*source, *start.ids))])


def _step(operation: Operation) -> Step:
    if operation.kind == "cut":
        return Step("cut", operation.keep)
    if operation.kind == "shift":
        return Step("shift", operation.keep, operation.taken)
    return Step(operation.kind, len(operation.ids))


def _impossible(step: Step) -> bool:
    lowest = 1 if step.kind in ("read", "draft") else 0
    return step.first < lowest or step.second < lowest


class EvaluationLog:
    """What has been done with a cache since it was empty, as far as it still shows.

    Where `forgets_cuts`, going back to a place leaves the cache as it was there, and what was cut off is forgotten; a
    cache that keeps only a window lays its tokens out otherwise afterwards, and remembers the cut.
    """

    def __init__(self, *, forgets_cuts: bool = True) -> None:
        self._forgets_cuts = forgets_cuts
        self._done: list[tuple[int, Operation]] = []  # with the cache's length before it
        self._starts: list[int] = []  # where evaluated pieces begin, ascending
        self.length = 0
        self.evaluated = 0  # tokens in all the operations that are remembered

    def __len__(self) -> int:
        return len(self._done)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where evaluated pieces begin, ascending."""
        return tuple(self._starts)

    def evaluate(self, ids: Sequence[int], kind: Literal["read", "draft"] = "read") -> None:
        """Notes that tokens were evaluated at once, behind what the cache held."""
        self._starts.append(self.length)
        self._add(Operation(kind, tuple(ids)))

    def cut(self, length: int) -> None:
        """Notes that only the first `length` tokens stayed."""
        if self._forgets_cuts:
            while self._done and self._is_beyond(length):
                self._forget_last()
        if self.length > length:
            self._add(Operation("cut", keep=length))
        del self._starts[bisect_left(self._starts, length) :]

    def shift(self, keep: int, taken: int) -> None:
        """Notes that tokens were taken out behind the first `keep`, and the rest moved up."""
        before = self._starts[: bisect_left(self._starts, keep)]
        after = self._starts[bisect_right(self._starts, keep + taken) :]
        self._starts = [*before, keep, *(start - taken for start in after)]
        self._add(Operation("shift", keep=keep, taken=taken))

    def clear(self) -> None:
        """Forgets everything: the cache is empty."""
        self._done.clear()
        self._starts.clear()
        self.length = self.evaluated = 0

    def start_at_or_before(self, length: int) -> int:
        """Returns the last place at or before `length` where an evaluated piece begins."""
        index = bisect_right(self._starts, length)
        return self._starts[index - 1] if index else 0

    def schedule(self, first: int = 0, last: int | None = None) -> Schedule:
        """Returns the operations from the `first` to before the `last` one."""
        return Schedule.of(operation for _before, operation in self._done[first:last])

    def repeat(self, schedule: Schedule) -> None:
        """Notes everything that a schedule tells, for a cache that was filled by other means. Raises ValueError."""
        for operation in schedule.operations():
            if operation.kind == "cut":
                self.cut(operation.keep)
            elif operation.kind == "shift":
                self.shift(operation.keep, operation.taken)
            else:
                self.evaluate(operation.ids, operation.kind)

    def before(self, length: int) -> EvaluationLog:
        """Returns a log of what made the first `length` tokens."""
        other = EvaluationLog(forgets_cuts=self._forgets_cuts)
        other._done, other._starts = list(self._done), list(self._starts)
        other.length, other.evaluated = self.length, self.evaluated
        other.cut(length)
        return other

    def _is_beyond(self, length: int) -> bool:
        """Whether the last operation no longer shows in the first `length` tokens."""
        before, operation = self._done[-1]
        return length <= (operation.keep if operation.kind in ("cut", "shift") else before)

    def _add(self, operation: Operation) -> None:
        self._done.append((self.length, operation))
        self.length = operation.length_after(self.length)
        self.evaluated += len(operation.ids)

    def _forget_last(self) -> None:
        self.length, operation = self._done.pop()
        self.evaluated -= len(operation.ids)
