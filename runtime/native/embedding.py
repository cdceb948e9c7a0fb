"""Makes vectors of texts with our own Transformer: encoders such as BERT, and decoders by pooling their last states.

Texts of about the same length are read side by side. Padding stands behind them, where no real token sees it, and is
left out of the pooling: a text's vector is the one it would have alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from runtime import gguf_header
from runtime.config import ModelForm
from runtime.engine import LoadListener, StopFlag
from runtime.evaluation import Stopped
from runtime.memory import DEFAULT_CONTEXT
from runtime.native.model import NativeModel
from runtime.native.stopping import stoppable
from runtime.params import LoadParams
from runtime.reading import Embedded, EmbedRequest, Pooling, ReadingStopped, ReadProgress
from runtime.sentence_files import SentenceFiles, read_sentence_files
from runtime.vectors import Vector, checked, normalized, token_lists

_GGUF_POOLINGS: dict[int, Pooling] = {1: "mean", 2: "cls", 3: "last"}
_FORMS: tuple[ModelForm, ...] = ("encoder", "decoder", "encoder-decoder")
_TOGETHER = 4096  # tokens with their padding that are read side by side


class NativeEmbedder:
    """One model that only makes vectors; it need not be able to write. Implements `runtime.engine.Embedder`."""

    def __init__(
        self, path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
    ) -> None:
        """Raises `UserError` where the files or the machine do not allow it."""
        self._model = NativeModel(path, params, forms=_FORMS, listener=listener, stop=stop)
        self._asked = params.context_length

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        return embed(self._model, request, stop, limit=self._asked)

    def close(self) -> None:
        self._model.close()


def embed(
    model: NativeModel, request: EmbedRequest, stop: StopFlag, *, limit: int = 0
) -> Iterator[ReadProgress | Embedded]:
    """Yields progress, and `Embedded` last.

    A text has at most `limit` tokens, where 0 is what the model's files say, and what the model was trained for.
    Raises `NothingToEmbed`, `TextTooLong`, `UnsupportedModel`, `ReadingStopped`, `InvalidNumbers`.
    """
    said = _said(model)
    if request.pooling == "auto":
        said.require_known(model.path)
    wanted = said.pooling if request.pooling == "auto" else request.pooling
    pooling: Pooling = "mean" if wanted == "auto" else wanted
    limit = min(limit or said.max_tokens or DEFAULT_CONTEXT, model.config.context_length)
    texts, cuts = token_lists(model.vocabulary, request, limit)
    finish = normalized if request.normalize else checked
    vectors: dict[int, Vector] = {}
    done, total = 0, sum(map(len, texts))
    yield ReadProgress(done=0, total=total)
    for pack in packs_of(texts):
        for at, vector in zip(pack, _vectors(model, [texts[at] for at in pack], pooling, stop), strict=True):
            vectors[at] = finish(vector)
        done += sum(len(texts[at]) for at in pack)
        yield ReadProgress(done=done, total=total)
    yield Embedded(
        vectors=tuple(vectors[at] for at in range(len(texts))), tokens=tuple(map(len, texts)), pooling=pooling,
        notes=(*model.notes, *cuts),
    )  # fmt: skip


def _said(model: NativeModel) -> SentenceFiles:
    """Returns what the model's files say about its vectors."""
    if model.path.is_dir():
        return read_sentence_files(model.path)
    number = gguf_header.read_header(model.path).number("pooling_type")
    return SentenceFiles(_GGUF_POOLINGS.get(int(number), "auto"))


def packs_of(texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yields the places of texts that are read side by side, from short to long; a long one goes alone."""
    pack: list[int] = []
    for at in sorted(range(len(texts)), key=lambda at: len(texts[at])):
        if pack and len(texts[at]) * (len(pack) + 1) > _TOGETHER:
            yield pack
            pack = []
        pack.append(at)
    if pack:
        yield pack


def _vectors(model: NativeModel, texts: Sequence[Sequence[int]], pooling: Pooling, stop: StopFlag) -> list[Vector]:
    """Returns the vectors of texts that are read side by side. Raises `ReadingStopped`."""
    ids, mask = padded(texts, device=model.device)
    try:
        with torch.inference_mode(), stoppable(model.transformer, stop):
            states = _states(model, ids, mask)
    except Stopped as error:
        raise ReadingStopped from error
    return [tuple(vector) for vector in POOLINGS[pooling](states.float(), mask).tolist()]


def padded(texts: Sequence[Sequence[int]], *, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Returns ids (B, T), filled up behind each text, and a mask (B, T) that is True at real tokens."""
    longest = max(map(len, texts))
    ids = [[*text, *[0] * (longest - len(text))] for text in texts]
    mask = [[True] * len(text) + [False] * (longest - len(text)) for text in texts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _states(model: NativeModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Returns the last states (B, T, C): an encoder's where there is one."""
    if model.config.form == "decoder":
        return model.transformer.hidden(ids)  # no token looks ahead, so none sees the padding
    return model.transformer.encode(ids, None if bool(mask.all()) else mask)


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(dim=1) / real.sum(dim=1)


def _first(states: Tensor, mask: Tensor) -> Tensor:
    return states[torch.arange(len(states), device=states.device), mask.int().argmax(dim=1)]


def _last(states: Tensor, mask: Tensor) -> Tensor:
    return states[torch.arange(len(states), device=states.device), mask.shape[1] - 1 - mask.int().flip(1).argmax(dim=1)]


# How states (B, T, C) become vectors (B, C); the mask (B, T) is True at real tokens, padding on either side.
POOLINGS: dict[Pooling, Callable[[Tensor, Tensor], Tensor]] = {"mean": _mean, "cls": _first, "last": _last}
