"""One conversion from beginning to end, as a stream of events: what it will be, how far it is, what it became."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from convert import card as cards
from convert import splitting
from convert.adapter import is_adapter, plan_adapter
from convert.card import Card
from convert.export_hf import FolderPlan, plan_folder, write_folder
from convert.gguf_file import Scalar
from convert.importance import Importance, read_importance
from convert.measuring import Measured, MeasureProgress, MeasureRequest
from convert.merging import adapters_of, open_source
from convert.options import ConvertOptions
from convert.phases import run_phase
from convert.plan import Plan, plan_of
from convert.recipes import FLOATS, Choice, UnknownRecipe, recipe_named
from convert.reference import reference_file, threads_of
from convert.safe_file import SafeFiles, require_room, require_target
from convert.verification import Verified, VerifyProgress, VerifyRequest
from convert.writing import ConversionStopped, WriteProgress, write
from runtime import memory
from runtime.checkpoint import Checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.gguf_header import split_parts
from runtime.gguf_types import TYPE_BY_NAME
from runtime.text import _

_BASE_MEMORY = 200 << 20  # bytes, besides what the largest tensor takes
_Result = TypeVar("_Result")


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


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, how long that took, and what was found out about it."""

    target: str
    files: tuple[str, ...]
    size_bytes: int
    seconds: float
    verified: Verified | None = None
    card: Card | None = None
    notes: tuple[str, ...] = ()


ConvertEvent = Planned | WriteProgress | VerifyProgress | MeasureProgress | Converted


