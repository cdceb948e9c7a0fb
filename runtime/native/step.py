"""What all layers share during one forward pass, and what they expect of a cache and of an onlooker.

Knows no arithmetic: the pass is made by the Transformer, and read by its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

from runtime.config import Rope
from runtime.native.masks import EVERYTHING, Mask, Masks
from runtime.native.positions import CosSin

AttentionKind = Literal["encoder", "self", "cross"]


class Cache(Protocol):
    """Keys and values of the positions read so far; `KVCache` is one."""

    @property
    def length(self) -> int:
        """How many positions are stored, which is also the position of the next one."""

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Adds (B, K, T, D) and returns all kept keys and values (B, K, S, D), and the first one's position."""

    def cross(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """Returns the keys and values of the encoder's output that the layer made of it, None before it has."""

    def set_cross(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Keeps the keys and values of the encoder's output for the following passes."""


class Watch(Protocol):
    """Somebody who looks into a pass. Nothing is kept, nor worked out differently, but what is asked for."""

    def wants_attention(self, kind: AttentionKind, layer: int) -> bool:
        """Whether `attention` is to be called for this layer."""

    def attention(self, kind: AttentionKind, layer: int, weights: Tensor, first: int) -> None:
        """Gets the weights (B, H, T, S) over the keys from position `first` on."""

    def wants_hidden(self, kind: AttentionKind, layer: int) -> bool:
        """Whether `hidden` is to be called for this layer. Layer -1 is the embedding; kind is never "cross"."""

    def hidden(self, kind: AttentionKind, layer: int, x: Tensor) -> None:
        """Gets what the layer hands on (B, T, C)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over T new positions: masks, rotations, the cache, the encoder's output, and who looks on."""

    masks: Masks
    turns: Mapping[Rope, CosSin] = field(default_factory=dict)
    cache: Cache | None = None
    encoded: Tensor | None = None  # (B, S, C)
    encoded_mask: Mask = EVERYTHING
    watch: Watch | None = None
