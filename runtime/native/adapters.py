"""Puts the LoRA adapters of a setting to work on a model while it is loaded, and after. Reads their files' matrices.

In f32 they are added to the weights, which then cost nothing. In 16 bits a small change would be lost in the rounding
of the sum, so there they compute beside the weights; matrices that are quantized take them in before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from runtime.adapter_weights import read_adapter_weights
from runtime.adapters import read_adapter
from runtime.architectures.base import Architecture
from runtime.config import ModelConfig
from runtime.lora_files import AdapterMissing
from runtime.model_errors import clean_name
from runtime.model_files import stamps_of
from runtime.native.linear import Slot
from runtime.native.lora import BoundAdapter, SideAdapter, bind_adapter, check_places, merge_into
from runtime.native.transformer import Transformer
from runtime.places import shown_path


class Adapters:
    """The adapters of one model, those with a scale of 0 left out."""

    def __init__(self, written: Iterable[str], architecture: Architecture, config: ModelConfig, *, dtype: str) -> None:
        """Raises `BadAdapter`, `AdapterMissing`, `AdapterMismatch`, and what reading an adapter raises."""
        chosen = [each for each in map(read_adapter, written) if each.scale]
        self.stamps = tuple((str(each.path), each.scale, stamps_of(each.path)) for each in chosen)  # before it is read
        self._bound = [(_bound(each.path, architecture, config), each.scale) for each in chosen]
        self._beside = dtype in ("bf16", "f16")
        self._attached: list[SideAdapter] = []

    @property
    def words(self) -> tuple[str, ...]:
        """Each adapter with its scale, to be shown."""
        return tuple(f"{clean_name(shown_path(Path(each.path.name)))} × {scale:g}" for each, scale in self._bound)

    def check(self, slots: Mapping[str, Slot]) -> None:
        """Raises `AdapterMismatch` where an adapter does not fit the model whose weights lie in these places."""
        for adapter, _scale in self._bound:
            check_places(slots, adapter)

    def filled(self, slots: Mapping[str, Slot]) -> None:
        """Hears of weights that have got their values, by their names."""
        if not self._beside:
            for adapter, scale in self._bound:
                merge_into(slots, adapter, scale=scale)

    def finish(self, model: Transformer) -> None:
        """Attaches what computes beside the weights."""
        if self._beside:
            self._attached = [SideAdapter(model, adapter, scale=scale) for adapter, scale in self._bound]


def _bound(path: Path, architecture: Architecture, config: ModelConfig) -> BoundAdapter:
    if not path.exists():
        raise AdapterMissing(path)
    return bind_adapter(read_adapter_weights(path), architecture, config)
