"""Looks into a Transformer while it reads: where each token attends, and what each layer would say.

A pass asks its onlooker (`Watch`) before it works anything out, and what it gets is boiled down at once: one map of
attention, one entropy for each head, a few likely tokens for each layer. Nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.config import ModelForm
from runtime.engine import LoadListener, StopFlag
from runtime.evaluation import Stopped
from runtime.inspection import (
    MOST_TOKENS,
    AttentionKind,
    Guess,
    Inspection,
    InspectRequest,
    LensLayer,
    NoSuchPart,
    NothingToInspect,
    Place,
    TooLongToInspect,
)
from runtime.native.model import NativeModel
from runtime.native.stopping import stoppable
from runtime.native.transformer import Transformer
from runtime.params import LoadParams
from runtime.reading import ReadingStopped

_FORMS: tuple[ModelForm, ...] = ("decoder", "encoder", "encoder-decoder")
_KINDS: dict[ModelForm, tuple[AttentionKind, ...]] = {
    "decoder": ("self",), "encoder": ("encoder",), "encoder-decoder": ("cross", "self", "encoder")
}  # fmt: skip
_ROWS = 64  # places whose scores over the vocabulary are in memory at a time


class Inspector:
    """One model that is looked into. Not thread-safe."""

    def __init__(
        self, path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
    ) -> None:
        """Raises `UserError` where the files or the machine do not allow it."""
        self._model = NativeModel(path, params, forms=_FORMS, listener=listener, stop=stop)

    def inspect(self, request: InspectRequest, stop: StopFlag) -> Inspection:
        """Has the model read a text and tells what was asked for.

        Raises `NothingToInspect`, `TooLongToInspect`, `NoSuchPart` and `ReadingStopped`.
        """
        try:
            with torch.inference_mode(), stoppable(self._model.transformer, stop):
                return _Look(self._model, request).taken()
        except Stopped as error:
            raise ReadingStopped from error

    def close(self) -> None:
        """Frees the model. May be called twice."""
        self._model.close()


class AttentionWatch:
    """Boils attention down as it comes: one map, and the entropy of each head. Implements the half of `Watch`."""

    def __init__(
        self, kind: AttentionKind, n_layers: int, *, layer: int | None = None, head: int | None = None
    ) -> None:
        """`layer` and `head` choose what the map shows; None is the mean of all."""
        self.kind, self.n_layers, self.layer, self.head = kind, n_layers, layer, head
        self._sum: Tensor | None = None
        self._seen = 0
        self._entropy: dict[int, Tensor] = {}

    def wants_attention(self, kind: AttentionKind, layer: int) -> bool:
        return kind == self.kind

    def attention(self, kind: AttentionKind, layer: int, weights: Tensor, first: int) -> None:
        """Takes the weights (1, H, T, S) of a layer over the keys from position `first` on."""
        exact = weights[0].float()
        exact = exact / exact.sum(dim=-1, keepdim=True)  # a model in 16 bits rounds them
        self._entropy[layer] = entropy(exact).mean(dim=-1).cpu()
        if self.layer is None or layer == self.layer:
            shown = exact.mean(dim=0) if self.head is None else exact[self.head]
            self._sum = shown if self._sum is None else self._sum + shown
            self._seen += 1

    @property
    def map(self) -> NDArray[np.float32]:
        """The weights (T, S) that were chosen."""
        assert self._sum is not None, "nothing has been looked at"
        shown: NDArray[np.float32] = (self._sum / self._seen).cpu().numpy()
        return shown

    @property
    def entropies(self) -> NDArray[np.float32]:
        """The entropy (L, H) of each head, the mean over the tokens that look, in nats."""
        rows: NDArray[np.float32] = torch.stack([self._entropy[layer] for layer in range(self.n_layers)]).numpy()
        return rows


def entropy(weights: Tensor) -> Tensor:
    """Returns -sum w ln w over the last axis: 0 where one weight is 1, ln n where n are equal."""
    total: Tensor = -torch.special.xlogy(weights, weights).sum(dim=-1)
    return total


class LensWatch:
    """Reads each layer's states as if they were the last: norm, head, softmax. Keeps the likeliest few tokens."""

    def __init__(self, model: Transformer, side: AttentionKind, count: int) -> None:
        """`side` is "self" for a decoder, "encoder" for an encoder; `count` tokens are kept for each place."""
        self._model, self._side, self._count = model, side, count
        stack = model.decoder if side == "self" else model.encoder
        assert stack is not None
        self._stack = stack
        self.found: dict[int, _Likely] = {}

    def wants_hidden(self, kind: AttentionKind, layer: int) -> bool:
        return kind == self._side and self._model.config.scores_tokens

    def hidden(self, kind: AttentionKind, layer: int, x: Tensor) -> None:
        """Takes the states (1, T, C) that a layer hands on."""
        self.found[layer] = likely(self._model, self._stack.finish(x), self._count)


