"""What each tensor of the file to be is made of: taken as it lies in the source, or turned into another order first.

Gives the numbers out in blocks of rows, so that a large tensor never has to be in memory as a whole unless its form
needs all of it. Knows no file to write and no number format but f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convert.recipes import TensorSpec
from runtime.architectures.base import Architecture, TensorRow
from runtime.architectures.binding import Binding, Claim
from runtime.architectures.forms import SAME
from runtime.checkpoint import Checkpoint
from runtime.config import ModelConfig
from runtime.tensors import Bytes

F32 = NDArray[np.float32]
_BLOCK = 1 << 23  # numbers in a block: 32 MB


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
    row: TensorRow
    at: int  # which of the row's tensors
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
    made = product.row.gguf_form.to_source([ours[name] for name in product.ours], product.config)
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
    config = binding.config
    claim_of = {name: claim for claim in binding.claims for name in claim.ours}
    found: list[Product] = []
    done: set[str] = set()
    for row, layer in architecture.rows(config):
        names = [name.format(i=layer) for name in row.names("gguf")]
        ours = tuple(name.format(i=layer) for name in row.our_names)
        if not names or done.issuperset(ours):
            continue
        done.update(ours)
        claims = tuple(dict.fromkeys(claim_of[name] for name in ours))
        found += _row_products(checkpoint, claims, row, names, ours, config)
    for name, values in architecture.gguf_tensors(config).items():
        found.append(Given(values.astype(np.float32), spec=TensorSpec(name, values.shape)))
    return found


def _row_products(
    checkpoint: Checkpoint, claims: tuple[Claim, ...], row: TensorRow, names: Sequence[str], ours: tuple[str, ...],
    config: ModelConfig,
) -> Iterator[Product]:  # fmt: skip
    plain = len(claims) == 1 and len(claims[0].sources) == len(names) == 1
    if plain and not _reorders(claims[0], row):
        shape = checkpoint.info(claims[0].sources[0]).shape
        yield Stored(checkpoint, claims[0].sources[0], TensorSpec(names[0], shape))
        return
    for at, name in enumerate(names):
        draft = Turned(checkpoint, claims, row, at, ours, config, TensorSpec(name, ()))
        yield Turned(checkpoint, claims, row, at, ours, config, TensorSpec(name, _shape_of(draft)))


def _reorders(claim: Claim, row: TensorRow) -> bool:
    """Whether anything has to happen to the numbers on their way."""
    return not (claim.form == SAME and row.gguf_form == SAME)


def _shape_of(product: Turned) -> tuple[int, ...]:
    """Returns the shape that turning gives, found with arrays that take no memory of their own."""
    nothing = np.zeros((), np.int8)
    sources = {
        name: np.broadcast_to(nothing, product.checkpoint.info(name).shape)
        for claim in product.claims for name in claim.sources
    }  # fmt: skip
    return tuple(_turned(product, sources).shape)
