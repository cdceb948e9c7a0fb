"""Chooses and registers llama.cpp's back ends where they are files of their own: processor code and graphics cards.

Of the processor's variants the best one that survives its trial is taken; cards come with it where their driver is
installed and survives, too. What was chosen and what was left out, and why, is kept to be told.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runtime import cpu_features, devices
from runtime.errors import UserError
from runtime.llama import drivers, trials
from runtime.llama.deaths import Deaths
from runtime.llama.variants import Denied, Score, Unusable, Variant, is_variant, own_score, ranked, variant_name
from runtime.llama.verdicts import Verdict, Verdicts
from runtime.text import N_, _

AUTO = "auto"
_IN_USE = "SIGILL in use"  # after a trial that it had survived
_RISKY = frozenset({"sapphirerapids"})  # its tiles are reported by processors that trap on them
_TOLD = (Unusable.DAMAGED, Unusable.SYSTEM)  # that a processor is older than some variants is no news
_log = logging.getLogger(__name__)
_SYSTEM, _DAMAGED = N_("the operating system withholds {detail}"), N_("it cannot be loaded: {detail}")
_LACKS, _LACKS_SOME = N_("this processor lacks {detail}"), N_("this processor lacks an instruction set it needs")
_REASONS = {
    "SIGILL": N_("it ended with an illegal instruction"),
    _IN_USE: N_("it ended with an illegal instruction while it was in use"),
    "timeout": N_("it did not answer in time ({detail})"),
    "wrong": N_("it computed wrong numbers ({detail})"), "refused": N_("it failed: {detail}"),
    "no device": N_("it found no graphics card"), "missing": N_("its file is gone"),
    "untried": N_("it could not be tried"),
    "no driver": N_("no driver for it is installed"),
}  # fmt: skip


class LeftOut(msgspec.Struct, frozen=True):
    """A back end that is not used. `reason` is a word for programs, `detail` what it adds for people."""

    name: str
    reason: str
    detail: str = ""

    @property
    def why(self) -> str:
        """The cause in words, without a full stop."""
        if self.reason == Unusable.PROCESSOR:
            return _(_LACKS if self.detail else _LACKS_SOME).format(detail=self.detail)
        words = {Unusable.SYSTEM.value: _SYSTEM, Unusable.DAMAGED.value: _DAMAGED} | _REASONS
        if self.reason in words:
            return _(words[self.reason]).format(detail=self.detail)
        return _("it ended with signal {name}").format(name=self.reason)


class BackendReport(msgspec.Struct, frozen=True, kw_only=True):
    """What runs and what does not. Without a `variant` the processor code is part of the library."""

    variant: str = ""
    others: tuple[str, ...] = ()  # variants that this processor could run, too
    cards: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def lines(self) -> list[str]:
        """Returns the report in words; nothing where the back ends are part of the library."""
        if not self.variant:
            return []
        used = [_("Processor code: {name}").format(name=self.variant)]
        if self.others:
            used.append(_("Other processor code for this computer: {names}").format(names=", ".join(self.others)))
        used += [_("Graphics cards: {kind}").format(kind=kind) for kind in self.cards]
        return used + [_("Left out: {name}, {reason}").format(name=one.name, reason=one.why) for one in self.left_out]


class NoVariantRuns(UserError):
    """None of the builds for different processors runs here."""

    code = "no_variant"

    def __init__(self, left_out: Sequence[LeftOut]) -> None:
        listed = "; ".join(f"{one.name}: {one.why}" for one in left_out) or _("there is none")
        super().__init__(
            _("No part of llama.cpp runs on this processor."),
            _("What was tried: {list}.").format(list=listed),
            _("Install Quern again. If that does not help, report this list."),
        )


class UnknownVariant(UserError):
    """The processor code that the settings name does not exist."""

    code = "unknown_variant"

    def __init__(self, name: str, present: Sequence[str]) -> None:
        super().__init__(
            _("There is no processor code “{name}”.").format(name=name[:60]),
            _("There are: {names}.").format(names=", ".join(present)),
            _("Choose one of these in the settings, or “auto”."),
        )


class VariantRefused(UserError):
    """The processor code that the settings name would end the engine."""

    code = "variant_refused"

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__(
            _("The processor code “{name}” does not run here.").format(name=left_out.name),
            _("The reason: {reason}.").format(reason=left_out.why),
            _("Choose “auto” in the settings; it takes the best one that runs."),
        )


class Backends:
    """The back ends of this process. Registers each at most once: llama.cpp keeps them until the process ends."""

    def __init__(
        self,
        files: Sequence[Path],
        register: Callable[[Path], bool],
        *,
        verdicts: Verdicts,
        deaths: Deaths,
        tried: Callable[[str], Verdict] = trials.tried,
        score: Score = own_score,
        denied: Denied = cpu_features.denied,
        driver: Callable[[str], str] = drivers.identity,
    ) -> None:
        """`files` are all there are, and `register` loads one; false where it cannot be loaded.

        What ended a process after its trial is asked of `deaths`, and is not tried again.
        """
        self.variant = ""  # the one in use
        self.others: list[str] = []
        self.left_out: list[LeftOut] = []
        self.cards: list[str] = []  # kinds in use, such as vulkan
        self._files, self._register = files, register
        self._verdicts, self._deaths, self._tried, self._driver = verdicts, deaths, tried, driver
        self._score, self._denied = score, denied
        self._again = self._has_cards = False

    def use(self, wanted: str = AUTO, *, cards: bool | None = None, again: bool = False) -> None:
        """Registers the best variant, or the one of this name, and the cards. Later calls change nothing of that.

        Without `cards` no driver is touched; a later call may still ask for them. With `again`, what failed its trial
        gets another one. Raises `NoVariantRuns`, `UnknownVariant`, `VariantRefused`.
        """
        first = not self.variant
        if first:
            self._again = again
            self.use_processor(wanted)
            self._watch()
        if not self._has_cards and (first if cards is None else cards):
            self._has_cards = True
            for file in self._files:
                if not is_variant(file):
                    self._use_card(file)

    def _watch(self) -> None:
        """Has an end by the processor code noticed, as long as there is other code to give way to."""
        used = next((file for file in self._files if is_variant(file) and variant_name(file) == self.variant), None)
        if used is not None and self.others:
            self._deaths.watch(used)

    def use_processor(self, wanted: str = AUTO) -> None:
        """Registers processor code only. Raises what `use` raises."""
        variants = ranked(self._files, score=self._score, denied=self._denied)
        usable = [variant for variant in variants if variant.unusable is None]
        self.others = [variant.name for variant in usable]
        self.left_out += [_left_out(variant) for variant in variants if variant.unusable in _TOLD]
        if wanted.lower() != AUTO:
            self._add(self._named(wanted, variants))
            return
        for variant in usable:
            problem = self._problem(variant)
            if problem is None and self._add(variant):
                return
            self.left_out.append(problem or LeftOut(variant.name, Unusable.DAMAGED.value))
            self.others = [name for name in self.others if name != variant.name]
        too_new = [_left_out(variant) for variant in variants if variant.unusable is Unusable.PROCESSOR]
        raise NoVariantRuns([*self.left_out, *too_new])

    def use_only(self, file: Path) -> None:
        """Registers one file, untried."""
        if not self._register(file):
            raise NoVariantRuns([LeftOut(file.name, Unusable.DAMAGED.value)])
        if is_variant(file):
            self.variant = variant_name(file)

    def _add(self, variant: Variant) -> bool:
        loaded = self._register(variant.file)
        if loaded:
            self.variant = variant.name
            self.others = [name for name in self.others if name != variant.name]
        return loaded

    def _named(self, wanted: str, variants: Sequence[Variant]) -> Variant:
        found = next((variant for variant in variants if variant.name == wanted.lower()), None)
        if found is None:
            raise UnknownVariant(wanted, [variant.name for variant in variants])
        problem = self._problem(found, again=True)
        if problem is not None:
            raise VariantRefused(problem)
        return found

    def _problem(self, variant: Variant, *, again: bool = False) -> LeftOut | None:
        """Returns why a variant is out of the question; `again` gives one that failed another chance."""
        if variant.unusable is not None:
            return _left_out(variant)
        verdict = self._verdict(variant.file, _processor(), again=again)
        if verdict is None:
            return LeftOut(variant.name, "untried") if variant.name in _RISKY else None
        return None if verdict.survived else LeftOut(variant.name, verdict.reason, verdict.details)

    def _use_card(self, file: Path) -> None:
        kind = card_kind(file)
        driver = self._driver(kind)
        verdict = self._verdict(file, driver) if driver else Verdict(reason="no driver")
        if verdict is None:
            self.left_out.append(LeftOut(kind, "untried"))
        elif verdict.survived and self._register(file):
            self.cards.append(kind)
        else:
            self.left_out.append(LeftOut(kind, verdict.reason or Unusable.DAMAGED.value, verdict.details))

    def _verdict(self, file: Path, surroundings: str, *, again: bool = False) -> Verdict | None:
        """Returns how the trial of a file ended, holding it where that is not known; None where it cannot be held."""
        if self._deaths.of(file):
            self._verdicts.put(file, surroundings, Verdict(reason=_IN_USE))
        known = self._verdicts.get(file, surroundings)
        if known is not None and (known.survived or known.reason == _IN_USE or not (again or self._again)):
            return known
        try:
            verdict = self._tried(file.name)
        except trials.NoVerdict as error:
            _log.warning("%s could not be tried: %s", file.name, error)
            return None
        if verdict.reason == "timeout" and is_variant(file):  # instructions do not hang: the computer slept, or worse
            return None
        self._verdicts.put(file, surroundings, verdict)
        return verdict


def _left_out(variant: Variant) -> LeftOut:
    assert variant.unusable is not None
    return LeftOut(variant.name, variant.unusable.value, variant.detail)


def card_kind(file: Path) -> str:
    """Returns "vulkan" for libggml-vulkan.so."""
    return file.name.partition("ggml-")[2].partition(".")[0]


def _processor() -> str:
    here = devices.processor()
    return f"{here.name}\n{' '.join(here.features)}\n{platform.system()} {platform.release()}"


def registering(ggml: Any) -> Callable[[Path], bool]:
    """Returns a function that loads a back end by its full path into the registry of this `libggml`."""
    return lambda file: bool(ggml.ggml_backend_load(os.fsencode(file.resolve())))
