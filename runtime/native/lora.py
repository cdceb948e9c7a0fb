"""LoRA adapters on our own Transformer: merged into its weights, or computed on the side.

    y = W x + scale · B (A x)          (Hu et al. 2021, arXiv 2106.09685)

Merged, an adapter costs nothing and cannot be taken off; on the side it can, and the weights may be quantized. Knows no
file: `runtime/adapter_weights.py` reads the matrices, the family's table says which of our weights they change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from runtime.adapter_weights import AdapterWeights, Pair, UnsupportedAdapter
from runtime.architectures.base import Architecture
from runtime.architectures.binding import Claim, canonical_names, claims_by_name
from runtime.architectures.forms import Chain, Form, Transpose
from runtime.config import ModelConfig
from runtime.lora_files import AdapterMismatch
from runtime.model_errors import clean_name
from runtime.native.linear import Slot
from runtime.native.transformer import Transformer
from runtime.text import _


@dataclass(frozen=True, slots=True)
class Change:
    """What is added to one of our weights: scale · left (outputs, rank) · right (rank, inputs)."""

    left: Tensor
    right: Tensor
    scale: float

    @property
    def whole(self) -> Tensor:
        """The whole matrix (outputs, inputs) that is added."""
        return self.scale * (self.left @ self.right)


@dataclass(frozen=True, slots=True)
class BoundAdapter:
    """An adapter by our own names: what is added to weights, and tensors that it replaces."""

    path: Path
    changes: Mapping[str, Change]
    replaced: Mapping[str, Tensor]


def bind_adapter(weights: AdapterWeights, architecture: Architecture, config: ModelConfig) -> BoundAdapter:
    """Finds the place of each of an adapter's matrices. Raises `AdapterMismatch` and `UnsupportedAdapter`."""
    if weights.kind == "gguf" and weights.architecture != architecture.gguf:
        words = _("It changes models of the architecture “{theirs}”; this one is “{ours}”.")
        theirs = clean_name(weights.architecture)
        raise AdapterMismatch(weights.path, words.format(theirs=theirs, ours=architecture.gguf))
    claims = claims_by_name(architecture, config, weights.kind)
    canonical = canonical_names(architecture, [*weights.pairs, *weights.replaced])
    changes: dict[str, Change] = {}
    replaced: dict[str, Tensor] = {}
    for name, stored in canonical.items():
        claim = _claim(weights.path, claims, name)
        if stored in weights.pairs:
            _check_not_tied(weights.path, claim, config)
            changes |= _changes(weights.path, claim, weights.pairs[stored], config)
        else:
            parts = claim.form.to_ours([torch.from_numpy(weights.replaced[stored])], config)
            replaced |= dict(zip(claim.ours, parts, strict=True))
    return BoundAdapter(weights.path, changes, replaced)


def _claim(path: Path, claims: Mapping[str, Claim], name: str) -> Claim:
    claim = claims.get(name)
    if claim is None:
        raise AdapterMismatch(path, _("It changes the matrix “{name}”, which this model does not have.").format(
            name=clean_name(name)))  # fmt: skip
    if len(claim.sources) > 1:
        raise UnsupportedAdapter(path, _("It changes the experts of a mixture, which is not supported."))
    return claim


def _check_not_tied(path: Path, claim: Claim, config: ModelConfig) -> None:
    if config.tied and claim.ours[0] in ("embedding.weight", "head.weight"):
        raise AdapterMismatch(path, _("It changes the token embedding, which this model shares with its head."))


def _changes(path: Path, claim: Claim, pair: Pair, config: ModelConfig) -> Iterator[tuple[str, Change]]:
    """Yields the change of each of our weights. Forms move rows, or flip the matrix, and B's rows move with them."""
    left, right = torch.from_numpy(pair.left), torch.from_numpy(pair.right)
    try:
        parts = claim.form.to_ours([left.T if _is_flipped(claim.form) else left], config)
    except (ValueError, RuntimeError) as error:
        raise _wrong_size(path, claim.ours[0]) from error
    for ours, part in zip(claim.ours, parts, strict=True):
        yield ours, Change(part.contiguous(), right, pair.scale)


def _is_flipped(form: Form) -> bool:
    return isinstance(form.steps[0] if isinstance(form, Chain) else form, Transpose)


# --- applying ---------------------------------------------------------------------------------------------------


def merge(model: Transformer, adapter: BoundAdapter, *, scale: float = 1.0) -> None:
    """Adds an adapter to a model's weights for good; the sum is made in f32. Raises `AdapterMismatch`."""
    slots = model.slots()
    check_places(slots, adapter)
    merge_into(slots, adapter, scale=scale)


def merge_into(slots: Mapping[str, Slot], adapter: BoundAdapter, *, scale: float = 1.0) -> None:
    """Does what `merge` does to some of a model's weights, by their names; they have been checked."""
    for name in slots.keys() & adapter.changes.keys():
        place = slots[name].tensor
        place.copy_(place.float() + scale * adapter.changes[name].whole.to(place.device))
    for name in slots.keys() & adapter.replaced.keys():
        slots[name].tensor.copy_(adapter.replaced[name])


class SideAdapter:
    """An adapter that computes beside a model until `remove`. Its matrices have the type and device of the weights.

    Raises `AdapterMismatch`. Modules that are exchanged afterwards (quantized) lose it: attach it after that.
    """

    def __init__(self, model: Transformer, adapter: BoundAdapter, *, scale: float = 1.0) -> None:
        slots = model.slots()
        check_places(slots, adapter)
        self._former = {slots[name]: slots[name].tensor.clone() for name in adapter.replaced}
        for name, tensor in adapter.replaced.items():
            slots[name].tensor.copy_(tensor)
        self._hooks = [_attach(slots[name], change, scale) for name, change in adapter.changes.items()]

    def remove(self) -> None:
        """Makes the model what it was. May be called twice."""
        for hook in self._hooks:
            hook.remove()
        for slot, tensor in self._former.items():
            slot.tensor.copy_(tensor)
        self._hooks, self._former = [], {}


def _attach(slot: Slot, change: Change, scale: float) -> RemovableHandle:
    like = slot.tensor
    left = (change.left * (scale * change.scale)).to(like.device, like.dtype)
    right = change.right.to(like.device, like.dtype)

    def add_to_linear(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        output.narrow(-1, slot.start, slot.stop - slot.start).add_(F.linear(F.linear(inputs[0], right), left))
        return output

    def add_to_embedding(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output.add_(F.embedding(inputs[0], left) @ right)

    hook = add_to_embedding if isinstance(slot.module, nn.Embedding) else add_to_linear
    return slot.module.register_forward_hook(hook)


def check_places(slots: Mapping[str, Slot], adapter: BoundAdapter) -> None:
    """Raises `AdapterMismatch` where a matrix does not fit the weights in these places."""
    shapes: dict[str, tuple[int, ...]] = {
        name: (change.left.shape[0], change.right.shape[1]) for name, change in adapter.changes.items()
    }
    shapes |= {name: tuple(tensor.shape) for name, tensor in adapter.replaced.items()}
    for name, shape in shapes.items():
        if name not in slots or tuple(slots[name].tensor.shape) != shape:
            raise _wrong_size(adapter.path, name)


def _wrong_size(path: Path, name: str) -> AdapterMismatch:
    return AdapterMismatch(path, _("Its matrices for “{name}” have other sizes than the model's.").format(name=name))
