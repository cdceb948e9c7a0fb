"""The door of the program: who is called, and what is imported for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from desktop import __main__ as door

ROOT = Path(__file__).resolve().parents[2]


def _imported(program: str) -> set[str]:
    """Returns the top-level modules that a process has imported after `program`."""
    code = f"import sys; {program}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return {name.split(".")[0] for name in done.stdout.splitlines()}


def test_an_engine_process_imports_neither_click_nor_qt():
    program = (
        "from desktop import __main__; from runtime import worker; worker.main = lambda argv: 0;"
        "assert __main__.main(['engine']) == 0"
    )
    assert _imported(program) & {"click", "rich", "PySide6", "prompt_toolkit", "torch"} == set()


def test_help_imports_nothing_heavy():
    program = (
        "from desktop import __main__; import io; sys.stdout, kept = io.StringIO(), sys.stdout;"
        "__main__.main(['--help']); sys.stdout = kept"
    )
    heavy = {"rich", "PySide6", "prompt_toolkit", "torch", "llama_cpp", "numpy", "psutil", "gguf", "jinja2"}
    assert _imported(program) & heavy == set()


def _called(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> str:
    """Returns which part of the program is called for `words`."""
    from desktop.cli import main as command_line

    calls: list[str] = []
    window = type(sys)("desktop.app")
    window.main = lambda words: calls.append("window") or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "desktop.app", window)
    monkeypatch.setattr("desktop.app", window, raising=False)
    monkeypatch.setattr(command_line, "run", lambda words: calls.append("command line") or 0)
    assert door.main(words) == 0
    return calls[0]


def test_an_interrupt_before_the_command_has_begun_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def interrupted(_words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("desktop.cli.main.run", interrupted)
    assert door.main(["models"]) == 130


def test_no_word_opens_the_window(monkeypatch: pytest.MonkeyPatch):
    assert _called(monkeypatch, []) == "window"


def test_a_model_file_opens_the_window(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "model.GGUF"
    file.touch()
    assert _called(monkeypatch, [str(file)]) == "window"
    assert _called(monkeypatch, [str(tmp_path / "gone.gguf")]) == "command line"


def test_a_command_goes_to_the_command_line(monkeypatch: pytest.MonkeyPatch):
    assert _called(monkeypatch, ["chat"]) == "command line"
    assert _called(monkeypatch, ["--version"]) == "command line"


def test_ctrl_c_before_the_guard_stands_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def interrupted(_run: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("desktop.cli.guard.guarded", interrupted)
    monkeypatch.setattr(sys, "argv", ["quern", "models"])
    assert door.main() == 130
