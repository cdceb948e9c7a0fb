"""How a tensor is stored elsewhere and in our model, as reversible pairs. Knows no family and no tensor's name.

Each form turns the tensors of one table row into ours and back, for NumPy arrays and torch tensors alike (only what
both offer is used, so torch is not imported). Sizes come from the `ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from runtime.config import ModelConfig

Array = Any  # np.ndarray or torch.Tensor: rows first, as in PyTorch


class Form(Protocol):
    """A reversible pair: `to_ours` reads what a file holds, `to_source` writes it.

    `rowwise` says that our rows a to b need nothing but the source's rows a to b: such a tensor may go in blocks.
    """

    @property
    def rowwise(self) -> bool: ...

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]: ...

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]: ...


@dataclass(frozen=True)
class Same:
    """The tensor is stored as we keep it."""

    rowwise: bool = True

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return list(parts)

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return list(parts)


@dataclass(frozen=True)
class AddOne:
    """A norm's weight is stored as its distance from 1."""

    rowwise: bool = True

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part + 1 for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part - 1 for part in parts]


@dataclass(frozen=True)
class Transpose:
    """A matrix is stored as (inputs, outputs); ours is (outputs, inputs)."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part.T if part.ndim == 2 else part for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return self.to_ours(parts, config)


@dataclass(frozen=True)
class PermuteRope:
    """The rows of each query or key head are stored with rotated pairs as neighbours; ours has them half a head apart.

    llama.cpp's graph for Llama turns neighbours, Hugging Face's turns entry j with j + dim/2: same model, other order.
    """

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [self._reordered(part, config, (config.head_dim // 2, 2)) for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [self._reordered(part, config, (2, config.head_dim // 2)) for part in parts]

    @staticmethod
    def _reordered(part: Array, config: ModelConfig, pairs: tuple[int, int]) -> Array:
        heads = part.shape[0] // config.head_dim
        return part.reshape(heads, *pairs, *part.shape[1:]).swapaxes(1, 2).reshape(part.shape)


@dataclass(frozen=True)
class FusedQkv:
    """Query, key and value rows lie one after the other in one tensor."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return split(parts[0], (config.n_heads * config.head_dim, *[config.n_kv_heads * config.head_dim] * 2))

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [joined(parts)]


@dataclass(frozen=True)
class FusedQkvByHead:
    """Query, key and value rows lie in one tensor head by head: those of head 0, those of head 1, and so on."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        inner = parts[0].shape[1:]
        by_head = parts[0].reshape(config.n_heads, 3, config.head_dim, *inner)
        return [by_head[:, which].reshape(-1, *inner) for which in range(3)]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        inner = parts[0].shape[1:]
        heads = [part.reshape(config.n_heads, 1, config.head_dim, *inner) for part in parts]
        return [joined(heads, axis=1).reshape(-1, *inner)]


@dataclass(frozen=True)
class FusedGateUp:
    """The gate's rows lie before the up projection's in one tensor; of stacked experts, in each of them."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        axis = parts[0].ndim - 2
        half = parts[0].shape[axis] // 2
        return split(parts[0], (half, half), axis=axis)

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [joined(parts, axis=parts[0].ndim - 2)]


@dataclass(frozen=True)
class Stack:
    """Each expert's matrix is a tensor of its own; ours is one tensor (E, …)."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [joined([part[None] for part in parts])]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [parts[0][expert] for expert in range(parts[0].shape[0])]


@dataclass(frozen=True)
class OneRow:
    """A vector is stored as a matrix of one row."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part.reshape(-1) for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part.reshape(1, -1) for part in parts]


@dataclass(frozen=True)
class WithoutOffset:
    """A table of positions is stored without the rows before position 0; ours has `position_offset` of them."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [joined((part[:1] * 0,) * config.position_offset + (part,)) for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part[config.position_offset :] for part in parts]


@dataclass(frozen=True)
class WithLogitScale:
    """The head's matrix is stored times `logit_scale`, for a program that does not scale logits."""

    rowwise: bool = True

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part / config.logit_scale for part in parts]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [part * config.logit_scale for part in parts]


@dataclass(frozen=True)
class AlsoAsHead:
    """The embedding is stored twice: as it is, and times `logit_scale` as the head of a program that scales nothing."""

    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [parts[0]]

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        return [parts[0], parts[0] * config.logit_scale]


@dataclass(frozen=True)
class Chain:
    """Several forms, the file's first."""

    steps: tuple[Form, ...]
    rowwise: bool = False

    def to_ours(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        for step in self.steps:
            parts = step.to_ours(parts, config)
        return list(parts)

    def to_source(self, parts: Sequence[Array], config: ModelConfig) -> list[Array]:
        for step in reversed(self.steps):
            parts = step.to_source(parts, config)
        return list(parts)


def split(whole: Array, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Returns consecutive views of `sizes` along `axis`. Raises ValueError when they do not add up."""
    if sum(sizes) != whole.shape[axis]:
        raise ValueError(f"{tuple(whole.shape)} does not split into {tuple(sizes)} along axis {axis}")
    ends = np.cumsum(sizes)
    before = (slice(None),) * axis
    return [whole[(*before, slice(int(end) - size, int(end)))] for size, end in zip(sizes, ends, strict=True)]


def joined(parts: Sequence[Array], axis: int = 0) -> Array:
    """Returns the parts one after the other along `axis`, as a new array or tensor of the first one's kind."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    whole = parts[0].new_empty(shape) if hasattr(parts[0], "new_empty") else np.empty(shape, parts[0].dtype)
    for place, part in zip(split(whole, [part.shape[axis] for part in parts], axis), parts, strict=True):
        place[...] = part
    return whole


SAME = Same()
ADD_ONE = AddOne()
TRANSPOSE = Transpose()
PERMUTE_ROPE = PermuteRope()
FUSED_QKV = FusedQkv()
FUSED_QKV_BY_HEAD = FusedQkvByHead()
FUSED_GATE_UP = FusedGateUp()
STACK = Stack()
ONE_ROW = OneRow()
WITHOUT_OFFSET = WithoutOffset()
WITH_LOGIT_SCALE = WithLogitScale()
ALSO_AS_HEAD = AlsoAsHead()
TRANSPOSED_QKV = Chain((TRANSPOSE, FUSED_QKV))
