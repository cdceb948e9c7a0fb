"""Which way typed keys take to an input method on Linux, settled before Qt starts. Imports no Qt and asks no bus.

Qt as it is packaged for Python brings a plugin for IBus and none for fcitx. fcitx also answers as IBus does, but Qt
looks for it only at the IBus portal where no ibus-daemon is installed: asked for by name alone, neither input methods
nor dead keys would work.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Collection, MutableMapping
from pathlib import Path

_LIST, _NAME, _PORTAL = "QT_IM_MODULES", "QT_IM_MODULE", "IBUS_USE_PORTAL"
_HINTS = ("XMODIFIERS", "GTK_IM_MODULE")  # what other programs of the same session go by
_FCITX, _IBUS = "fcitx", "ibus"
_WAY = "ibus;compose"  # compose: dead keys, where the input method does not run


def choose_input_method(environment: MutableMapping[str, str] | None = None) -> None:
    """Sets what Qt reads in the environment, so that the input method that the session asks for is reached."""
    if sys.platform.startswith("linux"):
        environment = os.environ if environment is None else environment
        environment.update(changes(environment, plugins=_plugins(environment), has_ibus=_has_ibus(environment)))


def changes(environment: MutableMapping[str, str], *, plugins: Collection[str], has_ibus: bool) -> dict[str, str]:
    """Returns what has to be set: nothing where Qt finds its way alone, or the person chose something else.

    `plugins` are the input methods that Qt has a plugin for, `has_ibus` says whether IBus itself is installed.
    """
    wanted = [name for name in (environment.get(_LIST) or environment.get(_NAME, "")).split(";") if name]
    hints = " ".join(environment.get(name, "") for name in _HINTS)
    if _IBUS not in plugins or any(name not in (_IBUS, *_named(_FCITX, wanted)) for name in wanted):
        return {}
    if not wanted and environment.get("WAYLAND_DISPLAY"):
        return {}  # the compositor passes the input method on
    asked = " ".join(wanted) or hints
    if _FCITX in asked and not any(name.startswith(_FCITX) for name in plugins):
        return {_LIST: _WAY, _PORTAL: environment.get(_PORTAL, "1")}
    if _IBUS in asked and _FCITX in hints and not has_ibus:
        return {_LIST: _WAY, _PORTAL: environment.get(_PORTAL, "1")}
    return {_LIST: _WAY} if _IBUS in asked else {}


def _named(start: str, names: Collection[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]


def _has_ibus(environment: MutableMapping[str, str]) -> bool:
    return shutil.which("ibus-daemon", path=environment.get("PATH")) is not None


def _plugins(environment: MutableMapping[str, str]) -> set[str]:
    """Returns the names of the input methods that Qt can load a plugin for."""
    found = importlib.util.find_spec("PySide6")
    folders = [Path(place) / "Qt" / "plugins" for place in (found.submodule_search_locations or ())] if found else []
    folders += [Path(place) for place in environment.get("QT_PLUGIN_PATH", "").split(os.pathsep) if place]
    files = [file.name for folder in folders for file in (folder / "platforminputcontexts").glob("lib*.so")]
    return {name.removeprefix("lib").partition("platforminputcontext")[0] for name in files}