def convert(options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Plans, and unless it is a dry run writes; the last event is `Converted`, or `Planned` of a dry run.

    Raises `UserError` wherever a person has to do something; then the target is as it was.
    """
    options = required(options)
    importance = read_importance(options.importance) if options.importance is not None else None
    if is_adapter(options.source):
        yield from _adapter(options, stop)
        return
    with open_source(options, threads=threads_of(options)) as checkpoint:
        if options.target.suffix.lower() != ".gguf":
            yield from _to_folder(checkpoint, options, stop)
            return
        plan = plan_of(checkpoint, options, importance=importance)
        targets = splitting.targets(options.target, len(plan.layouts))
        for target in targets:
            require_target(target, sources=_sources(options, checkpoint), replace=options.agreed or options.dry_run)
        planned = _described(plan, options, checkpoint)
        yield planned
        if not options.dry_run:
            require_room(options.target.parent, planned.disk_needed)
            yield from _Conversion(options, checkpoint, plan, importance, stop).run(targets)


def _to_folder(checkpoint: Checkpoint, options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Does the same for a Hugging Face folder, for which there is nothing to measure."""
    started = time.perf_counter()
    require_target(options.target, sources=_sources(options, checkpoint), replace=options.agreed or options.dry_run)
    plan = plan_folder(checkpoint, options)
    yield _described_folder(plan, options, checkpoint)
    if options.dry_run:
        return
    require_room(options.target.parent, plan.size)
    yield from write_folder(plan, options.target, stop, threads=threads_of(options))
    yield Converted(
        target=str(options.target), files=tuple(str(options.target / name) for name in plan.files),
        size_bytes=plan.size, seconds=time.perf_counter() - started,
    )  # fmt: skip


def _adapter(options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Does the same for an adapter, for which there is nothing to measure either."""
    started = time.perf_counter()
    require_target(options.target, sources=[options.source], replace=options.agreed or options.dry_run)
    plan = plan_adapter(options)
    weights = sum(placed.entry.n_bytes for layout in plan.layouts for placed in layout.tensors)
    planned = _described_tensors(plan.choices, options, size=plan.size, weights=weights, notes=plan.notes)
    read = sum(path.stat().st_size for path in options.source.iterdir() if path.is_file())
    yield msgspec.structs.replace(planned, architecture=plan.facts.architecture, source_bytes=read)
    if options.dry_run:
        return
    require_room(options.target.parent, plan.size)
    with SafeFiles([options.target]) as files:
        yield from write(plan, files, stop, threads=threads_of(options))
    yield Converted(
        target=str(options.target), files=(str(options.target),), size_bytes=plan.size,
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def required(options: ConvertOptions) -> ConvertOptions:
    """Returns the options with the recipe's proper name. Raises `UnknownRecipe` and `BadPattern`."""
    wishes = options.wishes
    for pattern, _kind in wishes.tensor_types:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadPattern(pattern, str(error)) from error
    for name in (*(kind for _pattern, kind in wishes.tensor_types), wishes.output_type, wishes.embedding_type):
        if name and name not in TYPE_BY_NAME:
            raise UnknownRecipe(name)
    return msgspec.structs.replace(options, recipe=recipe_named(options.recipe))


class _Conversion:
    """The phases after planning; each may fail, and then nothing is left."""

    def __init__(
        self, options: ConvertOptions, checkpoint: Checkpoint, plan: Plan, importance: Importance | None, stop: StopFlag
    ) -> None:
        self._options, self._checkpoint, self._plan = options, checkpoint, plan
        self._importance, self._stop = importance, stop
        self._notes: list[str] = []

    def run(self, targets: tuple[Path, ...]) -> Iterator[ConvertEvent]:
        started = time.perf_counter()
        options = self._options
        verified = card = None
        with SafeFiles(targets) as files:
            yield from write(self._plan, files, self._stop, threads=threads_of(options))
            if options.verify:
                request = VerifyRequest(options=options, parts=files.parts())
                verified = yield from result_of(run_phase(request, self._stop), Verified)
                self._notes += verified.notes
            if _wants_card(options):
                card = yield from self._measured(files)
            if self._stop.is_set():
                raise ConversionStopped
        yield Converted(
            target=str(targets[0]), files=tuple(map(str, targets)), size_bytes=self._plan.size,
            seconds=time.perf_counter() - started, verified=verified, card=card, notes=tuple(self._notes),
        )  # fmt: skip

    def _measured(self, files: SafeFiles) -> Generator[ConvertEvent, None, Card | None]:
        """Puts the card into the file, and returns it; None, with a note, where nothing can be measured."""
        try:
            reference = yield from reference_file(
                self._checkpoint, self._options, files.scratch("reference.gguf"), self._stop
            )
            request = MeasureRequest(
                reference=reference, candidate=files.parts()[0], name=self._options.source.resolve().name,
                text=self._options.text, threads=self._options.threads,
            )  # fmt: skip
            measured = yield from result_of(run_phase(request, self._stop), Measured)
        except ConversionStopped:
            raise
        except UserError as error:
            self._notes.append(_("The quality was not measured: {reason}").format(reason=error.info.title))
            return None
        at, packed = cards.placed(self._plan.layouts[0].header, measured.card)
        files.overwrite(packed, at=at)
        return measured.card

def result_of(events: Iterator[object], kind: type[_Result]) -> Generator[ConvertEvent, None, _Result]:
    """Passes progress on, and returns the event of that kind, which ends a phase."""
    for event in events:
        if isinstance(event, kind):
            return event
        assert isinstance(event, VerifyProgress | MeasureProgress)
        yield event
    raise AssertionError("a phase ends with a result")


def _wants_card(options: ConvertOptions) -> bool:
    return options.card and options.recipe not in FLOATS


def _sources(options: ConvertOptions, checkpoint: Checkpoint) -> list[Path]:
    importance = [options.importance] if options.importance else []
    return [options.source, *_files(checkpoint), *adapters_of(options), *importance]


def _files(checkpoint: Checkpoint) -> list[Path]:
    if checkpoint.kind == "gguf":
        return list(split_parts(checkpoint.path))
    return [path for path in checkpoint.path.iterdir() if path.is_file()]


def _described(plan: Plan, options: ConvertOptions, checkpoint: Checkpoint) -> Planned:
    reference = 2 * plan.n_params if _wants_card(options) and checkpoint.kind == "folder" else 0
    pre = _said(plan, checkpoint, "tokenizer.ggml.pre")
    largest = max((choice.tensor for choice in plan.choices), key=lambda tensor: tensor.n_elements, default=None)
    return Planned(
        target=str(options.target), files=len(plan.layouts), type=options.recipe,
        architecture=str(_said(plan, checkpoint, "general.architecture")),
        tokenizer=" ".join(filter(None, (str(_said(plan, checkpoint, "tokenizer.ggml.model")), str(pre)))),
        chat_template=bool(_said(plan, checkpoint, "tokenizer.chat_template")),
        n_tensors=len(plan.choices), n_params=plan.n_params, size_bytes=plan.size,
        source_bytes=sum(path.stat().st_size for path in _files(checkpoint)), bits_per_weight=plan.bits_per_weight,
        types=dict(Counter(choice.type for choice in plan.choices).most_common()),
        disk_needed=plan.size + reference, disk_free=_free(options.target),
        memory_needed=_BASE_MEMORY + (8 * largest.n_elements if largest else 0),
        memory_free=memory.free_memory(), notes=plan.notes,
    )  # fmt: skip


def _described_folder(plan: FolderPlan, options: ConvertOptions, checkpoint: Checkpoint) -> Planned:
    weights = sum(shard.weight_bytes for shard in plan.shards)
    planned = _described_tensors(plan.choices, options, size=plan.size, weights=weights, notes=plan.notes)
    return msgspec.structs.replace(
        planned, files=len(plan.files), architecture=plan.architecture, tokenizer=plan.tokenizer,
        chat_template=plan.chat_template, source_bytes=sum(path.stat().st_size for path in _files(checkpoint)),
    )  # fmt: skip


def _described_tensors(
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
