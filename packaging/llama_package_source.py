"""Says which llama.cpp the bundle carries: the one that is built for packages, or one that a person names."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from console import Console, SetUpError


def folder(given: Path | None, version: str, *, work: Path, root: Path, console: Console) -> Path:
    """Returns a folder that holds the package `llama_cpp`. Raises SetUpError."""
    if given is None:
        raise SetUpError("Name llama.cpp with --llama.")
    if given.is_dir():
        return given
    target = work / "llama"
    shutil.rmtree(target, ignore_errors=True)
    with zipfile.ZipFile(given) as wheel:
        wheel.extractall(target, [name for name in wheel.namelist() if name.startswith("llama_cpp/")])
    return target
