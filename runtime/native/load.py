"""Loads a checkpoint into a Transformer: each tensor is read once, brought into our form, and put into its place.

Knows no family and no file format: the family's table says what makes what, the checkpoint reads it. Weights that are
stored as the model has them may be left in the file for a while (`lending`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.architectures.binding import Claim, bind
from runtime.architectures.reading import identify
from runtime.architectures.shapes import WrongShape
from runtime.config import ModelConfig
from runtime.engine import LoadListener, StopFlag
from runtime.model_errors import LoadStopped
from runtime.native.large_pages import LargePages
from runtime.native.lending import Lender, Lending
from runtime.native.linear import Slot, shorten_look_ups
from runtime.native.mapped import DTYPES, in_place
from runtime.native.norm import keep_norms_exact
from runtime.native.quantized import Quantizer
from runtime.native.room import raise_for_memory
from runtime.native.transformer import Transformer

_BLOCK = 4 << 20  # how many values of a large tensor are converted at a time


class Checkpoint(Lender, Protocol):
    """What loading needs of an opened model: see runtime/checkpoint.py."""

    @property
    def path(self) -> Path: ...

    def rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]: ...


class Adapting(Protocol):
    """What changes weights while they are loaded."""

    def check(self, slots: Mapping[str, Slot]) -> None:
        """Looks at the places of all weights before any has its values; may refuse."""
        ...

    def filled(self, slots: Mapping[str, Slot]) -> None:
        """Hears of weights that have got their values."""
        ...


def load_model(
    checkpoint: Checkpoint, *, dtype: str = "f32", device: str = "cpu", listener: LoadListener | None = None,
    stop: StopFlag | None = None, change: Callable[[ModelConfig], ModelConfig] | None = None,
    adapters: Adapting | None = None, lending: Lending | None = None,
) -> Transformer:  # fmt: skip
    """Returns the model of a checkpoint, ready to read, its weights in `dtype` on `device`.

    `change` may alter its description in what needs no other weights, `adapters` the weights as they come. `lending`
    may leave weights in the file for a while: not together with adapters or quantized matrices.
    `dtype` is a key of `DTYPES`, or int8 or int4: then matrices are quantized on the way, and all else is bf16.
    Raises `UnknownArchitecture`, `UnusableConfig`, `UnknownRope`, `AdapterOnly`, `MissingTensors`, `LeftoverTensors`,
    `WrongShape`; `LoadStopped` when `stop` is set or the listener says so.
    """
    architecture, config = identify(checkpoint)
    binding = bind(architecture, config, checkpoint)
    try:
        model = empty_model(change(binding.config) if change else binding.config, dtype=dtype, device=device)
    except RuntimeError as error:
        raise_for_memory(error)
    slots = model.slots()
    if adapters is not None:
        adapters.check(slots)
    quantizer = Quantizer(model, dtype) if dtype in ("int8", "int4") else None  # type: ignore[arg-type]
    for done, claim in enumerate(binding.claims):
        if (stop is not None and stop.is_set()) or (listener is not None and not listener(done / len(binding.claims))):
            raise LoadStopped(checkpoint.path)
        filled = {name: slots.pop(name) for name in claim.ours}
        if lending is None or not lending.takes(checkpoint, claim, filled, binding.config):
            _fill(checkpoint, claim, [slot.tensor for slot in filled.values()], binding.config)
        if adapters is not None:
            adapters.filled(filled)
        if quantizer is not None:
            quantizer.filled(filled.values())
    if quantizer is not None:
        quantizer.finish()
    if lending is not None:
        lending.begin()
    shorten_look_ups(model)
    return model


def empty_model(config: ModelConfig, *, dtype: str = "f32", device: str = "cpu") -> Transformer:
    """Returns a model whose matrices have their memory and no values yet; norms are kept in f32."""
    with _made_as(DTYPES.get(dtype, torch.bfloat16)), torch.device(device):
        model = Transformer(config)
    keep_norms_exact(model)
    if dtype in DTYPES:  # where matrices are quantized, theirs is only a passage
        LargePages().move(model, values=False)
    return model.eval().requires_grad_(False)


@contextmanager
def _made_as(dtype: torch.dtype) -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def _fill(checkpoint: Checkpoint, claim: Claim, places: list[Tensor], config: ModelConfig) -> None:
    if claim.form.rowwise:
        for name, place in zip(claim.sources, places, strict=True):
            _fill_rows(checkpoint, name, claim, place, config)
    else:
        parts = [_rows(checkpoint, name, None) for name in claim.sources]
        try:
            ours = claim.form.to_ours(parts, config)
        except (ValueError, RuntimeError) as error:
            shape = tuple(checkpoint.info(claim.sources[0]).shape)
            raise WrongShape(claim.sources[0], shape, tuple(places[0].shape)) from error
        for place, part in zip(places, ours, strict=True):
            _put(part, place, claim.sources[0])
    for name in claim.sources:
        checkpoint.release(name)


def _fill_rows(checkpoint: Checkpoint, name: str, claim: Claim, place: Tensor, config: ModelConfig) -> None:
    """Fills a tensor some rows at a time, so that a large table is never in memory twice."""
    shape = tuple(checkpoint.info(name).shape)
    if shape != tuple(place.shape):
        raise WrongShape(name, shape, tuple(place.shape))
    step = max(1, _BLOCK * shape[0] // max(1, place.numel()))
    for start in range(0, shape[0], step):
        block = _rows(checkpoint, name, (start, min(start + step, shape[0])))
        _put(claim.form.to_ours([block], config)[0], place[start : start + step], name)


def _put(part: Tensor, place: Tensor, name: str) -> None:
    if part.shape != place.shape:
        raise WrongShape(name, tuple(part.shape), tuple(place.shape))
    place.copy_(part)


def _rows(checkpoint: Checkpoint, name: str, rows: tuple[int, int] | None) -> Tensor:
    """Returns a tensor, or rows of it: as it lies in the file where torch has its type, in f32 otherwise."""
    info = checkpoint.info(name)
    if info.dtype in DTYPES:
        try:
            whole = in_place(checkpoint.raw(name), DTYPES[info.dtype]).view(tuple(info.shape))
        except ValueError:  # joined from several
            pass
        else:
            return whole if rows is None else whole[slice(*rows)]
    return torch.from_numpy(checkpoint.read(name) if rows is None else checkpoint.rows(name, *rows))
