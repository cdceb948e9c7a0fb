"""One conversion from beginning to end, as a stream of events: what it will be, how far it is, what it became."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from convert.importance import read_importance
from convert.options import ConvertOptions
from convert.plan import Plan, plan_from_folder, plan_from_gguf
from convert.recipes import UnknownRecipe, recipe_named
from convert.safe_file import require_room, require_target
from convert.writing import WriteProgress, write
from runtime import devices
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.gguf_header import split_parts
from runtime.gguf_types import TYPE_BY_NAME
from runtime.text import _


class BadPattern(UserError):
    """A pattern for tensor names that is no regular expression."""

    code = "bad_pattern"

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(
            _("“{pattern}” is no regular expression.").format(pattern=pattern),
            reason,
            _("Write for example “ffn_down=Q6_K” or “blk\\.[0-3]\\.attn_v=Q8_0”."),
        )


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the file will be. `types` says how many tensors have each type; sizes are bytes."""

    target: str
    type: str
    size_bytes: int
    source_bytes: int
    bits_per_weight: float
    n_params: int
    types: dict[str, int]
    notes: tuple[str, ...]


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """The file that was written, and how long it took."""

    target: str
    size_bytes: int
    seconds: float


ConvertEvent = Planned | WriteProgress | Converted


def convert(options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Plans, and unless it is a dry run writes; the last event is `Converted`, or `Planned` of a dry run.

    Raises `UserError` wherever a person has to do something; then the target is as it was.
    """
    started = time.perf_counter()
    _require_types(options)
    options = msgspec.structs.replace(options, recipe=recipe_named(options.recipe))
    importance = read_importance(options.importance) if options.importance is not None else None
    with open_checkpoint(options.source, threads=_threads(options)) as checkpoint:
        sources = [options.source, *_files(checkpoint), *([options.importance] if options.importance else [])]
        require_target(options.target, sources=sources, replace=options.agreed or options.dry_run)
        plan = (plan_from_gguf if checkpoint.kind == "gguf" else plan_from_folder)(
            checkpoint, options, importance=importance
        )
        yield _described(plan, options, checkpoint)
        if options.dry_run:
            return
        require_room(options.target.parent, plan.layout.size)
        yield from write(plan, options.target, stop, threads=_threads(options))
    yield Converted(
        target=str(options.target), size_bytes=plan.layout.size, seconds=time.perf_counter() - started
    )


def _require_types(options: ConvertOptions) -> None:
    """Raises `UnknownRecipe` and `BadPattern` for wishes that make no sense."""
    wishes = options.wishes
    for pattern, _kind in wishes.tensor_types:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadPattern(pattern, str(error)) from error
    for name in (*(kind for _pattern, kind in wishes.tensor_types), wishes.output_type, wishes.embedding_type):
        if name and name not in TYPE_BY_NAME:
            raise UnknownRecipe(name)


def _threads(options: ConvertOptions) -> int:
    return options.threads or devices.usable_cores()


def _files(checkpoint: Checkpoint) -> list[Path]:
    if checkpoint.kind == "gguf":
        return list(split_parts(checkpoint.path))
    return [path for path in checkpoint.path.iterdir() if path.is_file()]


def _described(plan: Plan, options: ConvertOptions, checkpoint: Checkpoint) -> Planned:
    return Planned(
        target=str(options.target), type=options.recipe, size_bytes=plan.layout.size,
        source_bytes=sum(path.stat().st_size for path in _files(checkpoint)),
        bits_per_weight=plan.bits_per_weight, n_params=plan.n_params,
        types=dict(Counter(choice.type for choice in plan.choices).most_common()), notes=plan.notes,
    )  # fmt: skip