class _Likely(NamedTuple):
    """The likeliest tokens at each place: ids and probabilities, both (T, n), the best first."""

    ids: list[list[int]]
    probabilities: list[list[float]]


def likely(model: Transformer, states: Tensor, count: int) -> _Likely:
    """Returns the likeliest tokens by states (1, T, C) that have passed the last norm."""
    ids, probabilities = [], []
    for start in range(0, states.shape[1], _ROWS):
        best = model.logits(states[0, start : start + _ROWS]).softmax(dim=-1).topk(min(count, model.config.vocab_size))
        ids += best.indices.tolist()
        probabilities += best.values.tolist()
    return _Likely(ids, probabilities)


def probabilities_of(model: Transformer, states: Tensor, ids: Sequence[int]) -> list[float]:
    """Returns how likely states (1, T, C) that have passed the last norm make each of T tokens."""
    found: list[float] = []
    for start in range(0, len(ids), _ROWS):
        scores = model.logits(states[0, start : start + _ROWS]).log_softmax(dim=-1)
        wanted = torch.tensor(ids[start : start + _ROWS], device=scores.device)
        found += scores.gather(1, wanted[:, None])[:, 0].exp().tolist()
    return found


class Onlooker:
    """Attention and the lens in one pass. Implements `Watch`."""

    def __init__(self, attention: AttentionWatch, lens: LensWatch) -> None:
        self.wants_attention, self.attention = attention.wants_attention, attention.attention
        self.wants_hidden, self.hidden = lens.wants_hidden, lens.hidden


