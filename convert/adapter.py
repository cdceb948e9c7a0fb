"""Plans the GGUF file of a LoRA adapter that lies in a PEFT folder. Needs its model's settings, not its weights.

llama.cpp reads pairs of matrices, `NAME.lora_a` (rank, inputs) and `NAME.lora_b` (outputs, rank), and adds their
product B A to the weights NAME. Rows of B move as the rows of the weights do on their way into the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convert.gguf_file import KeyValue, TensorEntry, f32, layout, string
from convert.metadata import require_graph
from convert.options import ConvertOptions
from convert.plan import Origin, Plan
from convert.recipes import FLOATS, Choice, ModelFacts, TensorSpec, recipe_named
from convert.tensors import Given
from runtime.adapter_weights import Pair, UnsupportedAdapter, read_adapter_weights
from runtime.architectures.base import Architecture
from runtime.architectures.binding import Claim, canonical_names, claims_by_name, placements
from runtime.architectures.forms import Chain, Form, Transpose
from runtime.architectures.reading import identify
from runtime.architectures.shapes import shape_of
from runtime.checkpoint import open_checkpoint
from runtime.config import ModelConfig
from runtime.config_files import read_object
from runtime.errors import UserError
from runtime.folder_checkpoint import find_weights
from runtime.lora_files import AdapterMismatch
from runtime.model_errors import clean_name
from runtime.tensors import F32
from runtime.text import _

_CONFIG = "adapter_config.json"
_EMBEDDING = "token_embd.weight"


class BaseNeeded(UserError):
    """An adapter whose model is not at hand."""

    code = "base_needed"

    def __init__(self, base: str) -> None:
        super().__init__(
            _("The model that the adapter was made for is needed."),
            _("It names {base}, which is not on this computer.").format(base=clean_name(base)) if base else
            _("It does not name its model."),
            _("Name the model's folder with --base."),
        )  # fmt: skip


class NotForAdapters(UserError):
    """A type that adapters are not written in."""

    code = "not_for_adapters"

    def __init__(self, kind: str) -> None:
        super().__init__(
            _("An adapter is not written as {type}.").format(type=kind),
            _("Its matrices are small and F32, F16 or BF16."),
            _("Choose one of these types, or merge the adapter into its model with --lora."),
        )


@dataclass(frozen=True)
class _Half:
    """The change of one of our weights: left (outputs, rank) · right (rank, inputs) · scale."""

    left: F32
    right: F32
    scale: float


def is_adapter(source: Path) -> bool:
    """Whether a folder holds an adapter and no model."""
    if not (source / _CONFIG).is_file():
        return False
    try:
        find_weights(source)
    except UserError:
        return True
    return False


def plan_adapter(options: ConvertOptions) -> Plan:
    """Returns the plan.

    Raises `BaseNeeded`, `NotForAdapters`, `AdapterMismatch`, `UnsupportedAdapter` and `NoGraph`.
    """
    recipe = recipe_named(options.recipe)
    if recipe not in FLOATS:
        raise NotForAdapters(recipe)
    weights = read_adapter_weights(options.source)
    if weights.replaced:
        words = _("It replaces “{name}” as a whole, which a GGUF adapter cannot; merge it into its model with --lora.")
        raise UnsupportedAdapter(options.source, words.format(name=clean_name(next(iter(weights.replaced)))))
    with open_checkpoint(_base_of(options), threads=1) as base:
        architecture, config = identify(base)
    require_graph(architecture, config)
    halves = _halves(options.source, weights.pairs, architecture, config)
    products = [
        Given(values, spec=TensorSpec(name, values.shape))
        for name, values in _tensors(options.source, halves, architecture, config)
    ]
    keys: dict[str, KeyValue] = {
        "general.architecture": string(architecture.gguf), "general.type": string("adapter"),
        "general.name": string(options.source.resolve().name), "adapter.type": string("lora"),
        "adapter.lora.alpha": f32(0.0),  # the factors lie in the matrices B
    }  # fmt: skip
    choices = tuple(Choice(product.spec, recipe) for product in products)
    entries = [TensorEntry(product.spec.name, product.spec.shape, recipe) for product in products]
    return Plan(
        keys, choices, tuple(products), (layout(keys, entries),), (),
        ModelFacts(architecture.gguf, config.n_layers, config.n_heads, config.n_kv_heads, config.n_experts),
        Origin(keys, ()),
    )  # fmt: skip


def _base_of(options: ConvertOptions) -> Path:
    if options.base is not None:
        return options.base
    said = read_object(options.source / _CONFIG).get("base_model_name_or_path")
    named = Path(said).expanduser() if isinstance(said, str) and said else None
    for place in (named, options.source / named) if named is not None else ():
        if (place / "config.json").is_file():
            return place
    raise BaseNeeded(said if isinstance(said, str) else "")


def _halves(
    path: Path, pairs: Mapping[str, Pair], architecture: Architecture, config: ModelConfig
) -> dict[str, _Half]:
    """Returns the changes by our names."""
    claims = claims_by_name(architecture, config, "folder")
    found: dict[str, _Half] = {}
    for name, stored in canonical_names(architecture, pairs).items():
        claim = claims.get(name)
        if claim is None:
            raise AdapterMismatch(path, _("It changes the matrix “{name}”, which this model does not have.").format(
                name=clean_name(name)))  # fmt: skip
        if len(claim.sources) > 1:
            raise UnsupportedAdapter(path, _("It changes the experts of a mixture, which is not supported."))
        if config.tied and claim.ours[0] in ("embedding.weight", "head.weight"):
            raise AdapterMismatch(path, _("It changes the token embedding, which this model shares with its head."))
        found |= _parts(path, claim, pairs[stored], config)
    return found


def _parts(path: Path, claim: Claim, pair: Pair, config: ModelConfig) -> Iterator[tuple[str, _Half]]:
    flipped = isinstance(_first(claim.form), Transpose)
    try:
        parts = claim.form.to_ours([pair.left.T if flipped else pair.left], config)
    except ValueError as error:
        raise _other_size(path, claim.ours[0]) from error
    for ours, part in zip(claim.ours, parts, strict=True):
        if shape_of(ours, config) not in (None, (part.shape[0], pair.right.shape[1])):
            raise _other_size(path, ours)
        yield ours, _Half(np.ascontiguousarray(part), pair.right, pair.scale)


def _other_size(path: Path, name: str) -> AdapterMismatch:
    words = _("Its matrices for “{name}” have other sizes than the model's.")
    return AdapterMismatch(path, words.format(name=name))


def _first(form: Form) -> Form:
    return form.steps[0] if isinstance(form, Chain) else form


def _tensors(
    path: Path, halves: Mapping[str, _Half], architecture: Architecture, config: ModelConfig
) -> Iterator[tuple[str, F32]]:
    """Yields the file's tensors."""
    for placed in placements(architecture, config, "gguf"):
        changed = [halves[ours] for ours in placed.ours if ours in halves]
        if not changed:
            continue
        if len(placed.sources) > 1 or len(changed) < len(placed.ours):
            words = _("It changes a part of “{name}”, which llama.cpp changes as a whole; merge it with --lora.")
            raise UnsupportedAdapter(path, words.format(name=placed.sources[0]))
        left, right = _joined(changed, placed.form, config)
        name = placed.sources[0]
        first, second = (left, right.T) if name == _EMBEDDING else (right, left)
        yield f"{name}.lora_a", np.ascontiguousarray(first)
        yield f"{name}.lora_b", np.ascontiguousarray(second)


def _joined(changed: Sequence[_Half], form: Form, config: ModelConfig) -> tuple[F32, F32]:
    """Returns B and A of a tensor that holds several of ours: with one A for all, or each in ranks of its own."""
    lefts = [half.left * np.float32(half.scale) for half in changed]
    if all(half.right is changed[0].right for half in changed):
        return form.to_source(lefts, config)[0], changed[0].right
    ranks = [len(half.right) for half in changed]
    starts = np.cumsum([0, *ranks])
    wide = [np.zeros((len(left), sum(ranks)), np.float32) for left in lefts]
    for left, place, start in zip(lefts, wide, starts, strict=False):
        place[:, start : start + left.shape[1]] = left
    return form.to_source(wide, config)[0], np.concatenate([half.right for half in changed])
