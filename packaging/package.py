"""Makes the packages that people install: `python packaging/package.py` (`make package`).

The application is frozen once, with everything; the lighter edition is the same folder without torch. Nothing but
Python's own library is needed: what the build itself needs goes into an environment of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import freezing
import llama_package_source
import packing
from build_environment import BuildEnvironment
from bundle_checks import lost_neighbours, native_files, newest, too_new, traces, twice
from console import Console, SetUpError, end_as_interrupted
from set_up_steps import read_pins
from size_table import table

ROOT = Path(__file__).resolve().parent.parent
EDITIONS = ("full", "light")
KINDS = ("tar", "deb", "appimage")


def main(words: Sequence[str]) -> int:
    """Runs the whole build with the words after `package.py`; returns the exit status."""
    options = _options(words)
    console = Console(options.work / "package.log")
    end_as_interrupted()
    os.umask(0o022)  # what is handed out is readable by all, whoever makes it
    try:
        options.work.mkdir(parents=True, exist_ok=True)
        console.begin_log()
        _package(options, console)
    except SetUpError as error:
        console.say(str(error))
        return 2
    except OSError as error:  # a full disk, a folder that is not ours
        console.say(f"The packages cannot be made: {error}.")
        return 2
    except KeyboardInterrupt:
        console.say("Interrupted. Run the same command again to go on.")
        return 130
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="package.py", description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "package", help="where to build")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the packages go")
    parser.add_argument("--llama", type=Path, help="a wheel of llama-cpp-python, or a folder that holds llama_cpp")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of package (may be repeated)")
    parser.add_argument("--edition", action="append", choices=EDITIONS, help="only this edition (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="compress little: for trying things out")
    parser.add_argument("--tree-only", action="store_true", help="freeze the application, and make no packages")
    parser.add_argument("--packages-only", action="store_true", help="make packages of what was frozen before")
    options = parser.parse_args(words)
    options.work, options.output = options.work.resolve(), options.output.resolve()
    return options


def _package(options: argparse.Namespace, console: Console) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    build = freezing.build_of(ROOT, project["version"])
    environment = BuildEnvironment(options.work / "venv", ROOT, console)
    environment.make()
    tree = options.work / "quern"
    if not options.packages_only:
        _freeze(options, build, environment, console)
        check(tree, console, places={ROOT, options.work})
    if options.tree_only:
        return
    packer = packing.Packer(work=options.work, root=ROOT, environment=environment, build=build, console=console,
                            level=3 if options.quick else 19)  # fmt: skip
    made = []
    for edition in options.edition or EDITIONS:
        edition_tree = tree if edition == "full" else freezing.without_torch(tree, options.work / "light" / "quern")
        kinds = [kind for kind in KINDS if kind in (options.kind or KINDS) and sys.platform == "linux"]
        made += packer.pack(edition_tree, edition, kinds, options.output)
    console.say(sums(made, options.output))


def _freeze(
    options: argparse.Namespace, build: freezing.Build, environment: BuildEnvironment, console: Console
) -> None:
    pins = read_pins((ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8"))
    version = pins["llama-cpp-python"]
    llama = llama_package_source.provide(options.llama, version, work=options.work, root=ROOT, console=console)
    data = options.work / "data"
    freezing.gather_data(data, root=ROOT, environment=environment, build=build, console=console, llama_version=version,
                         llama_licences=llama.licences)  # fmt: skip
    freezing.freeze(options.work, data=data, llama=llama.folder, environment=environment, build=build, console=console)


def check(tree: Path, console: Console, places: Iterable[Path]) -> None:
    """Raises SetUpError where `tree` cannot be handed out; says what it holds and needs.

    It cannot where native code is in it twice, is too new, or lacks what it needs, nor where one of the `places` of
    this machine is named in a file.
    """
    files = list(native_files(tree))
    lost = (f"{name} does not look in {search}" for name, search in lost_neighbours(tree))
    again = (f"twice: {line}" for line in twice(tree))
    if problems := [*too_new(files), *again, *lost, *traces(tree, places)]:
        raise SetUpError("\n".join(["The bundle cannot be handed out:", *problems]))
    console.say(table(tree))
    needs = ", ".join(f"{family} {version}" for family, version in newest(files).items())
    console.say(f"The newest that its {len(files)} native files need: {needs}.")


def sums(made: Sequence[Path], output: Path) -> str:
    """Writes SHA256SUMS for the packages in `output`, and returns the lines that show them with their sizes."""
    lines, shown = [], []
    for path in sorted(made):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {path.name}")
        shown.append(f"  {path.stat().st_size / 1e6:8.1f} MB  {digest[:16]}  {path.name}")
    (output / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="ascii")
    return "\n".join([f"In {output}, for {platform.machine()}:", *shown])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
