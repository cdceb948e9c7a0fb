"""Makes the Windows installer of a frozen folder: `python packaging/windows_installer.py FOLDER --output FILE`.

Needs makensis (NSIS 3), which also runs on Linux and macOS. The script itself is windows/quern.nsi.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from console import Console, SetUpError

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = Path(__file__).parent / "windows" / "quern.nsi"
_LIMIT = 2**31 - 2**20  # NSIS reads itself with 32 bits


def main(words: Sequence[str]) -> int:
    """Compiles the installer; returns the exit status."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    parser = argparse.ArgumentParser(prog="windows_installer.py", description=__doc__)
    parser.add_argument("payload", type=Path, help="the folder that package.py froze")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / f"Quern-{version}-Setup.exe")
    parser.add_argument("--icon", type=Path, required=True, help="quern.ico")
    options = parser.parse_args(words)
    console = Console(ROOT / "build" / "windows_installer.log")
    try:
        console.begin_log()
        compile_installer(options.payload, options.output, version=version, icon=options.icon, console=console)
    except SetUpError as error:
        console.say(str(error))
        return 2
    return 0


def compile_installer(payload: Path, output: Path, *, version: str, icon: Path, console: Console) -> None:
    """Writes the installer of the folder `payload` to `output`. Raises SetUpError where that cannot be done."""
    makensis = shutil.which("makensis")
    if makensis is None:
        raise SetUpError("makensis was not found. Install NSIS 3 (on Debian: apt install nsis).")
    require_programs(payload)
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [makensis, *arguments(payload, output, version=version, icon=icon), str(SCRIPT)]
    with console.step("Compiling the Windows installer", "some minutes for the whole application"):
        console.run(command, failure="makensis could not compile the installer.")
    if output.stat().st_size > _LIMIT:
        raise SetUpError(f"{output.name} is too large to be run: over 2 GB.")


def require_programs(payload: Path) -> None:
    """Raises SetUpError unless the two programs lie in `payload`, and nothing else that the uninstaller would leave."""
    names = {path.name for path in payload.iterdir()} if payload.is_dir() else set()
    known = {"quern.exe", "quern-window.exe", "_internal"}
    if names != known:
        listed = ", ".join(sorted(names ^ known))
        raise SetUpError(f"{payload} is not a folder frozen for Windows (look at: {listed}).")


def arguments(payload: Path, output: Path, *, version: str, icon: Path) -> list[str]:
    """Returns what quern.nsi has to be told, as options of makensis."""
    told = {
        "PAYLOAD": payload.resolve(), "OUTPUT": output.resolve(), "VERSION": version, "NUMBERS": four_numbers(version),
        "ICON": icon.resolve(), "LICENSE": ROOT / "LICENSE", "SIZE_KB": size_in_kb(payload),
    }  # fmt: skip
    return ["-V2", "-WX", "-INPUTCHARSET", "UTF8", *(f"-D{name}={value}" for name, value in told.items())]


def four_numbers(version: str) -> str:
    """Returns a version as Windows writes it: "0.1.0rc2" becomes "0.1.0.0"."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = (found[0] if found else "0").split(".")
    return ".".join((numbers + ["0"] * 4)[:4])


def size_in_kb(folder: Path) -> int:
    """Returns what the files below `folder` take, in kilobytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
