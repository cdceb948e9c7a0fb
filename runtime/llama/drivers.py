"""Whether a graphics card's driver is installed, without loading it: a broken one could end the process.

What is found also says when a card has to be tried anew: other drivers, other cards, other variables of the drivers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

_VARIABLES = ("GGML_VK_VISIBLE_DEVICES", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "CUDA_VISIBLE_DEVICES")
_CARDS = Path("/dev/dri")
_NVIDIA = Path("/proc/driver/nvidia/version")
_SYSTEM_FOLDERS = (Path("/usr/share"), Path("/etc"))


def identity(kind: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns a text that changes with the drivers for a kind of back end ("vulkan"); empty where there is none."""
    finder: Callable[[Mapping[str, str]], Iterable[str]] = _FINDERS.get(kind, lambda _environ: [kind])
    found = sorted(finder(environ))
    if not found:
        return ""
    cards = sorted(path.name for path in _CARDS.glob("renderD*"))
    return "\n".join([*found, *cards, *(f"{name}={environ[name]}" for name in _VARIABLES if name in environ)])


def _vulkan(environ: Mapping[str, str]) -> Iterator[str]:
    """The manifests that Vulkan's loader reads. Source: the loader's document on finding drivers."""
    if sys.platform == "win32":
        yield from _stamped([Path(environ.get("SystemRoot", "C:/Windows")) / "System32" / "vulkan-1.dll"])
        return
    named = environ.get("VK_DRIVER_FILES") or environ.get("VK_ICD_FILENAMES")
    if named:
        yield from _stamped(Path(name) for name in named.split(os.pathsep))
        return
    for folder in _data_folders(environ):
        yield from _stamped((folder / "vulkan" / "icd.d").glob("*.json"))


def _data_folders(environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME", "/"), ".local", "share")
    shared = environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    named = [Path(folder) for folder in (home, *shared.split(":")) if folder]
    return list(dict.fromkeys([*named, *_SYSTEM_FOLDERS]))


def _cuda(environ: Mapping[str, str]) -> Iterator[str]:
    if sys.platform == "win32":
        yield from _stamped([Path(environ.get("SystemRoot", "C:/Windows")) / "System32" / "nvcuda.dll"])
    elif _NVIDIA.is_file():
        yield _NVIDIA.read_text(encoding="utf-8", errors="replace")


def _stamped(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        yield f"{file} {status.st_size} {status.st_mtime_ns}"


_FINDERS: dict[str, Callable[[Mapping[str, str]], Iterable[str]]] = {"vulkan": _vulkan, "cuda": _cuda}
