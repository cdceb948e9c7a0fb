"""What is told of a conversion before it begins: the file to be, and whether there is room and memory for it."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from convert.export_hf import FolderPlan
from convert.gguf_file import Scalar
from convert.merging import adapters_of
from convert.options import ConvertOptions
from convert.plan import Plan
from convert.recipes import FLOATS, Choice
from runtime import memory
from runtime.checkpoint import Checkpoint
from runtime.gguf_header import split_parts

_BASE_MEMORY = 200 << 20  # bytes, besides what the largest tensor takes


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What will be written, and what there is for it. `types` says how many tensors have each type; sizes are bytes.

    `disk_needed` counts everything that lies on the disk at once, `memory_needed` what converting takes at most.
    """

    target: str
    files: int
    type: str
    architecture: str
    tokenizer: str
    chat_template: bool
    n_tensors: int
    n_params: int
    size_bytes: int
    source_bytes: int
    bits_per_weight: float
    types: dict[str, int]
    disk_needed: int
    disk_free: int
    memory_needed: int
    memory_free: int
    notes: tuple[str, ...]


def described(plan: Plan, options: ConvertOptions, checkpoint: Checkpoint) -> Planned:
    """Returns what there is to say of a GGUF file to be."""
    reference = 2 * plan.n_params if wants_card(options) and checkpoint.kind == "folder" else 0
    pre = _said(plan, checkpoint, "tokenizer.ggml.pre")
    largest = max((choice.tensor for choice in plan.choices), key=lambda tensor: tensor.n_elements, default=None)
    return Planned(
        target=str(options.target), files=len(plan.layouts), type=options.recipe,
        architecture=str(_said(plan, checkpoint, "general.architecture")),
        tokenizer=" ".join(filter(None, (str(_said(plan, checkpoint, "tokenizer.ggml.model")), str(pre)))),
        chat_template=bool(_said(plan, checkpoint, "tokenizer.chat_template")),
        n_tensors=len(plan.choices), n_params=plan.n_params, size_bytes=plan.size,
        source_bytes=sum(path.stat().st_size for path in files_of(checkpoint)), bits_per_weight=plan.bits_per_weight,
        types=dict(Counter(choice.type for choice in plan.choices).most_common()),
        disk_needed=plan.size + reference, disk_free=_free(options.target),
        memory_needed=_BASE_MEMORY + (8 * largest.n_elements if largest else 0),
        memory_free=memory.free_memory(), notes=plan.notes,
    )  # fmt: skip


def described_folder(plan: FolderPlan, options: ConvertOptions, checkpoint: Checkpoint) -> Planned:
    """Returns what there is to say of a Hugging Face folder to be."""
    weights = sum(shard.weight_bytes for shard in plan.shards)
    planned = described_tensors(plan.choices, options, size=plan.size, weights=weights, notes=plan.notes)
    return msgspec.structs.replace(
        planned, files=len(plan.files), architecture=plan.architecture, tokenizer=plan.tokenizer,
        chat_template=plan.chat_template, source_bytes=sum(path.stat().st_size for path in files_of(checkpoint)),
    )  # fmt: skip


def described_tensors(
    choices: Sequence[Choice], options: ConvertOptions, *, size: int, weights: int, notes: tuple[str, ...]
) -> Planned:
    """Returns what there is to say of tensors that are written as they are chosen, and of nothing else."""
    shapes = [choice.tensor.shape for choice in choices]
    n_params = sum(map(math.prod, shapes))
    return Planned(
        target=str(options.target), files=1, type=options.recipe, architecture="", tokenizer="", chat_template=False,
        n_tensors=len(shapes), n_params=n_params, size_bytes=size, source_bytes=0,
        bits_per_weight=8 * weights / max(n_params, 1),
        types=dict(Counter(choice.type for choice in choices).most_common()), disk_needed=size,
        disk_free=_free(options.target), memory_needed=_BASE_MEMORY + 8 * max(map(math.prod, shapes), default=0),
        memory_free=memory.free_memory(), notes=notes,
    )  # fmt: skip


def _said(plan: Plan, checkpoint: Checkpoint, key: str) -> Scalar | object:
    """Returns what the file will say; of a GGUF source, whose keys are taken over, what it says."""
    if key in checkpoint.metadata:
        return checkpoint.metadata[key]
    return plan.metadata[key].content if key in plan.metadata else ""


def _free(target: Path) -> int:
    return shutil.disk_usage(target.parent).free


def wants_card(options: ConvertOptions) -> bool:
    """Whether it will be measured what the conversion cost; types that are not quantized cost nothing."""
    return options.card and options.recipe not in FLOATS


def sources_of(options: ConvertOptions, checkpoint: Checkpoint) -> list[Path]:
    """Returns every file and folder that the conversion reads."""
    others = filter(None, (options.importance, options.text, options.base))
    return [options.source, *files_of(checkpoint), *adapters_of(options), *others]


def files_of(checkpoint: Checkpoint) -> list[Path]:
    """Returns the files that a checkpoint lies in."""
    if checkpoint.kind == "gguf":
        return list(split_parts(checkpoint.path))
    return [path for path in checkpoint.path.iterdir() if path.is_file()]
