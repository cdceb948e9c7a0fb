"""Says which llama.cpp the bundle carries: the one that is built for packages, or one that a person names."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import llama_package
from console import Console
from set_up_steps import SetUp


@dataclass(frozen=True)
class LlamaSource:
    """A folder that holds the package `llama_cpp`, and the licence texts of it and of llama.cpp."""

    folder: Path
    licences: tuple[Path, ...]


def provide(given: Path | None, version: str, *, work: Path, root: Path, console: Console) -> LlamaSource:
    """Returns what the bundle carries, building it where nothing is named and nothing was built. Raises SetUpError."""
    set_up = SetUp(console, root)
    source = set_up.llama_source()
    licences = (source / "LICENSE.md", source / "vendor" / "llama.cpp" / "LICENSE")
    if given is None:
        folder = llama_package.package_tree(
            version, source=source, build_folder=root / "build", tools=set_up.build_tools, console=console
        )
    elif given.is_dir():
        folder = given
    else:
        folder = work / "llama"
        shutil.rmtree(folder, ignore_errors=True)
        with zipfile.ZipFile(given) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("llama_cpp/")])
    return LlamaSource(folder, licences)
