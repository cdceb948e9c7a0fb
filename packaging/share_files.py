"""Lays out what a Linux desktop wants beside the program: entry, icons, file type, man page, completions, licences.

Knows no package format: every Linux package carries the same folder `share`.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from build_environment import BuildEnvironment
from console import Console
from freezing import Build, unchanging

HERE = Path(__file__).parent
_LINUX = HERE / "linux"
METAINFO = "app.quern.Quern.metainfo.xml"
_COMPLETIONS = {
    "bash": "bash-completion/completions/quern",
    "zsh": "zsh/vendor-completions/_quern",
    "fish": "fish/vendor_completions.d/quern.fish",
}


def lay_out(share: Path, *, root: Path, environment: BuildEnvironment, build: Build, console: Console) -> None:
    """Fills the folder `share`. Icons and what follows from the command line are made by scripts in `environment`."""
    shutil.rmtree(share, ignore_errors=True)
    drawn, written = share.with_name("icons.part"), share.with_name("words.part")
    for script, target in (("draw_icons.py", drawn), ("command_line_files.py", written)):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        command = [str(environment.python), str(HERE / script), str(target), build.version, build.date]
        environ = {**unchanging(build.moment), "PYTHONPATH": str(root), "QUERN_HOME": str(target / "home")}
        console.run(command, failure=f"{script} failed.", env=environ, cwd=root)
    shutil.copytree(drawn, share / "icons" / "hicolor")
    copy(_LINUX / "quern.desktop", share / "applications" / "quern.desktop")
    copy(_LINUX / "quern.xml", share / "mime" / "packages" / "quern.xml")
    write(share / "metainfo" / METAINFO, metainfo(build).encode())
    write(share / "man" / "man1" / "quern.1.gz", packed((written / "quern.1").read_bytes()))
    for shell, place in _COMPLETIONS.items():
        copy(written / f"quern.{shell}", share / place)


def metainfo(build: Build) -> str:
    """Returns the AppStream description of this build."""
    text = (_LINUX / METAINFO).read_text(encoding="utf-8")
    return text.replace("@VERSION@", build.version).replace("@DATE@", build.date)


def packed(data: bytes) -> bytes:
    """Returns the data as a gzip file that tells neither name nor time."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def copy(source: Path, target: Path) -> None:
    """Copies a file, and makes the folders above it."""
    write(target, source.read_bytes())


def write(target: Path, data: bytes) -> None:
    """Writes a file, and makes the folders above it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o644)
