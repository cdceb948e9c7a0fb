"""Drafts from what the text has said before: where the last tokens stood already, what followed them then.

After Saxena, "Prompt lookup decoding", 2023. Knows no model; looking up and adding cost the same however long the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.drafts import Guess

_PLACES = 32  # earlier places looked at, the latest first
_LONGEST = 24  # a longer match than this is not told from this one


class NgramDrafter:
    """An index of every run of `size` tokens in one text. Implements `runtime.drafts.Drafter`."""

    behind = 0

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}  # a run of tokens: the position behind it, the latest one
        self._before: list[int] = [-1]  # for each position: the earlier one behind the same run, or -1

    def begin(self, ids: Sequence[int]) -> None:
        known = len(self._ids)
        if self._ids != list(ids[:known]):
            self._ids, self._latest, self._before, known = [], {}, [-1], 0
        for token in ids[known:]:
            self.add(token)

    def add(self, token: int) -> None:
        self._ids.append(token)
        end = len(self._ids)
        run = tuple(self._ids[-self._size :]) if end >= self._size else None
        self._before.append(-1 if run is None else self._latest.get(run, -1))
        if run is not None:
            self._latest[run] = end

    def catch_up(self) -> None:
        """There is nothing to read."""

    def guesses(self) -> Iterator[Guess]:
        """Yields what followed the longest match; a text that repeats itself up to its end is taken to go on so."""
        start, length = self._longest_match()
        made: list[int] = []
        while length:
            at = start + len(made)
            token = self._ids[at] if at < len(self._ids) else made[at - len(self._ids)]
            grade = min(length + len(made), _LONGEST)
            made.append(token)
            yield Guess(token, grade, grade / (grade + 1))

    def _longest_match(self) -> tuple[int, int]:
        """Returns the position behind the longest earlier run like the last one, and its length; (0, 0) for none."""
        found, longest = 0, 0
        place = self._before[-1]
        for _attempt in range(_PLACES):
            if place < 0 or longest >= _LONGEST:
                break
            length = self._match_length(place)
            if length > longest:
                found, longest = place, length
            place = self._before[place]
        return found, longest

    def _match_length(self, place: int) -> int:
        ids, end, length = self._ids, len(self._ids), self._size
        while length < min(place, _LONGEST) and ids[place - length - 1] == ids[end - length - 1]:
            length += 1
        return length
