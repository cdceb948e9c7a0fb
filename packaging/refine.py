"""Makes PyInstaller's folder what is handed out: without debug symbols, second copies and traces of this machine.

Everything here changes the tree in place. Symbols are only dropped where the tool can be had (Linux).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bundle_checks import file_hash, files_below, lost_neighbours, native_files
from console import Console

_LLAMA_NUMBERED = re.compile(r"^lib(?:llama|ggml[\w-]*|mtmd)\.so\.\d+\.\d+(?:\.\d+)?$")
_LLAMA_UNUSED = re.compile(r"^(?:lib)?(?:mtmd|llama-common)\b")  # pictures and llama.cpp's own programs
_EXECUTABLE = 0o111


def refine(tree: Path, console: Console, *, tools: Path, moment: int) -> None:
    """Brings `tree` to its final form. `tools` is a folder that holds patchelf; `moment` is every file's time."""
    drop_unused_llama(tree)
    cache_compiled(tree)
    strip_symbols(tree, console)
    drop_build_paths(tree, console, tools / "patchelf")
    join_copies(tree)
    lead_to_neighbours(tree, console, tools / "patchelf")
    drop_broken_links(tree)
    settle(tree, moment)


def drop_unused_llama(tree: Path) -> None:
    """Removes libraries that llama-cpp-python's wheel may bring and Quern never loads, and long names of others."""
    for path in [*tree.rglob("llama_cpp/lib/*"), *tree.glob("_internal/lib*")]:
        if _LLAMA_UNUSED.match(path.name) or _LLAMA_NUMBERED.match(path.name):
            path.unlink()


def cache_compiled(tree: Path) -> None:
    """Puts a module that lies there compiled and as text into Python's cache folder, so that it is not compiled again.

    PyInstaller marks what it compiles as valid without a look at the source (PEP 552).
    """
    for source in list(tree.rglob("*.py")):
        compiled = source.with_suffix(".pyc")
        if compiled.is_file():
            cached = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
            cached.parent.mkdir(exist_ok=True)
            compiled.replace(cached)


def strip_symbols(tree: Path, console: Console) -> None:
    """Drops what only debuggers read.

    The programs themselves are left alone, for their archives are appended to them; so are libraries that a wheel's
    repair has moved (`numpy.libs`), which strip leaves unaligned.
    """
    if shutil.which("strip") is None:
        return
    for file in list(native_files(tree)):
        if "/" in file.name and ".libs/" not in file.name:
            failure = f"{file.name} could not be stripped."
            console.run(["strip", "--strip-unneeded", str(tree / file.name)], failure=failure)


def drop_build_paths(tree: Path, console: Console, patchelf: Path) -> None:
    """Removes absolute folders of this machine from where native code looks for its libraries."""
    for file in list(native_files(tree)):
        if any(folder.startswith("/") for folder in file.elf.search):
            failure = f"The search path of {file.name} could not be removed."
            console.run([str(patchelf), "--remove-rpath", str(tree / file.name)], failure=failure)


def join_copies(tree: Path) -> list[tuple[str, str]]:
    """Makes links of native files that are there twice; returns each link and what it leads to.

    Of equal files the one that bears the loader's name stays. Where two packages bring a library of the same name (the
    compiler's OpenMP), the one that lies in the bundle's root stays, for every package looks there.
    """
    joined = []
    for names in _sets(tree):
        kept = min(names, key=lambda name: (not _bears_soname(tree, name), name.count("/"), len(name), name))
        for name in sorted(names - {kept}):
            link = tree / name
            link.unlink()
            link.symlink_to(os.path.relpath(tree / kept, link.parent))
            joined.append((name, kept))
    return joined


def lead_to_neighbours(tree: Path, console: Console, patchelf: Path) -> None:
    """Tells native code where in the bundle the libraries lie that it needs.

    The program's starter names that folder to the loader, but only for the first process: those that it starts must
    find the compiler's OpenMP and others on a system that has none.
    """
    for name, search in lost_neighbours(tree):
        failure = f"{name} could not be told where its libraries lie."
        console.run([str(patchelf), "--add-rpath", search, str(tree / name)], failure=failure)


def _sets(tree: Path) -> Iterator[set[str]]:
    """Yields sets of native files that are one and the same for the loader."""
    by_content: dict[str, set[str]] = defaultdict(set)
    by_soname: dict[str, set[str]] = defaultdict(set)
    for file in native_files(tree):
        by_content[file_hash(tree / file.name)].add(file.name)
        by_soname[file.elf.soname or file.name].add(file.name)
    merged: list[set[str]] = []
    for names in [*by_content.values(), *by_soname.values()]:
        touching = [known for known in merged if known & names]
        merged = [known for known in merged if not known & names]
        merged.append(names.union(*touching))
    yield from (names for names in merged if len(names) > 1)


def _bears_soname(tree: Path, name: str) -> bool:
    from elf import read_elf

    return read_elf(tree / name).soname == name.rsplit("/", 1)[-1]


def drop_broken_links(tree: Path) -> None:
    """Removes links that lead to nothing in the tree."""
    for path in list(tree.rglob("*")):
        if path.is_symlink() and not path.exists():
            path.unlink()


def settle(tree: Path, moment: int) -> None:
    """Gives every file plain permissions (read by all, written by the owner) and the time `moment`."""
    for path in files_below(tree):
        runs = path.stat().st_mode & _EXECUTABLE and (path.parent == tree or ".so" in path.name or not path.suffix)
        path.chmod(0o755 if runs else 0o644)
    for folder, _folders, names in os.walk(tree):
        for name in names:
            os.utime(Path(folder, name), (moment, moment), follow_symlinks=False)
        os.chmod(folder, 0o755)
        os.utime(folder, (moment, moment))
