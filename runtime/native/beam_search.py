"""Beam search: keeps the likeliest beginnings of a text at every length, and returns the best texts found.

A finished text's score is its log-probability over its length to the power of the length penalty (Wu et al. 2016,
arXiv:1609.08144, in the simple form of transformers):

    score = (sum over its tokens of ln p) / n ^ length_penalty        n counts the new tokens, the end included

Log-probabilities are negative: a penalty above 0 favours long texts, below 0 short ones. Knows no text and no chance.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from runtime.beams import BeamParams
from runtime.engine import StopFlag
from runtime.logits import require_numbers


class Hypothesis(NamedTuple):
    """A text of new tokens with its log-probability and its score. A finished one ends with its one end token."""

    ids: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool


class Beams(Protocol):
    """A model that reads several texts side by side; it has read the prompt as one text."""

    def reorder(self, rows: Tensor) -> None:
        """Makes text i go on from text rows[i]; there are len(rows) texts from now on."""
        ...

    def step(self, ids: Tensor) -> Tensor:
        """Reads one more token (B,) of each text and returns the logits (B, V) of the next ones."""
        ...


def beam_search(
    first: Tensor, model: Beams, *, params: BeamParams, ends: Collection[int], given: int = 0,
    stop: StopFlag | None = None,
) -> list[Hypothesis]:
    """Returns the `n_best` best texts, the best first; `first` are the logits (V,) behind the prompt.

    `given` tokens of the text were not chosen and stand before it: they count in its length only.
    Where `max_tokens` is reached or `stop` is set, running texts count as they are. With one beam it is a greedy
    search. Raises `InvalidNumbers` where logits are no numbers, and `ValueError` for less than one beam or token.
    """
    if min(params.beams, params.n_best, params.max_tokens) < 1:
        raise ValueError("a beam search has at least one beam, one result and one token")
    search = _Search(params, frozenset(ends), given)
    search.advance(first[None])
    while not search.done and not (stop is not None and stop.is_set()):
        model.reorder(search.parents)
        search.advance(model.step(search.last))
    return search.best()


class _Running(NamedTuple):
    """A beginning of a text, and the place of the text it goes on from."""

    ids: tuple[int, ...]
    log_probability: float
    parent: int


class _Search:
    """The running and the finished texts, both the best first."""

    def __init__(self, params: BeamParams, ends: frozenset[int], given: int) -> None:
        self._params = params
        self._given = given
        self._ends = ends
        self._running = [_Running((), 0.0, 0)]
        self._finished: list[Hypothesis] = []
        self.done = False

    @property
    def parents(self) -> Tensor:
        """For each running text, the place (B,) of the one it goes on from."""
        return torch.tensor([text.parent for text in self._running])

    @property
    def last(self) -> Tensor:
        """Each running text's last token (B,)."""
        return torch.tensor([text.ids[-1] for text in self._running])

    def advance(self, logits: Tensor) -> None:
        """Goes on by one token with the logits (B, V) behind each running text."""
        require_numbers(logits.amax(1))
        running: list[_Running] = []
        for rank, text in enumerate(self._candidates(logits)):
            if text.ids[-1] not in self._ends:
                running.append(text)
            elif rank < self._params.beams:  # those further down only take the place of texts that ended
                self._finish(text, finished=True)
        self._running = running[: self._params.beams]
        self.done = not self._running or self._length == self._params.max_tokens or self._settled()

    def best(self) -> list[Hypothesis]:
        """Returns the best texts; running ones count where the search was cut off."""
        cut_off = not self._settled()
        for text in self._running if cut_off else ():
            self._finish(text, finished=False)
        return self._finished[: self._params.n_best]

    def _candidates(self, logits: Tensor) -> list[_Running]:
        """Returns the likeliest continuations, enough of them to fill all beams whatever ends."""
        before = torch.tensor([text.log_probability for text in self._running], device=logits.device)
        sums = before[:, None] + torch.log_softmax(logits.float(), 1)
        count = min(self._params.beams * (1 + len(self._ends)), sums.numel())
        values, places = (found.tolist() for found in sums.flatten().topk(count))
        pairs = [(value, *divmod(place, sums.shape[1])) for value, place in zip(values, places, strict=True)]
        return [_Running((*self._running[row].ids, token), value, row) for value, row, token in pairs if value > -1e30]

    def _finish(self, text: _Running, *, finished: bool) -> None:
        score = self._score(text.log_probability, len(text.ids))
        self._finished.append(Hypothesis(text.ids, text.log_probability, score, finished))
        self._finished.sort(key=lambda each: -each.score)
        del self._finished[max(self._params.beams, self._params.n_best) :]

    def _score(self, log_probability: float, length: int) -> float:
        return float(log_probability / (length + self._given) ** self._params.length_penalty)

    @property
    def _length(self) -> int:
        return len(self._running[0].ids)

    def _settled(self) -> bool:
        """Whether nothing that still runs is worth waiting for."""
        if not self._running:
            return True
        if len(self._finished) < self._params.beams:
            return False
        if self._params.early_stopping == "true":
            return True
        # Sums only fall: with a penalty above 0 the longest text has the best chance, else the shortest.
        longest = self._params.early_stopping == "never" and self._params.length_penalty > 0
        length = self._params.max_tokens if longest else self._length
        hoped = self._score(self._running[0].log_probability, length)
        return self._finished[self._params.beams - 1].score >= hoped
