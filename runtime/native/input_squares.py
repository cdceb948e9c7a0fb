"""Gathers the squares of what flows into a model's matrices, summed per column, while texts are read.

That is what an importance matrix is made of: columns that get large inputs need exact weights. Keeps sums, never
inputs, so that memory stays as it is however long the text. Knows no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from runtime.architectures.base import Architecture
from runtime.architectures.reading import identify
from runtime.checkpoint import open_checkpoint
from runtime.config import ModelConfig
from runtime.engine import LoadListener, StopFlag
from runtime.native.feed_forward import ExpertLinear
from runtime.native.linear import Linear
from runtime.native.model import NativeModel
from runtime.native.transformer import Transformer
from runtime.params import LoadParams


class Squares(NamedTuple):
    """Of one matrix: sums of squared inputs (matrices, columns), and how many inputs (matrices); one per expert."""

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]


class _Gathered:
    """The sums of one module."""

    def __init__(self, module: nn.Module) -> None:
        weight = module.weight
        assert isinstance(weight, Tensor)
        matrices = weight.shape[0] if isinstance(module, ExpertLinear) else 1
        self.sums = torch.zeros(matrices, weight.shape[-1], dtype=torch.float64)
        self.counts = [0] * matrices

    def add(self, x: Tensor, expert: int = 0) -> None:
        rows = x.detach().reshape(-1, x.shape[-1]).float()
        self.sums[expert] += rows.square().cpu().sum(dim=0, dtype=torch.float64)  # not every device has f64
        self.counts[expert] += len(rows)


class SquareReader:
    """A loaded model that is read with, and what flowed into the matrices of its layers."""

    def __init__(
        self, path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
    ) -> None:
        """Raises what loading a model raises."""
        self._model = NativeModel(path, params, forms=("decoder", "encoder"), listener=listener, stop=stop)
        with open_checkpoint(path) as checkpoint:
            self._architecture, _config = identify(checkpoint)
        self._gathered = {name: _Gathered(module) for name, module in _matrices(self._model.transformer).items()}

    @property
    def context_length(self) -> int:
        """How many tokens the model may be given at once."""
        return self._model.context_length

    def tokenize(self, text: str) -> list[int]:
        """Returns ids of plain text."""
        return self._model.vocabulary.tokenize(text)

    def begin_marks(self) -> list[int]:
        """Returns the ids that the model wants before any text."""
        return self._model.vocabulary.tokenize("", add_bos=True)

    def read(self, ids: Sequence[int]) -> None:
        """Reads tokens from an empty memory and adds what flowed in."""
        model = self._model.transformer
        tokens = torch.tensor([list(ids)], device=self._model.device)
        with torch.inference_mode(), _watched(model, self._gathered):
            if model.decoder is None:
                model.encode(tokens)
            else:
                model.hidden(tokens)

    def squares(self) -> dict[str, Squares]:
        """Returns what was gathered, by the names that the tensors have in a GGUF file."""
        ours = {name: Squares(each.sums.numpy(), np.array(each.counts)) for name, each in self._gathered.items()}
        return dict(_gguf_names(self._architecture, self._model.config, ours))

    def close(self) -> None:
        """Frees the model. May be called twice."""
        self._model.close()


def _matrices(model: Transformer) -> dict[str, nn.Module]:
    """Returns the modules of the layers that multiply, by the names of our weights; parts of one share it."""
    multiplying = (Linear, ExpertLinear)
    return {
        name: slot.module for name, slot in model.slots().items()
        if slot.parameter == "weight" and isinstance(slot.module, multiplying) and slot.module is not model.head
    }  # fmt: skip


@contextmanager
def _watched(model: Transformer, gathered: Mapping[str, _Gathered]) -> Iterator[None]:
    """While entered, every matrix adds its inputs; parts of one matrix get the same."""
    by_module: dict[nn.Module, list[_Gathered]] = {}
    for name, module in _matrices(model).items():
        by_module.setdefault(module, []).append(gathered[name])
    handles = [module.register_forward_pre_hook(partial(_add, sums)) for module, sums in by_module.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _add(sums: Sequence[_Gathered], _module: nn.Module, inputs: tuple[Any, ...]) -> None:
    for each in sums:
        each.add(*inputs)


def _gguf_names(
    architecture: Architecture, config: ModelConfig, ours: Mapping[str, Squares]
) -> Iterator[tuple[str, Squares]]:
    for row, layer in architecture.rows(config):
        found = ours.get(row.our_names[0].format(i=layer))
        if found is not None:
            for name in row.names("gguf"):
                yield name.format(i=layer), found
