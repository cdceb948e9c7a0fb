"""A copy of Quern as a person has it: unpacked from a package in `dist/`, run without anything of this checkout.

QUERN_DIST names another folder with packages. What a bare machine adds (a chroot, no network) is a prefix before every
command: `Installed.inside`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
EDITIONS = ("full", "light")
# Words for a chat that the starter answers right in a second.
QUESTION = ("-p", "What is 2+2?", "--temperature", "0", "--max-tokens", "12", "--context-length", "512")
_KEPT = ("PATH", "LANG", "TERM")


def package(pattern: str) -> Path:
    """Returns the newest package that fits the pattern. Skips the test where there is none."""
    folder = Path(os.environ.get("QUERN_DIST", ROOT / "dist"))
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip(f"{folder} holds no {pattern}; `make package` makes it")
    return found[-1]


def appimage_pattern(edition: str) -> str:
    """Returns the name of an edition's AppImage, as a pattern."""
    return "quern-light-*.AppImage" if edition == "light" else "quern-[0-9]*.AppImage"


def portable_pattern(edition: str) -> str:
    """Returns the name of an edition's portable archive, as a pattern."""
    return "quern-light-*-portable.tar.zst" if edition == "light" else "quern-[0-9]*-portable.tar.zst"


def deb_pattern(edition: str) -> str:
    """Returns the name of an edition's Debian package, as a pattern."""
    return "quern-light_*.deb" if edition == "light" else "quern_*.deb"


def unpacked(edition: str, folder: Path) -> Path:
    """Unpacks the portable archive into `folder` and returns the application's own folder."""
    archive = package(portable_pattern(edition))
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-I", "zstd", "-xf", str(archive)], cwd=folder, check=True)
    return folder / archive.name.removesuffix(".tar.zst")


@dataclass(frozen=True)
class Installed:
    """One copy and the person who runs it. `home` is theirs; `inside` goes before every command."""

    program: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()

    def with_environment(self, **more: str) -> Installed:
        """Returns the same copy, run with more in its environment."""
        return replace(self, environment={**self.environment, **more})

    def command(self, *words: str) -> list[str]:
        """Returns the whole command line."""
        return [*self.inside, str(self.program), *words]

    def environ(self) -> dict[str, str]:
        """Returns an environment with nothing of this checkout in it."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, "HOME": str(self.home), "QT_QPA_PLATFORM": "offscreen", **self.environment}

    def run(self, *words: str, seconds: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end and returns what it wrote."""
        self.home.mkdir(parents=True, exist_ok=True)
        options = {"stdin": subprocess.DEVNULL, "cwd": self.home, **options}
        return subprocess.run(
            self.command(*words), env=self.environ(), capture_output=True, text=True, encoding="utf-8", check=False,
            timeout=seconds, **options,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        """Runs a command with --json and returns its result; fails the test where the command fails."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr or done.stdout
        return json.loads(done.stdout.splitlines()[-1])

    def says(self, *words: str) -> str:
        """Runs a command and returns what it printed; fails the test where the command fails."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout


def moved(copy: Path, target: Path) -> Path:
    """Moves an application's folder and returns the program in its new place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(copy, target)
    return target / "quern"


def first_paint(quern: Installed, seconds: float = 120) -> subprocess.Popen[bytes]:
    """Opens the window and waits until it keeps its profile and has started its engine."""
    quern.home.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(quern.command(), env=quern.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, cwd=quern.home)  # fmt: skip
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.fail(f"the window ended with {process.returncode}: {process.stdout.read().decode()}")  # type: ignore[union-attr]
        if _engines(process):
            return process
        time.sleep(0.2)
    process.kill()
    pytest.fail("no engine was started: the window did not come so far")


@contextmanager
def screen() -> Iterator[str]:
    """Yields the name of an X display that nobody sees. Skips the test where none can be had."""
    if shutil.which("Xvfb") is None or shutil.which("xdotool") is None:
        pytest.skip("Xvfb is a screen without one, and xdotool looks at it")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL) as server:
        try:
            os.close(write)
            yield f":{os.read(read, 20).decode().strip()}"
        finally:
            server.terminate()
            os.close(read)


def windows_on(display: str) -> list[str]:
    """Returns the ids of the windows on a display that Quern's name is on."""
    environ = {**os.environ, "DISPLAY": display}
    command = ["xdotool", "search", "--onlyvisible", "--name", "Quern"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout.split()


def close(process: subprocess.Popen[bytes]) -> None:
    """Ends the window that `first_paint` returned, whatever it was started through, and waits."""
    window = psutil.Process(_engines(process)[0].ppid())
    window.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)


def shown_on_a_screen(quern: Installed) -> list[str]:
    """Opens the window on a display that nobody sees, ends it, and returns the ids of what was shown there."""
    with screen() as display:
        process = first_paint(quern.with_environment(DISPLAY=display, QT_QPA_PLATFORM="xcb"))
        shown = windows_on(display)
        close(process)
    return shown


def _engines(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "engine" in _words(child)[1:2]]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []
