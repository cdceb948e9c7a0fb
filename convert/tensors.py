"""What each tensor of the file to be is made of: taken as it lies in the source, or turned into another order first.

Gives the numbers out in blocks of rows, so that a large tensor never has to be in memory as a whole unless its form
needs all of it. Knows no file to write and no number format but f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convert.recipes import TensorSpec
from runtime.architectures.base import Architecture, Kind
from runtime.architectures.binding import Binding, Claim, placements
from runtime.architectures.forms import SAME, Form
from runtime.checkpoint import Checkpoint
from runtime.config import ModelConfig
from runtime.tensors import Bytes

F32 = NDArray[np.float32]
_BLOCK = 1 << 22  # numbers in a block: 16 MB


class Product(Protocol):
    """A tensor of the file to be. `spec.type` is what it has in a file that is not quantized."""

    @property
    def spec(self) -> TensorSpec: ...

    def blocks(self) -> Iterator[F32]:
        """Yields the numbers as matrices (rows, length of a row), in order; no block crosses an expert's border."""
        ...

    def stored(self, kind: str) -> Bytes | None:
        """Returns the tensor's bytes where the source already holds it in that type and order."""
        ...

    def release(self) -> None:
        """Lets the memory of what was read go."""
        ...


@dataclass(frozen=True)
class Stored:
    """A tensor that lies in the source as it is wanted."""

    checkpoint: Checkpoint
    name: str
    spec: TensorSpec

    def blocks(self) -> Iterator[F32]:
        shape = self.spec.shape
        row = shape[-1]
        if len(shape) == 1:
            yield self.checkpoint.read(self.name).reshape(1, row)
            return
        per_step = math.prod(shape[1:])
        step = max(1, _BLOCK // per_step) if len(shape) == 2 else 1
        for start in range(0, shape[0], step):
            block = self.checkpoint.rows(self.name, start, min(start + step, shape[0]))
            yield np.ascontiguousarray(block, np.float32).reshape(-1, row)

    def stored(self, kind: str) -> Bytes | None:
        info = self.checkpoint.info(self.name)
        return self.checkpoint.raw(self.name) if info.dtype == kind.lower() else None

    def release(self) -> None:
        self.checkpoint.release(self.name)


@dataclass(frozen=True)
class Turned:
    """A tensor that is made of others: put together, cut apart, or in another order."""

    checkpoint: Checkpoint
    claims: tuple[Claim, ...]
    form: Form  # in which the file to be holds ours
    at: int  # which of the form's tensors
    ours: tuple[str, ...]
    config: ModelConfig
    spec: TensorSpec

    def blocks(self) -> Iterator[F32]:
        whole = self.whole()
        if whole.shape != self.spec.shape:
            raise AssertionError(f"{self.spec.name} became {whole.shape} instead of {self.spec.shape}")
        experts = whole.reshape(-1, *self.spec.shape[-2:]) if len(self.spec.shape) > 2 else whole[None]
        for matrix in experts:
            rows = np.ascontiguousarray(matrix, np.float32).reshape(-1, self.spec.shape[-1])
            step = max(1, _BLOCK // rows.shape[1])
            yield from (rows[start : start + step] for start in range(0, len(rows), step))

    def whole(self) -> F32:
        """Returns the tensor in one piece."""
        sources = {name: self.checkpoint.read(name) for claim in self.claims for name in claim.sources}
        return _turned(self, sources)

    def stored(self, kind: str) -> Bytes | None:
        return None

    def release(self) -> None:
        for claim in self.claims:
            for name in claim.sources:
                self.checkpoint.release(name)


def _turned(product: Turned, sources: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    ours: dict[str, NDArray[Any]] = {}
    for claim in product.claims:
        parts = claim.form.to_ours([sources[name] for name in claim.sources], product.config)
        ours |= dict(zip(claim.ours, parts, strict=True))
    made = product.form.to_source([ours[name] for name in product.ours], product.config)
    return np.asarray(made[product.at])


@dataclass(frozen=True)
class Given:
    """A tensor that is worked out from the config, such as the divisors of a stretched rotation."""

    values: F32
    spec: TensorSpec = field(kw_only=True)

    def blocks(self) -> Iterator[F32]:
        yield np.ascontiguousarray(self.values, np.float32).reshape(-1, self.spec.shape[-1])

    def stored(self, kind: str) -> Bytes | None:
        return None

    def release(self) -> None:
        pass


def products_of(checkpoint: Checkpoint, architecture: Architecture, binding: Binding) -> list[Product]:
    """Returns what makes every tensor of a GGUF file of the model, in the table's order."""
    found = products_for(checkpoint, architecture, binding, "gguf")
    for name, values in architecture.gguf_tensors(binding.config).items():
        found.append(Given(values.astype(np.float32), spec=TensorSpec(name, values.shape)))
    return found


def products_for(
    checkpoint: Checkpoint, architecture: Architecture, binding: Binding, kind: Kind
) -> list[Product]:
    """Returns what makes the tensors that the table's rows name for that kind of file, in the table's order."""
    claim_of = {name: claim for claim in binding.claims for name in claim.ours}
    found: list[Product] = []
    for placed in placements(architecture, binding.config, kind):
        claims = tuple(dict.fromkeys(claim_of[name] for name in placed.ours))
        found += _placed_products(checkpoint, claims, placed, binding.config)
    return found


def _placed_products(
    checkpoint: Checkpoint, claims: tuple[Claim, ...], placed: Claim, config: ModelConfig
) -> Iterator[Product]:
    plain = len(claims) == 1 and len(claims[0].sources) == len(placed.sources) == 1
    if plain and claims[0].form == SAME and placed.form == SAME:
        shape = checkpoint.info(claims[0].sources[0]).shape
        yield Stored(checkpoint, claims[0].sources[0], TensorSpec(placed.sources[0], shape))
        return
    for at, name in enumerate(placed.sources):
        draft = Turned(checkpoint, claims, placed.form, at, placed.ours, config, TensorSpec(name, ()))
        yield Turned(checkpoint, claims, placed.form, at, placed.ours, config, TensorSpec(name, _shape_of(draft)))


def _shape_of(product: Turned) -> tuple[int, ...]:
    """Returns the shape that turning gives, found with arrays that take no memory of their own."""
    nothing = np.zeros((), np.int8)
    sources = {
        name: np.broadcast_to(nothing, product.checkpoint.info(name).shape)
        for claim in product.claims for name in claim.sources
    }  # fmt: skip
    return tuple(_turned(product, sources).shape)
