"""The Windows installer at work, under Wine: installs, replaces, removes, and never touches what is the person's.

Compiled over a small payload, with a 64-bit stub, because a Wine without 32-bit parts runs only that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import icon_containers
import windows_installer
from pictures import BROWN

pytestmark = [
    pytest.mark.package,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("wine", "makensis", "xvfb-run")),
        reason="needs wine, nsis and xvfb",
    ),
]


class Windows:
    """A Windows of one's own, in a folder."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self._environ = {**os.environ, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "HOME": str(prefix.parent)}
        self.run("wineboot", "-i")
        self.run("reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["xvfb-run", "-a", "wine", *words]
        return subprocess.run(command, env=self._environ, capture_output=True, text=True, check=False, timeout=300)

    def registry(self, key: str) -> str:
        return self.run("reg", "query", key, "/s").stdout

    def named(self, path: Path) -> str:
        """Returns a path as Windows writes it."""
        return self.run("winepath", "-w", str(path)).stdout.strip()

    @property
    def local(self) -> Path:
        """The person's %LOCALAPPDATA%."""
        return next((self.prefix / "drive_c" / "users").glob("[!P]*")) / "AppData" / "Local"

    @property
    def program(self) -> Path:
        """Where the program goes."""
        return self.local / "Programs" / "Quern"


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    made = Windows(tmp_path_factory.mktemp("wine") / "prefix")
    yield made
    made.run("wineboot", "-k")


def installer(folder: Path, version: str, *inside: str) -> Path:
    payload, icon, output = folder / f"payload {version}", folder / "quern.ico", folder / f"Quern-{version}.exe"
    for name in ("quern.exe", "quern-window.exe", *(f"_internal/{name}" for name in inside)):
        file = payload / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"MZ" + version.encode())
    icon.write_bytes(icon_containers.ico({16: BROWN}))
    told = windows_installer.arguments(payload, output, version=version, icon=icon)
    script = str(windows_installer.SCRIPT)
    subprocess.run(["makensis", "-XTarget amd64-unicode", *told, script], check=True, capture_output=True)
    return output


def test_a_newer_one_replaces_the_program_and_removing_it_leaves_the_chats(windows: Windows, tmp_path: Path) -> None:
    old = installer(tmp_path, "0.1.0", "模型/starter.gguf", "gone.dll")
    new = installer(tmp_path, "0.2.0", "模型/starter.gguf", "new.dll")
    data = windows.local / "quern" / "chats.db"

    assert windows.run(str(old), "/S").returncode == 0
    data.parent.mkdir()
    data.write_bytes(b"chats")
    own = windows.program / "my notes.txt"
    own.write_text("mine")
    assert (windows.program / "_internal" / "gone.dll").is_file()

    assert windows.run(str(new), "/S").returncode == 0
    assert (windows.program / "quern.exe").read_bytes() == b"MZ0.2.0"
    inside = {path.name for path in (windows.program / "_internal").rglob("*") if path.is_file()}
    assert inside == {"starter.gguf", "new.dll"}
    assert "0.2.0" in windows.registry(r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\Quern")
    assert "quern-window.exe" in windows.registry(r"HKCU\Software\Classes\Quern.gguf")

    uninstall = str(windows.program / "uninstall.exe")
    assert windows.run(uninstall, "/S", f"_?={windows.named(windows.program)}").returncode == 0
    assert not (windows.program / "quern.exe").exists()
    assert not (windows.program / "_internal").exists()
    assert own.read_text() == "mine"
    assert data.read_bytes() == b"chats"
    assert "Quern" not in windows.registry(r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall")
    assert "Quern" not in windows.registry(r"HKCU\Software\Classes\.gguf")


def test_a_folder_with_other_things_in_it_is_refused(windows: Windows, tmp_path: Path) -> None:
    file = installer(tmp_path, "0.1.0", "a.dll")
    foreign = windows.prefix / "drive_c" / "Documents"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("mine")

    assert windows.run(str(file), "/S", r"/D=C:\Documents").returncode == 2

    assert [path.name for path in foreign.iterdir()] == ["letter.txt"]
