"""Finds the type that suits a wish: the smallest that stays near enough to the source, or the best that fits.

The types are sorted by the size that each would have. Larger ones stray less, so that halving finds the smallest that
is good enough in few trials; each is written, measured and taken away again. Knows no window.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec

from convert import splitting
from convert.export_hf import NotForFolders
from convert.importance import Importance, read_importance
from convert.measuring import Measured, MeasureRequest
from convert.merging import open_source
from convert.options import ConvertOptions
from convert.phases import run_phase
from convert.pipeline import ConvertEvent, convert, required, result_of
from convert.plan import Plan, replanned
from convert.planning import plan_of
from convert.preflight import sources_of
from convert.reference import reference_file, threads_of
from convert.safe_file import HiddenFolder, SafeFiles, require_room, require_target
from convert.writing import write
from runtime.checkpoint import Checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.text import _

_CANDIDATES = ("Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "IQ4_XS", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K")
_NEAREST = 3  # of the largest types are tried where only the size counts
_WITH_IMPORTANCE = ("IQ3_M", "IQ3_XXS", "IQ2_M", "IQ2_XS")


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The largest mean KL divergence, in nats, and the largest size, in bytes; None and 0 for any."""

    max_kl: float | None = None
    max_size: int = 0


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One type that was written and measured."""

    type: str
    size_bytes: int
    bits_per_weight: float
    kl: float
    top1_agreement: float
    perplexity_ratio: float
    fits: bool


class NothingFits(UserError):
    """No type meets the wish."""

    code = "nothing_fits"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("No type is both small and good enough."), reason, _("Allow a larger size or a larger divergence.")
        )


def choose(options: ConvertOptions, goal: Goal, stop: StopFlag) -> Iterator[ConvertEvent | Tried]:
    """Yields what was tried and then the events of converting to the type that was chosen.

    Raises `NothingFits`, and what `convert` raises. Nothing that was only tried is left.
    """
    if options.target.suffix.lower() != ".gguf":
        raise NotForFolders(_CANDIDATES[0])
    options = required(msgspec.structs.replace(options, recipe="Q8_0"))
    recipe = yield from _chosen(options, goal, stop)
    yield from convert(msgspec.structs.replace(options, recipe=recipe), stop)


def _chosen(options: ConvertOptions, goal: Goal, stop: StopFlag) -> Generator[ConvertEvent | Tried, None, str]:
    importance = read_importance(options.importance) if options.importance else None
    with open_source(options, threads=threads_of(options)) as checkpoint:
        sources = sources_of(options, checkpoint)
        require_target(options.target, sources=sources, replace=options.agreed or options.dry_run)
        plans = _plans(checkpoint, options, importance)
        fitting = {recipe: plan for recipe, plan in plans.items() if not goal.max_size or plan.size <= goal.max_size}
        if not fitting:
            least = min(plan.size for plan in plans.values())
            raise NothingFits(_("The smallest type would take {size:,.1f} MB.").format(size=least / 1e6))
        if options.dry_run:
            return list(fitting)[-1]
        trials = _Trials(options, checkpoint, fitting, stop)
        if goal.max_kl is None:
            return (yield from trials.nearest())
        return (yield from trials.smallest(goal.max_kl))


def _plans(checkpoint: Checkpoint, options: ConvertOptions, importance: Importance | None) -> dict[str, Plan]:
    """Returns each candidate's plan, the smallest first; of those of one size only the first."""
    names = (*_CANDIDATES, *(_WITH_IMPORTANCE if importance is not None else ()))
    found: dict[int, tuple[str, Plan]] = {}
    first = plan_of(checkpoint, options, importance=importance)
    for recipe in names:
        plan = replanned(first, msgspec.structs.replace(options, recipe=recipe))
        found.setdefault(plan.size, (recipe, plan))
    return {recipe: plan for _size, (recipe, plan) in sorted(found.items())}


class _Trials:
    """Writes types into a hidden folder, one at a time, and measures them."""

    def __init__(
        self, options: ConvertOptions, checkpoint: Checkpoint, plans: dict[str, Plan], stop: StopFlag
    ) -> None:
        self._options, self._checkpoint, self._plans, self._stop = options, checkpoint, plans, stop
        self._names = list(plans)

    def smallest(self, max_kl: float) -> Generator[ConvertEvent | Tried, None, str]:
        """Returns the smallest type whose divergence is allowed. Raises `NothingFits`."""
        low, high, found, least = 0, len(self._names) - 1, "", math.inf
        with self._folder() as folder:
            reference = yield from self._reference(folder.path)
            while low <= high:
                at = (low + high) // 2
                tried = yield from self._try(self._names[at], reference, folder.path)
                yield msgspec.structs.replace(tried, fits=tried.kl <= max_kl)
                least = min(least, tried.kl)
                if tried.kl <= max_kl:
                    found, high = self._names[at], at - 1
                else:
                    low = at + 1
        if not found:
            raise NothingFits(
                _("The least mean divergence was {kl:.3g}; {limit:.3g} is allowed.").format(kl=least, limit=max_kl)
            )
        return found

    def nearest(self) -> Generator[ConvertEvent | Tried, None, str]:
        """Returns which of the largest types strays least."""
        best: Tried | None = None
        with self._folder() as folder:
            reference = yield from self._reference(folder.path)
            for name in reversed(self._names[-_NEAREST:]):
                tried = yield from self._try(name, reference, folder.path)
                yield tried
                best = tried if best is None or tried.kl < best.kl else best
        assert best is not None
        return best.type

    def _folder(self) -> HiddenFolder:
        largest = max(plan.size for plan in self._plans.values())
        reference = 0 if self._checkpoint.kind == "gguf" else 2 * self._plans[self._names[0]].n_params
        require_room(self._options.target.parent, largest + reference)
        return HiddenFolder(self._options.target)

    def _reference(self, folder: Path) -> Generator[ConvertEvent, None, Path]:
        return (yield from reference_file(self._checkpoint, self._options, folder / "reference.gguf", self._stop))

    def _try(self, recipe: str, reference: Path, folder: Path) -> Generator[ConvertEvent, None, Tried]:
        target, plan = folder / "trial.gguf", self._plans[recipe]
        with SafeFiles(splitting.targets(target, len(plan.layouts))) as files:
            yield from write(plan, files, self._stop, threads=threads_of(self._options))
            request = MeasureRequest(
                reference=reference, candidate=files.parts()[0], name="", text=self._options.text,
                threads=self._options.threads, speeds=False,
            )  # fmt: skip
            measured = yield from result_of(run_phase(request, self._stop), Measured)
            quality = measured.card.quality
        for path in splitting.targets(target, len(plan.layouts)):
            path.unlink()
        return Tried(
            type=recipe, size_bytes=plan.size, bits_per_weight=plan.bits_per_weight, kl=quality.kl.mean,
            top1_agreement=quality.top1_agreement, perplexity_ratio=quality.perplexity.ratio, fits=True,
        )  # fmt: skip
