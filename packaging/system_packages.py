"""Finds the system's libraries, compiler and Chinese font that Quern needs, and installs what is missing.

Only apt is driven, and only when that needs no password; elsewhere the person gets one line to run. Nothing is asked of
the package manager when nothing is missing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from console import Console, SetUpError


@dataclass(frozen=True)
class Need:
    """Something the system must have: what it is called, and the package that holds it in each family."""

    name: str
    debian: str
    fedora: str
    arch: str


# What Qt's libraries and plugins and llama.cpp link with beyond what their Python packages bring along (the NEEDED
# entries of those files); the second and third table only where such a display is. Debian's t64 packages still answer
# to the names below.
LIBRARIES = (
    Need("libEGL.so.1", "libegl1", "libglvnd-egl", "libglvnd"),
    Need("libGL.so.1", "libgl1", "libglvnd-glx", "libglvnd"),
    Need("libX11.so.6", "libx11-6", "libX11", "libx11"),
    Need("libxkbcommon.so.0", "libxkbcommon0", "libxkbcommon", "libxkbcommon"),
    Need("libfontconfig.so.1", "libfontconfig1", "fontconfig", "fontconfig"),
    Need("libfreetype.so.6", "libfreetype6", "freetype", "freetype2"),
    Need("libglib-2.0.so.0", "libglib2.0-0", "glib2", "glib2"),
    Need("libdbus-1.so.3", "libdbus-1-3", "dbus-libs", "dbus"),
    Need("libgssapi_krb5.so.2", "libgssapi-krb5-2", "krb5-libs", "krb5"),
    Need("libbrotlidec.so.1", "libbrotli1", "libbrotli", "brotli"),
    Need("libz.so.1", "zlib1g", "zlib-ng-compat", "zlib"),
    Need("libzstd.so.1", "libzstd1", "libzstd", "zstd"),
    Need("libstdc++.so.6", "libstdc++6", "libstdc++", "gcc-libs"),
    Need("libgomp.so.1", "libgomp1", "libgomp", "gcc-libs"),
)
X11_LIBRARIES = (
    Need("libX11-xcb.so.1", "libx11-xcb1", "libX11-xcb", "libx11"),
    Need("libxkbcommon-x11.so.0", "libxkbcommon-x11-0", "libxkbcommon-x11", "libxkbcommon-x11"),
    Need("libxcb.so.1", "libxcb1", "libxcb", "libxcb"),
    Need("libxcb-cursor.so.0", "libxcb-cursor0", "xcb-util-cursor", "xcb-util-cursor"),
    Need("libxcb-glx.so.0", "libxcb-glx0", "libxcb", "libxcb"),
    Need("libxcb-icccm.so.4", "libxcb-icccm4", "xcb-util-wm", "xcb-util-wm"),
    Need("libxcb-image.so.0", "libxcb-image0", "xcb-util-image", "xcb-util-image"),
    Need("libxcb-keysyms.so.1", "libxcb-keysyms1", "xcb-util-keysyms", "xcb-util-keysyms"),
    Need("libxcb-randr.so.0", "libxcb-randr0", "libxcb", "libxcb"),
    Need("libxcb-render.so.0", "libxcb-render0", "libxcb", "libxcb"),
    Need("libxcb-render-util.so.0", "libxcb-render-util0", "xcb-util-renderutil", "xcb-util-renderutil"),
    Need("libxcb-shape.so.0", "libxcb-shape0", "libxcb", "libxcb"),
    Need("libxcb-shm.so.0", "libxcb-shm0", "libxcb", "libxcb"),
    Need("libxcb-sync.so.1", "libxcb-sync1", "libxcb", "libxcb"),
    Need("libxcb-util.so.1", "libxcb-util1", "xcb-util", "xcb-util"),
    Need("libxcb-xfixes.so.0", "libxcb-xfixes0", "libxcb", "libxcb"),
    Need("libxcb-xkb.so.1", "libxcb-xkb1", "libxcb", "libxcb"),
)
WAYLAND_LIBRARIES = (
    Need("libwayland-client.so.0", "libwayland-client0", "libwayland-client", "wayland"),
    Need("libwayland-cursor.so.0", "libwayland-cursor0", "libwayland-cursor", "wayland"),
)
COMPILER = Need("a C++ compiler", "g++", "gcc-c++", "gcc")
# WenQuanYi Micro Hei (2 MB): a clean sans serif made for screens. Noto Sans CJK has more weights and is 57 MB;
# WenQuanYi Zen Hei is 7 MB and brings bitmaps that look coarse at small sizes.
CHINESE_FONT = Need("a Chinese font", "fonts-wqy-microhei", "wqy-microhei-fonts", "wqy-microhei")
_FONT_HINTS = ("*CJK*", "*wqy*", "*DroidSansFallback*", "*SourceHan*", "uming*", "ukai*")


def python_venv() -> Need:
    """Returns the package that lets this Python make environments (Debian keeps it apart)."""
    return Need("Python's venv module", f"python3.{sys.version_info.minor}-venv", "python3", "python")


def loads(library: str) -> bool:
    """Says whether the system's loader finds `library`."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def needed_libraries(environ: Mapping[str, str] = os.environ, system: str = platform.system()) -> tuple[Need, ...]:
    """Returns the libraries that this session needs; only Linux leaves them to its package manager."""
    if system != "Linux":
        return ()
    x11 = X11_LIBRARIES if environ.get("DISPLAY") else ()
    return LIBRARIES + x11 + (WAYLAND_LIBRARIES if environ.get("WAYLAND_DISPLAY") else ())


