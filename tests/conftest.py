"""What every test stands on: offscreen Qt, a home of its own, English, and no network."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

import engines
from patient_qtbot import PatientQtBot

hypothesis.settings.register_profile("exploring", deadline=None)  # new examples in every run: `make acceptance`
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["LANGUAGE"] = os.environ["LC_ALL"] = "C.UTF-8"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a script starts in its background ignores Ctrl-C, and so
    signal.signal(signal.SIGINT, signal.default_int_handler)  # would every process that a test starts


@pytest.fixture(autouse=True)
def quern_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder for settings, chats and models, so that no test sees a person's own."""
    home = tmp_path / "quern-home"
    monkeypatch.setenv("QUERN_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def person_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, so that no test sees what other programs keep on the developer's machine."""
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "XDG_CACHE_HOME",
                 "XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_MODELS", str(home / ".ollama" / "models"))  # not the machine's
    return home


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> PatientQtBot:
    """pytest-qt's robot with the patience that a busy machine asks for."""
    return PatientQtBot(request)


@pytest.fixture(autouse=True)
def _no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting anywhere but to this machine fails the test.

    `tmp_path` is named first: when a test's folder is removed, what the test replaced is itself again.
    """
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0] if isinstance(address, tuple) else ""
            assert host in {"127.0.0.1", "::1", "localhost"}, f"a test tried to reach {address}"
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


class _Libraries:
    """What the imported libraries are made of: hundreds of thousands of objects that stay for good."""

    _MANY = 50  # modules more than last time

    def __init__(self) -> None:
        self._modules = 0

    def set_aside(self) -> None:
        """Looks through them once; a collection that follows does not, and is a hundred times quicker."""
        if len(sys.modules) > self._modules + self._MANY:
            self._modules = len(sys.modules)
            gc.unfreeze()
            gc.collect()
            gc.freeze()


@pytest.fixture(scope="session")
def _libraries() -> _Libraries:
    return _Libraries()


@pytest.fixture(autouse=True)
def _quick_collections(_libraries: _Libraries) -> None:
    """Keeps the collections of garbage short: engines collect when they close."""
    _libraries.set_aside()


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """What passes once passes always: numbers that a test draws without a seed of its own are the same in every run."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def _close_engines(tmp_path: Path) -> Iterator[None]:
    """A model that a test opened is gone before its folder is; those of wider fixtures, opened before, stay."""
    already = len(engines.OPEN)
    yield
    while len(engines.OPEN) > already:
        engines.OPEN.pop().close()
