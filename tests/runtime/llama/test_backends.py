"""Which back ends are chosen, what is tried first, and what is told of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from runtime.llama.backends import AUTO, Backends, NoVariantRuns, UnknownVariant, VariantRefused
from runtime.llama.deaths import Deaths
from runtime.llama.trials import NoVerdict
from runtime.llama.verdicts import TriedDevice, Verdict, Verdicts

SCORES = {"x64": 1, "haswell": 64, "zen4": 2000, "sapphirerapids": 4000}
FINE, DIED = Verdict(), Verdict(reason="SIGILL")
CARD = Verdict(devices=(TriedDevice("Vulkan0", "Some card", 1, 2),))


class KeptDeaths(Deaths):
    """Deaths that a test decides on."""

    def __init__(self) -> None:
        super().__init__(None)
        self.watched: list[str] = []
        self.died: set[str] = set()

    def watch(self, library: Path) -> None:
        self.watched.append(short(library.name))

    def of(self, library: Path) -> bool:
        name = short(library.name)
        died = name in self.died
        self.died.discard(name)
        return died


class Machine:
    """A computer on which some back ends die. Notes what is tried and what is registered."""

    def __init__(self, tmp_path: Path, **verdicts: Verdict | Exception) -> None:
        self.tried: list[str] = []
        self.registered: list[str] = []
        self.unloadable: set[str] = set()
        self.driver = "driver 1"
        self._verdicts = verdicts
        self._kept = tmp_path / "backends.json"
        self.deaths = KeptDeaths()
        names = [f"cpu-{name}" for name in SCORES] + ["vulkan"]
        self.files = [tmp_path / f"libggml-{name}.so" for name in names]
        for file in self.files:
            file.touch()

    def start(
        self, wanted: str = AUTO, *, cards: bool | None = None, again: bool = False, **changes: Any
    ) -> Backends:
        """A new process."""
        self.tried.clear()
        self.registered.clear()
        options: dict[str, Any] = {
            "verdicts": Verdicts(self._kept), "deaths": self.deaths, "tried": self._try, "score": self._score,
            "denied": lambda _features: frozenset(), "driver": lambda _kind: self.driver,
        }  # fmt: skip
        backends = Backends(self.files, self._register, **(options | changes))
        backends.use(wanted, cards=cards, again=again)
        return backends

    def _score(self, file: Path) -> int:
        return SCORES[short(file.name)]

    def _try(self, name: str) -> Verdict:
        self.tried.append(short(name))
        verdict = self._verdicts.get(short(name), CARD if short(name) == "vulkan" else FINE)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def _register(self, file: Path) -> bool:
        self.registered.append(short(file.name))
        return short(file.name) not in self.unloadable


def short(name: str) -> str:
    return name.removeprefix("libggml-").removeprefix("cpu-").removesuffix(".so")


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    return lambda **verdicts: Machine(tmp_path, **verdicts)


def test_the_best_variant_is_tried_once_and_then_remembered(machine: Callable[..., Machine]) -> None:
    here = machine()
    assert here.start().variant == "sapphirerapids"
    assert here.tried == ["sapphirerapids", "vulkan"]
    assert here.start().variant == "sapphirerapids"
    assert here.tried == []
    assert here.registered == ["sapphirerapids", "vulkan"]


def test_a_variant_that_dies_gives_way_to_the_next_and_is_not_tried_again(machine: Callable[..., Machine]) -> None:
    here = machine(sapphirerapids=DIED, zen4=Verdict(reason="SIGSEGV"))
    assert here.start().variant == "haswell"
    assert here.tried == ["sapphirerapids", "zen4", "haswell", "vulkan"]
    again = here.start()
    assert (again.variant, here.tried) == ("haswell", [])
    assert [(one.name, one.reason) for one in again.left_out] == [("sapphirerapids", "SIGILL"), ("zen4", "SIGSEGV")]
    assert again.others == ["x64"]
    assert "illegal instruction" in again.left_out[0].why
    assert "SIGSEGV" in again.left_out[1].why


def test_a_variant_that_dies_in_use_gives_way_for_good(machine: Callable[..., Machine]) -> None:
    here = machine()
    assert here.start().variant == "sapphirerapids"
    assert here.deaths.watched == ["sapphirerapids"]
    here.deaths.died = {"sapphirerapids"}
    for again in (False, True):
        backends = here.start(again=again)
        assert backends.variant == "zen4"
        assert backends.left_out[0].why == "it ended with an illegal instruction while it was in use"
        assert "sapphirerapids" not in here.tried  # a trial does not find it
    with pytest.raises(VariantRefused, match="while it was in use"):
        here.start("sapphirerapids")


def test_the_last_variant_is_not_watched_for_nothing_could_take_its_place(machine: Callable[..., Machine]) -> None:
    here = machine(sapphirerapids=DIED, zen4=DIED, haswell=DIED)
    assert here.start().variant == "x64"
    assert here.deaths.watched == []


def test_the_doctor_gives_what_failed_another_chance(machine: Callable[..., Machine]) -> None:
    here = machine(sapphirerapids=DIED, vulkan=DIED)
    here.start()
    here.start(again=True)
    assert here.tried == ["sapphirerapids", "vulkan"]


def test_a_computer_that_slept_does_not_cost_a_variant(machine: Callable[..., Machine]) -> None:
    here = machine(zen4=Verdict(reason="timeout"), sapphirerapids=Verdict(reason="timeout"))
    assert here.start().variant == "zen4"
    here.start()
    assert "zen4" in here.tried  # it was not remembered


def test_no_variant_at_all_is_an_error_that_names_each(machine: Callable[..., Machine]) -> None:
    here = machine(**dict.fromkeys(SCORES, DIED))
    with pytest.raises(NoVariantRuns, match="haswell: it ended with an illegal instruction"):
        here.start()
    here.files = []
    with pytest.raises(NoVariantRuns, match="there is none"):
        here.start()


def test_where_no_trial_can_be_held_only_what_is_known_to_trap_is_left_out(machine: Callable[..., Machine]) -> None:
    here = machine(sapphirerapids=NoVerdict("no processes left"), zen4=NoVerdict("no processes left"))
    backends = here.start()
    assert backends.variant == "zen4"
    assert backends.left_out[0].why == "it could not be tried"
    here.start()
    assert "zen4" in here.tried  # nothing was remembered


def test_damaged_and_withheld_variants_are_told_and_those_for_newer_processors_are_not(
    machine: Callable[..., Machine],
) -> None:
    def score(file: Path) -> int:
        if "zen4" in file.name:
            raise OSError("file too short")
        return 0 if "sapphirerapids" in file.name else SCORES[short(file.name)]

    def no_avx2(features: Iterable[str]) -> frozenset[str]:
        return frozenset({"avx2"} & set(features))

    backends = machine().start(score=score, denied=no_avx2)
    assert backends.variant == "x64"
    assert [(one.name, one.why) for one in backends.left_out] == [
        ("haswell", "the operating system withholds avx2"), ("zen4", "it cannot be loaded: file too short"),
    ]  # fmt: skip


def test_a_variant_that_cannot_be_loaded_gives_way(machine: Callable[..., Machine]) -> None:
    here = machine()
    here.unloadable = {"sapphirerapids"}
    backends = here.start()
    assert (backends.variant, backends.left_out[0].reason) == ("zen4", "damaged")


@pytest.mark.shows("cpu_variant")
def test_a_variant_can_be_named(machine: Callable[..., Machine]) -> None:
    here = machine()
    assert here.start("Haswell").variant == "haswell"
    with pytest.raises(UnknownVariant, match="sapphirerapids, zen4, haswell, x64"):
        here.start("haswel")


def test_a_named_variant_that_died_is_tried_again_and_refused_with_its_reason(machine: Callable[..., Machine]) -> None:
    here = machine(zen4=DIED)
    for _attempt in range(2):
        with pytest.raises(VariantRefused, match="illegal instruction"):
            here.start("zen4")
        assert here.tried == ["zen4"]


def test_a_named_variant_that_the_processor_lacks_is_refused_untried(machine: Callable[..., Machine]) -> None:
    here = machine()
    with pytest.raises(VariantRefused, match="lacks an instruction set"):
        here.start("zen4", score=lambda file: int("zen4" not in file.name))
    assert here.tried == []


def test_cards_are_used_where_their_driver_survives(machine: Callable[..., Machine]) -> None:
    here = machine()
    assert here.start().cards == ["vulkan"]


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (Verdict(reason="SIGSEGV"), "it ended with signal SIGSEGV"),
        (Verdict(reason="no device"), "it found no graphics card"),
        (Verdict(reason="timeout", details="120 s"), "it did not answer in time (120 s)"),
        (Verdict(reason="wrong", details="status 0, [nan]"), "it computed wrong numbers (status 0, [nan])"),
        (NoVerdict("no processes left"), "it could not be tried"),
    ],
    ids=["dies", "no card", "hangs", "wrong", "no trial"],
)
def test_a_driver_that_fails_leaves_the_processor(
    machine: Callable[..., Machine], verdict: Verdict | Exception, why: str
) -> None:
    backends = machine(vulkan=verdict).start()
    assert (backends.variant, backends.cards) == ("sapphirerapids", [])
    assert [(one.name, one.why) for one in backends.left_out] == [("vulkan", why)]


def test_without_a_driver_nothing_is_tried_or_loaded(machine: Callable[..., Machine]) -> None:
    here = machine()
    here.driver = ""
    backends = here.start()
    assert ("vulkan" in here.tried, "vulkan" in here.registered) == (False, False)
    assert backends.left_out[0].why == "no driver for it is installed"


def test_no_driver_is_touched_before_a_card_is_wanted(machine: Callable[..., Machine]) -> None:
    here = machine()
    backends = here.start(cards=False)
    backends.use()
    assert (here.tried, backends.cards) == (["sapphirerapids"], [])
    backends.use(cards=True)
    assert (here.tried, backends.cards) == (["sapphirerapids", "vulkan"], ["vulkan"])
    backends.use(cards=True)
    assert here.registered == ["sapphirerapids", "vulkan"]


def test_another_driver_is_tried_anew(machine: Callable[..., Machine]) -> None:
    here = machine(vulkan=DIED)
    here.start()
    here.start()
    assert here.tried == []
    here.driver = "driver 2"
    here.start()
    assert here.tried == ["vulkan"]


def test_a_second_call_changes_nothing(machine: Callable[..., Machine]) -> None:
    here = machine()
    backends = here.start()
    backends.use("haswell")
    assert backends.variant == "sapphirerapids"
    assert here.registered == ["sapphirerapids", "vulkan"]