def missing_libraries(needed: Iterable[Need], loads: Callable[[str], bool] = loads) -> list[Need]:
    """Returns those of `needed` that the system lacks."""
    return [need for need in needed if not loads(need.name)]


def missing_for_venv() -> list[Need]:
    """Returns what this Python lacks to make environments."""
    return [] if importlib.util.find_spec("ensurepip") else [python_venv()]


def missing_compiler(which: Callable[[str], str | None] = shutil.which) -> list[Need]:
    """Returns the compiler when Linux has none. CMake and Ninja come from the package index, and find the others."""
    if platform.system() != "Linux":
        return []
    cxx = os.environ.get("CXX", "").split()[:1]
    return [] if any(which(name) for name in (*cxx, "g++", "clang++", "c++")) else [COMPILER]


def has_chinese_font() -> bool:
    """Says whether some installed font shows Chinese."""
    if shutil.which("fc-list"):
        done = subprocess.run(["fc-list", ":lang=zh", "file"], capture_output=True, text=True, check=False)
        return bool(done.stdout.strip())
    folders = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".local/share/fonts")
    return any(next(folder.rglob(hint), None) for folder in folders for hint in _FONT_HINTS)


def _capability(need: Need) -> str:
    """Names a library as RPM packages do, whatever the package is called."""
    return f"'{need.name}()(64bit)'" if ".so." in need.name else need.fedora


_MANAGERS: tuple[tuple[str, str, Callable[[Need], str]], ...] = (
    ("apt-get", "sudo apt-get install {}", lambda need: need.debian),
    ("dnf", "sudo dnf install {}", lambda need: need.fedora),
    ("pacman", "sudo pacman -S {}", lambda need: need.arch),
    ("zypper", "sudo zypper install {}", _capability),
)


def install_command(needs: Iterable[Need], which: Callable[[str], str | None] = shutil.which) -> str:
    """Returns the line that installs `needs` here, for a person to run; without a known manager, what to look for."""
    needs = list(needs)
    for program, line, package in _MANAGERS:
        if which(program):
            return line.format(" ".join(dict.fromkeys(package(need) for need in needs)))
    return "your package manager, looking for " + ", ".join(need.name for need in needs)


def apt_prefix(which: Callable[[str], str | None] = shutil.which, is_root: bool | None = None) -> list[str] | None:
    """Returns what goes before apt-get to install without a question: nothing for root, sudo, or None if impossible."""
    if which("apt-get") is None:
        return None
    if os.geteuid() == 0 if is_root is None else is_root:
        return []
    if which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        return ["sudo", "-n"]
    return None


def install(needs: list[Need], console: Console, prefix: list[str] | None) -> None:
    """Installs `needs` with apt, or raises SetUpError with the one line that does it."""
    names = _listed([need.name for need in needs])
    advice = f"Missing: {names}. Install with: {install_command(needs)}"
    if prefix is None:
        raise SetUpError(advice)
    with console.step("Installing system packages with apt", "about a minute"):
        _apt_install([need.debian for need in needs], console, prefix, advice)


def _listed(names: list[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _apt_install(packages: list[str], console: Console, prefix: list[str], advice: str) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = [*prefix, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    command = [*apt, "install", "-y", "--no-install-recommends", *packages]
    # The lists may be absent (containers) or name files that the mirror has replaced: refresh them, but only then.
    if console.attempt(command, on_line=console.progress, env=env)[0] == 0:
        return
    console.attempt([*apt, "update"], on_line=console.progress, env=env)
    console.run(command, failure=f"apt could not install what is missing. {advice}", on_line=console.progress, env=env)


def has_display(environ: Mapping[str, str] = os.environ, system: str = platform.system()) -> bool:
    """Says whether a window can be shown; naming a Qt platform (offscreen, vnc …) counts as a yes."""
    if system != "Linux":
        return True
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))
