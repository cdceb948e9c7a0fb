"""Trying a back end in a child: what is learnt from its end, and that the real thing computes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runtime.gguf_header import read_header
from runtime.llama import library, trial_model, trials
from runtime.llama.trials import NoVerdict, fatal_reason, tried
from runtime.llama.verdicts import TriedDevice, Verdict


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a script that runs in the child's place."""
    script = tmp_path / "child.py"
    monkeypatch.setattr(trials, "_command", lambda name: [sys.executable, str(script), name])
    return script


@pytest.mark.parametrize(("name", "reason"), [("SIGILL", "SIGILL"), ("SIGSEGV", "SIGSEGV"), ("SIGABRT", "SIGABRT")])
def test_a_child_that_dies_gives_its_signal_and_its_last_words(child: Path, name: str, reason: str) -> None:
    child.write_text(f"import os, signal, sys\nsys.stderr.write('tilezero\\n\\n'); sys.stderr.flush()\n"
                     f"os.kill(os.getpid(), signal.{name})\n")  # fmt: skip
    assert tried("libggml-cpu-x64.so") == Verdict(reason=reason, details="tilezero")


def test_what_a_child_found_is_read_from_its_last_line(child: Path) -> None:
    found = '{"name": "Vulkan0", "description": "Card", "memory_free": 1, "memory_total": 2}'
    child.write_text(f"""print('noise'); print('{{"devices": [{found}]}}')""")
    assert tried("libggml-vulkan.so") == Verdict(devices=(TriedDevice("Vulkan0", "Card", 1, 2),))


def test_a_child_that_hangs_is_ended(child: Path) -> None:
    child.write_text("import time; time.sleep(60)")
    assert tried("libggml-vulkan.so", seconds=0.5).reason == "timeout"


@pytest.mark.parametrize(
    "script",
    ["raise SystemExit('no room')", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "print('{')"],
    ids=["fails", "is killed from outside", "says nothing sensible"],
)
def test_another_end_is_no_verdict(child: Path, script: str) -> None:
    child.write_text(script)
    with pytest.raises(NoVerdict):
        tried("libggml-cpu-x64.so")


def test_a_program_that_cannot_be_started_is_no_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trials, "_command", lambda _name: [str(tmp_path / "nothing")])
    with pytest.raises(NoVerdict):
        tried("libggml-cpu-x64.so")


def test_windows_own_numbers_are_understood() -> None:
    assert fatal_reason(0xC000001D) == "SIGILL"
    assert fatal_reason(0xC0000005) == "SIGSEGV"
    assert fatal_reason(1) is None
    assert fatal_reason(-signal.SIGTERM) is None


def test_a_name_that_is_no_back_end_of_ours_is_not_loaded() -> None:
    assert tried("libc.so.6") == Verdict(reason="missing", details="libc.so.6")


def test_the_tiny_model_has_every_type_and_is_almost_empty(tmp_path: Path) -> None:
    file = tmp_path / "trial.gguf"
    trial_model.write_trial_model(file)
    header = read_header(file)
    assert {tensor.type for tensor in header.tensors} == set(trial_model.ALL_TYPES)
    assert file.stat().st_blocks * 512 < 65_536


@pytest.mark.parametrize("types", [trial_model.ALL_TYPES, trial_model.COMMON_TYPES], ids=["all", "common"])
def test_a_back_end_that_computes_survives(types: tuple[str, ...]) -> None:
    assert trials._computed(library.load_library(), types, device=None) == Verdict()


def test_wrong_numbers_do_not_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = library.load_library()

    class Wrong:
        def __getattr__(self, name: str) -> object:
            return getattr(functions, name)

        def llama_get_logits_ith(self, _context: object, _at: int) -> list[float]:
            return [0.0, float("nan")] * 128

    verdict = trials._computed(Wrong(), ("F16",), device=None)
    assert verdict.reason == "wrong"
    assert "nan" in verdict.details


def test_the_child_prints_its_verdict_and_nothing_else() -> None:
    code = textwrap.dedent("""
        import sys
        from runtime.llama import trials
        trials._found = lambda name: print("noise", flush=True) or trials.Verdict(reason=name)
        sys.exit(trials.main(["wrong"]))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == '{"reason":"wrong"}\n'
    assert "noise" in done.stderr
