"""Questions about a finished bundle: native code that is there twice, that is too new, or that nobody brings.

They read the tree at hand, and nothing about how it was made. Run as a script, prints what is wrong and fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elf import Elf, is_elf, read_elf

# The oldest C and C++ libraries that the application promises to start with: those of Debian 12, whose Python and
# libraries it is built from. Ubuntu 24.04, Fedora 37 and openSUSE Leap 16 are newer.
NEWEST_ALLOWED = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12,)}
_VERSION = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)$")


@dataclass(frozen=True)
class NativeFile:
    """One ELF file of a bundle. `name` is its path in it."""

    name: str
    elf: Elf


def native_files(tree: Path) -> Iterator[NativeFile]:
    """Yields every ELF file below `tree`, in the order of names; links are passed over."""
    for path in files_below(tree):
        if path.stat().st_size >= 64 and is_elf(path):
            yield NativeFile(path.relative_to(tree).as_posix(), read_elf(path))


def files_below(tree: Path) -> Iterator[Path]:
    """Yields the ordinary files below `tree`, sorted by their names."""
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def too_new(files: Iterable[NativeFile], allowed: Mapping[str, tuple[int, ...]] = NEWEST_ALLOWED) -> list[str]:
    """Returns a line for each file that needs a newer C or C++ library than is allowed."""
    problems = []
    for file in files:
        for wanted in sorted({version for versions in file.elf.versions.values() for version in versions}):
            family, version = version_of(wanted)
            if family in allowed and version > allowed[family]:
                problems.append(f"{file.name} needs {wanted}")
    return problems


def lost_neighbours(tree: Path) -> list[tuple[str, str]]:
    """Returns each file that needs a library of the bundle's root and does not look there, and the path it lacks."""
    inside = tree / "_internal" if (tree / "_internal").is_dir() else tree  # where PyInstaller puts what is no program
    in_root = {path.name for path in inside.iterdir() if ".so" in path.name}
    lost = []
    for file in native_files(inside):
        way = os.path.relpath(inside, (inside / file.name).parent)
        search = "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
        if in_root & set(file.elf.needed) and search not in file.elf.search:
            lost.append(((inside / file.name).relative_to(tree).as_posix(), search))
    return lost


def newest(files: Iterable[NativeFile]) -> dict[str, str]:
    """Returns the newest version that any file needs of each library family: {"GLIBC": "2.34", …}."""
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        for versions in file.elf.versions.values():
            for family, version in map(version_of, versions):
                if family in NEWEST_ALLOWED:
                    found[family] = max(found.get(family, ()), version)
    return {family: ".".join(map(str, version)) for family, version in sorted(found.items())}


def version_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Splits "GLIBC_2.34" into its family and its numbers; what is no such version has none."""
    told = _VERSION.match(text)
    return (told[1], tuple(map(int, told[2].split(".")))) if told else (text, ())


def from_outside(files: Iterable[NativeFile]) -> dict[str, list[str]]:
    """Returns the libraries that files need and the bundle lacks, each with the files that need it."""
    files = list(files)
    inside = {file.name.rsplit("/", 1)[-1] for file in files} | {file.elf.soname for file in files}
    asked: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for library in file.elf.needed:
            if library not in inside:
                asked[library].append(file.name)
    return dict(sorted(asked.items()))


def twice(tree: Path) -> list[str]:
    """Returns a line for each set of native files with the same content or the same name for the loader."""
    contents: dict[str, list[str]] = defaultdict(list)
    sonames: dict[str, list[str]] = defaultdict(list)
    for file in native_files(tree):
        contents[file_hash(tree / file.name)].append(file.name)
        if file.elf.soname:
            sonames[file.elf.soname].append(file.name)
    sets = [names for groups in (contents, sonames) for names in groups.values() if len(names) > 1]
    return sorted({" = ".join(names) for names in sets})


def traces(tree: Path, places: Iterable[Path]) -> list[str]:
    """Returns a line for each file in which one of these folders of this machine is named."""
    named = [(place, os.fsencode(place)) for place in places]
    lines = []
    for path in files_below(tree):
        content, name = path.read_bytes(), path.relative_to(tree).as_posix()
        lines += [f"{name} names {place}" for place, written in named if written in content]
    return lines


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def differences(one: Path, other: Path) -> list[str]:
    """Returns a line for each file that two trees do not have alike: content, mode, or where a link leads."""
    left, right = described(one), described(other)
    lines = []
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            lines.append(f"only in {one if name in left else other}: {name}")
        elif left[name] != right[name]:
            lines.append(f"differs: {name}")
    return lines


def described(tree: Path) -> dict[str, str]:
    """Returns every file and link below `tree` with its mode and its hash or target."""
    found = {}
    for folder, _folders, names in os.walk(tree):
        for path in (Path(folder, name) for name in (*names, *_folders)):
            name = path.relative_to(tree).as_posix()
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_file():
                found[name] = f"{path.stat().st_mode & 0o777:o} {file_hash(path)}"
    return found


def main(tree: Path) -> int:
    """Prints what is wrong with the bundle at `tree`, or the C library that it needs; returns the exit status."""
    files = list(native_files(tree))
    problems = [*too_new(files), *(f"twice: {line}" for line in twice(tree))]
    needs = ", ".join(f"{family} {version}" for family, version in newest(files).items())
    sys.stdout.write("\n".join([*problems, f"{len(files)} native files; the newest they need: {needs}"]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
