"""Matrices: the product of each with a vector or many, and matrices that are stored as one and named as several.

Query, key and value are one matrix, gate and up another: one large product is faster than three small ones. `slots`
finds each part again under its own name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# for one vector, the matrix-vector kernels read bf16 weights 1.5 times as fast as the general ones, f32 as fast
_BY_VECTOR = (torch.bfloat16, torch.float32)


def project(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x Wᵀ + b: (…, inputs) → (…, outputs)."""
    if x.numel() == weight.shape[1] and weight.is_cpu and weight.dtype in _BY_VECTOR:
        row = x.reshape(-1)
        out = torch.mv(weight, row) if bias is None else torch.addmv(bias, weight, row)
        return out.view(*x.shape[:-1], -1)
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """x Wᵀ + b.

    As long as `lent` is not empty, the rows of W lie there, in pieces one below the other; see `lending`.
    """

    lent: tuple[Tensor, ...] = ()

    def reset_parameters(self) -> None:
        """Leaves the weights without values: they are loaded."""

    def forward(self, x: Tensor) -> Tensor:
        lent = self.lent  # looked at once: another thread may end it
        return project(x, _whole(lent) if lent else self.weight, self.bias)

    def product(self) -> Callable[[Tensor], Tensor]:
        """Returns a function of one vector, (inputs) → (outputs), that gives what the layer gives."""
        if self.lent:
            return self
        weight, bias = self.weight, self.bias
        if not weight.is_cpu or weight.dtype not in _BY_VECTOR:
            return lambda x: project(x.view(1, 1, -1), weight, bias).view(-1)
        return partial(torch.mv, weight) if bias is None else partial(torch.addmv, bias, weight)


def _whole(pieces: tuple[Tensor, ...]) -> Tensor:
    """Returns a matrix of pieces: multiplied one by one, they would not give the same to the last bit."""
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


class FusedLinear(Linear):
    """Linear layers that read the same input, as one: its rows are those of the parts, in their order."""

    def __init__(self, inputs: int, parts: Mapping[str, int], *, bias: bool) -> None:
        super().__init__(inputs, sum(parts.values()), bias=bias)
        self.parts = dict(parts)


class Embedding(nn.Embedding):
    """A vector for each token: ids (…) → (…, C). As a head, the score of each token: (…, C) → (…, rows).

    It may be lent like `Linear`, in one piece. `moving` is held while the vectors are moved: whoever read all of them
    meanwhile would fetch from the file again what had just been let go.
    """

    lent: tuple[Tensor, ...] = ()

    def __init__(self, rows: int, columns: int) -> None:
        """Leaves the vectors without values: they are loaded."""
        super().__init__(rows, columns, _weight=torch.empty(rows, columns))
        self.moving = threading.Lock()

    def forward(self, ids: Tensor) -> Tensor:
        lent = self.lent
        return F.embedding(ids, lent[0] if lent else self.weight)

    def scores(self, x: Tensor) -> Tensor:
        """Returns the product of x with every vector."""
        if not self.lent:
            return project(x, self.weight)
        with self.moving:
            lent = self.lent
            return project(x, lent[0] if lent else self.weight)


def shorten_look_ups(model: nn.Module) -> None:
    """Lets Python find the modules of a finished model like any other attribute.

    torch keeps them in a dictionary of its own, where Python looks last: 0.4 µs each, and a token passes 500 of them.
    A module that is exchanged is found the longer way again.
    """
    for module in model.modules():
        vars(module).update(module._modules)


class Slot(NamedTuple):
    """Where a named tensor lies: rows `start` to `stop` along axis `dim` of a module's parameter."""

    module: nn.Module
    parameter: str
    start: int
    stop: int
    dim: int = 0

    @property
    def tensor(self) -> Tensor:
        """The tensor itself: writing to it changes the model."""
        whole: Tensor = getattr(self.module, self.parameter)
        return whole.detach().narrow(self.dim, self.start, self.stop - self.start)


def slots(model: nn.Module) -> dict[str, Slot]:
    """Returns where every weight of the model lies, by the name that the families' tables use."""
    return dict(_slots(model))


def _slots(model: nn.Module) -> Iterator[tuple[str, Slot]]:
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            parts: Mapping[str, int] | None = getattr(module, "parts", None)
            if parts is None:
                yield f"{path}.{name}" if path else name, Slot(module, name, 0, parameter.shape[0])
            else:
                yield from _parts(path.rpartition(".")[0], module, name, parts)


def _parts(parent: str, module: nn.Module, parameter: str, parts: Mapping[str, int]) -> Iterator[tuple[str, Slot]]:
    start = 0
    for part, size in parts.items():
        yield f"{parent}.{part}.{parameter}", Slot(module, parameter, start, start + size, getattr(module, "axis", 0))
        start += size
