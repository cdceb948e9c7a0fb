"""Who may import what: the layers of the house, and the files that heavy libraries are kept in.

Every import counts, also one inside a function or by `import_module("name")`, except where a table says "lazily".
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent

# A package, and the packages of ours that it may import besides itself.
LAYERS = {
    "desktop": {"runtime", "convert", "resources"},
    "convert": {"runtime", "resources"},
    "runtime": {"resources"},
    "resources": set(),
}
# A heavy library, and the files (or folders, with a slash at the end) that may import it.
HEAVY: dict[str, set[str]] = {
    "llama_cpp": {"runtime/llama/library.py"},
    "torch": {"runtime/native/", "runtime/torch_file.py"},
    "gguf": set(),
    "transformers": set(),
    "PySide6": {"desktop/"},
    "pyqtgraph": set(),
    "ziamath": {"desktop/chat/view/formulas.py"},
}
# Inside an allowed folder: files that may import the library only in a function (a child that `quern doctor` starts to
# try Qt, for one), and folders that may not import it otherwise.
LAZILY = {
    "PySide6": {"desktop/__main__.py", "desktop/cli/probes.py"},
    "ziamath": {"desktop/chat/view/formulas.py"},
}
NEVER = {"PySide6": {"desktop/cli/"}}
PACKAGES = tuple(LAYERS)


class Import(NamedTuple):
    """One import: the top-level name it loads, its line, and whether it runs only when a function is called."""

    name: str
    line: int
    lazy: bool


def imports_in(source: str) -> Iterator[Import]:
    """Yields every import of a module's source but those of its own package by relative name."""
    yield from _walk(ast.parse(source), lazy=False)


def _walk(node: ast.AST, *, lazy: bool) -> Iterator[Import]:
    for name in _imported_by(node):
        yield Import(name.split(".")[0], node.lineno, lazy)  # type: ignore[attr-defined]
    inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, lazy=inside)


def _imported_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(func=ast.Name(id="__import__" | "import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
    return []


def layer_faults(path: str, source: str) -> list[str]:
    """Returns what breaks the layering in the file at `path` (relative to the root, with slashes)."""
    package = path.split("/")[0]
    forbidden = set(PACKAGES) - {package} - LAYERS[package]
    return [f"{path}:{line} imports {name}" for name, line, _ in imports_in(source) if name in forbidden]


def heavy_faults(path: str, source: str) -> list[str]:
    """Returns the imports of heavy libraries that do not belong in the file at `path`."""
    return [
        f"{path}:{found.line} imports {found.name}"
        for found in imports_in(source)
        if found.name in HEAVY and not _may_import(path, found)
    ]


def _may_import(path: str, found: Import) -> bool:
    if _listed(path, LAZILY.get(found.name, set())):
        return found.lazy
    return _listed(path, HEAVY[found.name]) and not _listed(path, NEVER.get(found.name, set()))


def _listed(path: str, places: set[str]) -> bool:
    return any(path == place or (place.endswith("/") and path.startswith(place)) for place in places)


def sources(*folders: str) -> list[tuple[str, str]]:
    """Returns (path relative to the root, source) of every Python file in `folders`."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return [(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files]


def test_each_package_imports_only_the_layers_below_it() -> None:
    assert [fault for path, source in sources(*PACKAGES) for fault in layer_faults(path, source)] == []


def test_heavy_libraries_are_imported_only_in_the_files_made_for_them() -> None:
    assert [fault for path, source in sources(*PACKAGES) for fault in heavy_faults(path, source)] == []


def test_the_files_named_for_heavy_libraries_exist_and_use_them() -> None:
    named = [(library, place) for library, places in HEAVY.items() for place in places if place.endswith(".py")]

    for library, place in named:
        source = (ROOT / place).read_text(encoding="utf-8")
        assert library in {found.name for found in imports_in(source)}, f"{place} does not import {library} any more"


@pytest.mark.parametrize("folder", ["packaging", "tests"])
def test_folders_that_are_no_packages_hold_no_init_file(folder: str) -> None:
    assert list((ROOT / folder).rglob("__init__.py")) == []


def test_every_folder_of_sources_is_a_package() -> None:
    """setuptools leaves a folder without __init__.py out of what it installs."""
    folders = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")}

    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []


def test_the_set_up_needs_nothing_but_pythons_own_library() -> None:
    """It runs before anything is installed: set_up.py, and the scripts beside it that it leads to."""
    scripts = {Path(path).stem: source for path, source in sources("packaging")}
    waiting, seen, foreign = ["set_up"], set[str](), list[str]()

    while waiting:
        script = waiting.pop()
        seen.add(script)
        names = {found.name for found in imports_in(scripts[script])}
        waiting += [name for name in names if name in scripts and name not in seen]
        foreign += [f"{script} imports {name}" for name in names - scripts.keys() - sys.stdlib_module_names]

    assert {"console", "llama_wheel", "system_packages"} <= seen
    assert foreign == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/a.py", "import desktop.app"),
        ("runtime/a.py", "def f():\n    from convert.options import X"),
        ("convert/a.py", "import_module('desktop')"),
        ("resources/a.py", "from runtime import text"),
    ],
)
def test_an_import_of_a_higher_layer_is_found(path: str, source: str) -> None:
    assert layer_faults(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/engine.py", "import torch"),
        ("runtime/llama/context.py", "def f():\n    import llama_cpp"),
        ("runtime/text.py", "from PySide6.QtCore import QObject"),
        ("desktop/cli/chat.py", "def f():\n    from PySide6 import QtCore"),
        ("desktop/__main__.py", "from PySide6 import QtCore"),
        ("desktop/app.py", "import importlib\nimportlib.import_module('torch.nn')"),
    ],
)
def test_a_heavy_import_in_the_wrong_place_is_found(path: str, source: str) -> None:
    assert heavy_faults(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/llama/library.py", "import llama_cpp"),
        ("desktop/main_window.py", "from PySide6 import QtWidgets"),
        ("desktop/__main__.py", "def main():\n    from PySide6 import QtWidgets"),
    ],
)
def test_a_heavy_import_in_its_own_place_is_allowed(path: str, source: str) -> None:
    assert heavy_faults(path, source) == []
