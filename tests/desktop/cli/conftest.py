"""The command line run in this process, with a fake engine where one is asked for."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import tiny_gguf
from command_line import Opened, Result, Run
from desktop.cli.main import run as run_command_line
from fake_engine import FakeEngine
from runtime import engines


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `quern ARGUMENTS` with `stdin` as piped input."""

    def call(*arguments: str, stdin: bytes | str = b"") -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace"))
        capfd.readouterr()
        code = run_command_line(list(arguments))
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real model file."""
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Replaces every engine by a fake one."""
    stand_in = Opened(FakeEngine())
    monkeypatch.setattr(engines, "open_engine", stand_in)
    return stand_in


@pytest.fixture
def engine(opened: Opened) -> FakeEngine:
    """The fake engine that every command gets."""
    return opened.engine
