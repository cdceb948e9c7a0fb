"""What the set-up finds missing in the system, and the one line it gives when it may not install."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from console import Console, SetUpError
from system_packages import (
    COMPILER,
    LIBRARIES,
    WAYLAND_LIBRARIES,
    X11_LIBRARIES,
    apt_prefix,
    has_display,
    install,
    install_command,
    missing_libraries,
    needed_libraries,
)

CURSOR = next(need for need in X11_LIBRARIES if need.name == "libxcb-cursor.so.0")
EGL = next(need for need in LIBRARIES if need.name == "libEGL.so.1")


def only(*programs: str) -> Callable[[str], str | None]:
    """Returns a `which` that finds just these programs."""
    return lambda name: f"/usr/bin/{name}" if name in programs else None


def test_only_what_the_loader_does_not_find_is_missing() -> None:
    missing = missing_libraries(LIBRARIES, loads=lambda name: name != "libEGL.so.1")

    assert missing == [EGL]


def test_the_display_decides_which_libraries_are_needed() -> None:
    assert needed_libraries({}, "Linux") == LIBRARIES
    assert needed_libraries({"DISPLAY": ":0"}, "Linux") == LIBRARIES + X11_LIBRARIES
    assert set(needed_libraries({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, "Linux")) >= set(WAYLAND_LIBRARIES)
    assert needed_libraries({"DISPLAY": ":0"}, "Darwin") == ()


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("apt-get", "sudo apt-get install libegl1 libxcb-cursor0 g++"),
        ("dnf", "sudo dnf install libglvnd-egl xcb-util-cursor gcc-c++"),
        ("pacman", "sudo pacman -S libglvnd xcb-util-cursor gcc"),
        ("zypper", "sudo zypper install 'libEGL.so.1()(64bit)' 'libxcb-cursor.so.0()(64bit)' gcc-c++"),
    ],
)
def test_each_family_gets_its_own_line(manager: str, line: str) -> None:
    assert install_command([EGL, CURSOR, COMPILER], only(manager)) == line


def test_an_unknown_system_is_told_what_to_look_for() -> None:
    assert "libEGL.so.1" in install_command([EGL], only())


def test_packages_that_hold_several_libraries_are_named_once() -> None:
    line = install_command(X11_LIBRARIES, only("pacman"))

    assert line.split().count("libxcb") == 1


def test_apt_needs_root_or_sudo_without_a_password() -> None:
    assert apt_prefix(only("apt-get"), is_root=True) == []
    assert apt_prefix(only("apt-get"), is_root=False) is None
    assert apt_prefix(only("dnf"), is_root=True) is None


def test_without_the_right_to_install_one_line_says_what_is_missing_and_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SetUpError) as stopped:
        install([EGL, CURSOR], Console(tmp_path / "log", io.StringIO()), None)

    assert str(stopped.value).startswith("Missing: libEGL.so.1, libxcb-cursor.so.0. Install with: ")
    assert "\n" not in str(stopped.value)


def test_a_terminal_without_a_display_gets_no_window() -> None:
    assert not has_display({}, "Linux")
    assert has_display({"DISPLAY": ":0"}, "Linux")
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"}, "Linux")
    assert has_display({"QT_QPA_PLATFORM": "offscreen"}, "Linux")
    assert has_display({}, "Windows")
