"""What the doctor looks at in a process of its own, because it may end that process. Prints one JSON object.

A probe that dies (a missing library, an illegal instruction, Qt's abort) is a finding of the doctor, not its end.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from runtime.text import sentences

_SECONDS = 60
_PUT_RIGHT = 2  # the exit code for what a person can put right; the error's advice is its last line


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a probe printed, or how it ended: `status` is negative for a signal, None for a time-out."""

    found: dict[str, Any]
    status: int | None
    stderr: str

    @property
    def last_words(self) -> str:
        """What the probe said before it ended: an error's title and cause, without its advice, or else one line."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        if self.status == _PUT_RIGHT and len(lines) > 1:
            return sentences(*lines[:-1])
        return lines[-1] if lines else ""


def probe(name: str, *, environment: Mapping[str, str] | None = None) -> Outcome:
    """Runs one probe in a child process and returns what it found."""
    try:
        done = subprocess.run(
            _command(name), capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})}, cwd=_root(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome({}, None, "")
    found = _decoded(done.stdout) if done.returncode == 0 else {}
    return Outcome(found, done.returncode, done.stderr.decode("utf-8", "replace"))


def _command(name: str) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "doctor", "--probe", name]
    return [sys.executable, "-m", "desktop", "doctor", "--probe", name]


def _root() -> Path | None:
    return None if getattr(sys, "frozen", False) else Path(__file__).resolve().parents[2]


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data.strip().splitlines()[-1], type=dict[str, Any])
    except (msgspec.DecodeError, IndexError):
        return {}


def llama() -> dict[str, Any]:
    """Loads llama.cpp and returns how it was built and what it can compute on. Raises `EngineLibraryMissing`.

    Back ends that failed before are tried again: a driver may have been mended.
    """
    from runtime.llama import library

    library.load_library_again()
    cards = [device for device in library.devices() if device.is_card]
    memory = {card.name: library.device_memory(card) for card in cards}
    return {
        "build": library.build_description(), "devices": list(library.device_names()), "memory": memory,
        "backends": msgspec.to_builtins(library.backend_report()), "lines": library.backend_report().lines(),
    }  # fmt: skip


def qt() -> dict[str, Any]:
    """Starts Qt with the platform that the environment names and returns what it runs on."""
    from PySide6 import QtCore, QtGui

    application = QtGui.QGuiApplication([])
    return {"version": QtCore.qVersion(), "platform": application.platformName()}


def xcb() -> dict[str, Any]:
    """Loads Qt's X11 plugin without a display; the loader's complaint names the library that is missing."""
    import PySide6

    plugins = Path(PySide6.__file__).parent / "Qt" / "plugins" / "platforms"
    try:
        ctypes.CDLL(str(plugins / "libqxcb.so"))
    except OSError as error:
        return {"missing": str(error)}
    return {"missing": ""}


# What must be importable beside the engines, and what must load beside Qt's own platform.
_MODULES = ("tokenizers", "safetensors", "llguidance", "pygments.lexers.python", "markdown_it", "prompt_toolkit",
             "PySide6.QtSvg", "PySide6.QtNetwork")  # fmt: skip
_OF_THE_DESKTOP = ("qgtk3", "wayland", "egl", "xcb")  # a desktop that these belong to has what they link with


def parts() -> dict[str, Any]:
    """Imports what the window and the converter use, and loads Qt's plugins; returns what failed, by name."""
    failed = {}
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            failed[name] = str(error)
    from PySide6.QtCore import QLibraryInfo, QPluginLoader

    from desktop.chat.view import formulas

    try:
        formulas.draw(formulas.FormulaKey("$x^2$", 15.0, 1.0))  # takes fonts and tables that lie beside the modules
    except (ImportError, OSError) as error:
        failed["ziamath"] = str(error)

    folder = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath))
    plugins = [path for path in sorted(folder.glob("*/*")) if path.suffix in (".so", ".dll", ".dylib")]
    for path in plugins:
        loader = QPluginLoader(str(path))
        if not loader.load():
            failed[f"{path.parent.name}/{path.name}"] = loader.errorString()
    needed = {name: why for name, why in failed.items() if not any(part in name for part in _OF_THE_DESKTOP)}
    return {"count": len(_MODULES) + len(plugins), "failed": needed}


PROBES: dict[str, Callable[[], dict[str, Any]]] = {"llama": llama, "qt": qt, "xcb": xcb, "parts": parts}
