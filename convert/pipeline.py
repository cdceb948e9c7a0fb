"""One conversion from beginning to end, as a stream of events: what it will be, how far it is, what it became."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from convert import card as cards
from convert import splitting
from convert.adapter import is_adapter, plan_adapter
from convert.card import Card
from convert.export_hf import WRITTEN, FolderPlan, plan_folder, write_folder
from convert.importance import Importance, read_importance
from convert.measuring import Measured, MeasureProgress, MeasureRequest
from convert.merging import open_source
from convert.options import ConvertOptions
from convert.phases import run_phase
from convert.plan import Plan, replanned
from convert.planning import plan_of
from convert.preflight import Planned, described, described_folder, described_tensors, sources_of, wants_card
from convert.recipes import FLOATS, UnknownTensorType, WishesWithoutQuantizing, recipe_named
from convert.reference import reference_file, threads_of
from convert.safe_file import SafeFiles, require_room, require_target
from convert.safe_folder import require_folder
from convert.values import CheckProgress, ValuesChecked, check_values
from convert.verification import Verified, VerifyProgress, VerifyRequest
from convert.writing import ConversionStopped, WriteProgress, write
from runtime import ggml
from runtime.checkpoint import Checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.gguf_types import TYPE_BY_NAME
from runtime.text import _

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


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, how long that took, and what was found out about it."""

    target: str
    files: tuple[str, ...]
    size_bytes: int
    seconds: float
    verified: Verified | None = None
    card: Card | None = None
    notes: tuple[str, ...] = ()


ConvertEvent = Planned | CheckProgress | ValuesChecked | WriteProgress | VerifyProgress | MeasureProgress | Converted


def convert(options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Plans, and unless it is a dry run writes; the last event is `Converted`, or what a dry run ends with: `Planned`,
    `ValuesChecked` where that was asked.

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
            require_target(target, sources=sources_of(options, checkpoint), replace=options.agreed or options.dry_run)
        planned = described(plan, options, checkpoint)
        yield planned
        yield from _looked_at(plan, options, stop)
        if not options.dry_run:
            require_room(options.target.parent, planned.disk_needed)
            yield from _Conversion(options, checkpoint, plan, importance, stop).run(targets)


def previews(options: ConvertOptions, recipes: Sequence[str], stop: StopFlag) -> Iterator[ConvertEvent]:
    """Yields the `Planned` of each type. What does not depend on the type is read and proved once; nothing is written.

    Raises what `convert` raises.
    """
    wanted = [required(msgspec.structs.replace(options, recipe=recipe, dry_run=True)) for recipe in recipes]
    first = wanted[0]
    if is_adapter(first.source) or first.target.suffix.lower() != ".gguf":
        for each in wanted:
            yield from convert(each, stop)
        return
    with open_source(first, threads=threads_of(first)) as checkpoint:
        require_target(first.target, sources=sources_of(first, checkpoint), replace=True)
        plan = plan_of(checkpoint, first)
        for each in wanted:
            if stop.is_set():
                raise ConversionStopped
            yield described(replanned(plan, each), each, checkpoint)


def _to_folder(checkpoint: Checkpoint, options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    """Does the same for a Hugging Face folder, for which there is nothing to measure."""
    started = time.perf_counter()
    require_folder(
        options.target, sources=sources_of(options, checkpoint), replace=options.agreed or options.dry_run, own=WRITTEN
    )
    plan = plan_folder(checkpoint, options)
    yield described_folder(plan, options, checkpoint)
    yield from _looked_at(plan, options, stop)
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
    sources = [options.source, *filter(None, [options.base])]
    require_target(options.target, sources=sources, replace=options.agreed or options.dry_run)
    plan = plan_adapter(options)
    weights = sum(placed.entry.n_bytes for layout in plan.layouts for placed in layout.tensors)
    planned = described_tensors(plan.choices, options, size=plan.size, weights=weights, notes=plan.notes)
    read = sum(path.stat().st_size for path in options.source.iterdir() if path.is_file())
    yield msgspec.structs.replace(planned, architecture=plan.facts.architecture, source_bytes=read)
    yield from _looked_at(plan, options, stop)
    if options.dry_run:
        return
    require_room(options.target.parent, plan.size)
    with SafeFiles([options.target]) as files:
        yield from write(plan, files, stop, threads=threads_of(options))
    yield Converted(
        target=str(options.target), files=(str(options.target),), size_bytes=plan.size,
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def _looked_at(plan: Plan | FolderPlan, options: ConvertOptions, stop: StopFlag) -> Iterator[ConvertEvent]:
    if options.check_values:
        yield from check_values(plan.choices, plan.products, stop)
        if stop.is_set():
            raise ConversionStopped


def required(options: ConvertOptions) -> ConvertOptions:
    """Returns the options with the recipe's proper name.

    Raises `UnknownRecipe`, `UnknownTensorType`, `BadPattern` and `WishesWithoutQuantizing`.
    """
    wishes, possible = options.wishes, [name for name in TYPE_BY_NAME if ggml.can_quantize(name)]
    for pattern, _kind in wishes.tensor_types:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadPattern(pattern, str(error)) from error
    for name in (*(kind for _pattern, kind in wishes.tensor_types), wishes.output_type, wishes.embedding_type):
        if name and name not in possible:
            raise UnknownTensorType(name, possible)
    recipe = recipe_named(options.recipe)
    if recipe in FLOATS and (wishes.tensor_types or wishes.output_type or wishes.embedding_type):
        raise WishesWithoutQuantizing(recipe)
    return msgspec.structs.replace(options, recipe=recipe)


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
            if wants_card(options):
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