class _Look:
    """One look into a model. Raises what `Inspector.inspect` raises."""

    def __init__(self, model: NativeModel, request: InspectRequest) -> None:
        self._model, self._request = model, request
        self._transformer, self._vocabulary = model.transformer, model.vocabulary
        self._config = model.config
        self._kind = self._checked_kind()
        encodes = self._config.form == "encoder"
        side: AttentionKind = "encoder" if encodes else "self"
        n_layers = self._config.n_encoder_layers if self._is_sources else self._config.n_layers
        self._check_parts(n_layers)
        self._attention = AttentionWatch(self._kind, n_layers, layer=request.layer, head=request.head)
        self._lens = LensWatch(self._transformer, side, request.alternatives)
        self._watch = Onlooker(self._attention, self._lens)

    @property
    def _is_sources(self) -> bool:
        """Whether the attention that is looked at is that of the encoder of two sides."""
        return self._config.form == "encoder-decoder" and self._kind == "encoder"

    def _checked_kind(self) -> AttentionKind:
        there = _KINDS[self._config.form]
        wanted = self._request.kind or there[0]
        if wanted not in there:
            raise NoSuchPart.kind(wanted, there)
        return wanted

    def _check_parts(self, n_layers: int) -> None:
        layer, head = self._request.layer, self._request.head
        if layer is not None and not 0 <= layer < n_layers:
            raise NoSuchPart.layer(layer, n_layers)
        if head is not None and not 0 <= head < self._config.n_heads:
            raise NoSuchPart.head(head, self._config.n_heads)

    def taken(self) -> Inspection:
        """Reads, and returns what was seen."""
        if self._config.form == "encoder-decoder":
            return self._of_two_sides()
        if self._config.form == "encoder":
            return self._of_an_encoder()
        ids = self._checked(self._vocabulary.tokenize(self._request.text, special=True, add_bos=True))
        states = self._transformer.hidden(self._given(ids), watch=self._watch)
        return self._seen(ids, ids, self._written(ids, states))

    def _of_an_encoder(self) -> Inspection:
        ids = self._checked(self._vocabulary.tokenize_whole(self._request.text, special=True))
        states = self._transformer.encode(self._given(ids), watch=self._watch)
        return self._seen(ids, ids, self._guessed(ids, states))

    def _of_two_sides(self) -> Inspection:
        source = self._checked(self._vocabulary.tokenize_whole(self._request.text, special=True))
        encoded = self._transformer.encode(self._given(source), watch=self._watch if self._is_sources else None)
        target = self._checked(self._target(encoded))
        states = self._transformer.hidden(self._given(target), encoded=encoded, watch=self._watch)
        rows, columns = (source, source) if self._is_sources else (target, target)
        return self._seen(rows, source if self._kind == "cross" else columns, self._written(target, states))

    def _target(self, encoded: Tensor) -> list[int]:
        """Returns the tokens of the target: the one that was given, or what the model writes greedily."""
        ids = list(self._model.target_start)
        if self._request.target is not None:
            return ids + self._vocabulary.tokenize(self._request.target, special=True)
        for _step in range(self._request.target_tokens):
            logits = self._transformer(self._given(ids), encoded=encoded, last_only=True)
            token = int(logits[0, 0, : self._vocabulary.size].argmax())
            if self._vocabulary.ends_answer(token):
                break
            ids.append(token)
        return ids

    def _checked(self, ids: list[int]) -> list[int]:
        limit = min(MOST_TOKENS, self._model.context_length)
        if not ids:
            raise NothingToInspect
        if len(ids) > limit:
            raise TooLongToInspect(len(ids), limit)
        return ids

    def _given(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([ids], device=self._model.device)

    # --- in words -----------------------------------------------------------------------------------------------

    def _seen(self, rows: Sequence[int], columns: Sequence[int], places: tuple[Place, ...]) -> Inspection:
        lens = tuple(LensLayer(layer, self._guesses(found)) for layer, found in sorted(self._lens.found.items()))
        return Inspection(
            kind=self._kind, layer=self._request.layer, head=self._request.head, rows=self._labels(rows),
            columns=self._labels(columns), weights=self._attention.map, entropy=self._attention.entropies,
            places=places, lens=lens, notes=tuple(self._model.notes),
        )  # fmt: skip

    def _labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._vocabulary.label(token) for token in ids)

    def _written(self, ids: Sequence[int], states: Tensor) -> tuple[Place, ...]:
        """Returns the tokens of a text that was read from left to right: each is foretold by the one before it."""
        probabilities = [None, *probabilities_of(self._transformer, states[:, :-1], ids[1:])]
        before = self._guesses(likely(self._transformer, states[:, :-1], self._request.alternatives))
        return tuple(map(Place, ids, self._labels(ids), probabilities, ((), *before)))

    def _guessed(self, ids: Sequence[int], states: Tensor) -> tuple[Place, ...]:
        """Returns the tokens of a text that was read as a whole: each is guessed at its own place."""
        if not self._config.scores_tokens:
            return tuple(Place(token, label, None, ()) for token, label in zip(ids, self._labels(ids), strict=True))
        there = self._guesses(likely(self._transformer, states, self._request.alternatives))
        return tuple(map(Place, ids, self._labels(ids), probabilities_of(self._transformer, states, ids), there))

    def _guesses(self, found: _Likely) -> tuple[tuple[Guess, ...], ...]:
        return tuple(
            tuple(Guess(token, self._vocabulary.label(token), p) for token, p in zip(ids, ps, strict=True))
            for ids, ps in zip(found.ids, found.probabilities, strict=True)
        )
