"""Says in one sentence why no window can open, before Qt would abort. Imports no Qt."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from runtime.errors import UserError
from runtime.text import _


class NoDisplay(UserError):
    """There is no screen to open a window on."""

    code = "no_display"

    def __init__(self) -> None:
        super().__init__(
            _("Quern cannot open its window: there is no display."),
            _("Neither DISPLAY nor WAYLAND_DISPLAY is set."),
            _("Start Quern from a desktop, or chat in this terminal with “quern chat”."),
        )


class PlatformLibraryMissing(UserError):
    """A system library that Qt needs for its window is not installed."""

    code = "platform_library_missing"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("Quern cannot open its window: a system library is missing."),
            reason,
            _("On Debian and Ubuntu, install libxcb-cursor0; elsewhere, the package named xcb-util-cursor."),
        )


def check_platform() -> None:
    """Raises `NoDisplay` or `PlatformLibraryMissing` where Qt would abort the process instead of opening a window."""
    if not sys.platform.startswith("linux") or os.environ.get("QT_QPA_PLATFORM"):
        return
    if os.environ.get("WAYLAND_DISPLAY"):
        return
    if not os.environ.get("DISPLAY"):
        raise NoDisplay
    _check_xcb()


def _check_xcb() -> None:
    import ctypes  # not needed under Wayland, on macOS and on Windows

    plugin = _xcb_plugin()
    if plugin is None:
        return
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        raise PlatformLibraryMissing(str(error)) from error


def _xcb_plugin() -> Path | None:
    """Returns Qt's X11 plugin; None where Qt is laid out in another way, and Qt itself has to find it."""
    found = importlib.util.find_spec("PySide6")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    plugin = folder / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    return plugin if plugin.is_file() else None
