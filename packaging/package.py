"""Makes the packages that people install: `python packaging/package.py` (`make package`).

The application is frozen once, with everything; the lighter edition is the same folder without torch. Nothing but
Python's own library is needed: what the build itself needs goes into an environment of its own.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import freezing
import llama_package_source
from build_environment import BuildEnvironment
from bundle_checks import native_files, newest, too_new, twice
from console import Console, SetUpError
from set_up_steps import read_pins
from size_table import table

ROOT = Path(__file__).resolve().parent.parent
EDITIONS = ("full", "light")


def main(words: Sequence[str]) -> int:
    """Runs the whole build with the words after `package.py`; returns the exit status."""
    options = _options(words)
    console = Console(options.work / "package.log")
    try:
        options.work.mkdir(parents=True, exist_ok=True)
        console.begin_log()
        return _package(options, console)
    except SetUpError as error:
        console.say(str(error))
        return 2
    except KeyboardInterrupt:
        console.say("Interrupted. Run the same command again to go on.")
        return 130


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="package.py", description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "package", help="where to build")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the packages go")
    parser.add_argument("--llama", type=Path, help="a wheel of llama-cpp-python, or a folder that holds the package")
    parser.add_argument("--only", action="append", choices=("tree", "tar", "deb", "appimage"), help="not all packages")
    parser.add_argument("--edition", action="append", choices=EDITIONS, help="not both editions")
    parser.add_argument("--quick", action="store_true", help="compress little: for trying things out")
    options = parser.parse_args(words)
    options.work, options.output = options.work.resolve(), options.output.resolve()
    return options


def _package(options: argparse.Namespace, console: Console) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = read_pins((ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8"))
    build = freezing.build_of(ROOT, project["version"])
    environment = BuildEnvironment(options.work / "venv", ROOT, console)
    environment.make()
    version = pins["llama-cpp-python"]
    llama = llama_package_source.folder(options.llama, version, work=options.work, root=ROOT, console=console)
    data = options.work / "data"
    freezing.gather_data(data, root=ROOT, environment=environment, build=build, console=console, llama_version=version)
    tree = freezing.freeze(options.work, data=data, llama=llama, environment=environment, build=build, console=console)
    check(tree, console)
    return 0


def check(tree: Path, console: Console) -> None:
    """Raises SetUpError where native code is in `tree` twice or too new; says what it holds and needs."""
    files = list(native_files(tree))
    if problems := [*too_new(files), *(f"twice: {line}" for line in twice(tree))]:
        raise SetUpError("\n".join(["The bundle cannot be handed out:", *problems]))
    console.say(table(tree))
    needs = ", ".join(f"{family} {version}" for family, version in newest(files).items())
    console.say(f"The newest that its {len(files)} native files need: {needs}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
