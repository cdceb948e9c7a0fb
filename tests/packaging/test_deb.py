"""The Debian package: what it depends on, what its control file says, and what lies where in it."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from console import Console, SetUpError
from deb import control, make, relations
from elf_files import elf_bytes
from freezing import Build

BUILD = Build("0.1.0", "1a2b3c4d5e", 1_700_000_000)


def library(tree: Path, name: str, *needed: str, **versions: tuple[str, ...]) -> None:
    """Writes native code that needs libraries, and versions of the C or C++ library."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"libc": "libc.so.6", "cxx": "libstdc++.so.6"}
    asked = {names[key]: value for key, value in versions.items()}
    path.write_bytes(elf_bytes(needed=(*needed, *asked), versions=asked, filling=name.encode()))


def test_dependencies_follow_from_the_native_code(tmp_path: Path) -> None:
    library(tmp_path, "quern", libc=("GLIBC_2.2.5", "GLIBC_2.36"))
    library(tmp_path, "_internal/Qt/libqxcb.so", "libX11.so.6", "libours.so.1", cxx=("GLIBCXX_3.4.29",))
    (tmp_path / "_internal" / "libours.so.1").write_bytes(elf_bytes(soname="libours.so.1"))
    found = relations(tmp_path)
    assert found["Depends"] == ["libc6 (>= 2.36)", "libstdc++6 (>= 11)", "libx11-6"]


def test_what_quern_does_without_is_no_dependency(tmp_path: Path) -> None:
    library(tmp_path, "quern", libc=("GLIBC_2.36",))
    library(tmp_path, "_internal/plugins/platformthemes/libqgtk3.so", "libgtk-3.so.0")
    library(tmp_path, "_internal/llama_cpp/lib/libggml-vulkan.so", "libvulkan.so.1")
    found = relations(tmp_path)
    assert found["Depends"] == ["libc6 (>= 2.36)"]
    assert "libvulkan1" in found["Recommends"]
    assert any("libgtk-3-0" in package for package in found["Suggests"])


def test_data_that_a_bundled_library_reads_is_a_dependency(tmp_path: Path) -> None:
    library(tmp_path, "quern", libc=("GLIBC_2.36",))
    (tmp_path / "libxkbcommon.so.0").write_bytes(elf_bytes(soname="libxkbcommon.so.0"))
    assert "xkb-data" in relations(tmp_path)["Depends"]


def test_a_library_that_nobody_brings_stops_the_build(tmp_path: Path) -> None:
    library(tmp_path, "quern", "libnobody.so.7", libc=("GLIBC_2.36",))
    with pytest.raises(SetUpError, match=r"libnobody\.so\.7 \(for quern\)"):
        relations(tmp_path)


def test_the_editions_replace_each_other() -> None:
    full = control(BUILD, "full", machine="amd64", kilobytes=7, relations={"Depends": ["libc6", "zlib1g"]})
    light = control(BUILD, "light", machine="amd64", kilobytes=7, relations={})
    assert "Package: quern\nVersion: 0.1.0\nArchitecture: amd64\n" in full
    assert "Depends: libc6, zlib1g\n" in full
    assert "Conflicts: quern-light\nReplaces: quern-light\n" in full
    assert "Package: quern-light\n" in light
    assert "Conflicts: quern\n" in light
    assert all(line.startswith((" ", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ")) for line in (full + light).splitlines())


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb writes Debian packages")
def test_the_same_files_give_the_same_package(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        tree, share, output = tmp_path / name / "tree", tmp_path / name / "share", tmp_path / "quern.deb"
        console = Console(tmp_path / "log", io.StringIO())
        library(tree, "quern", libc=("GLIBC_2.36",))
        library(tree, "_internal/lib.so", libc=("GLIBC_2.36",))
        (tree / "_internal" / "link.so").symlink_to("lib.so")
        (tree / "LICENSE").write_text("MIT")
        (share / "applications").mkdir(parents=True)
        (share / "applications" / "quern.desktop").write_text("[Desktop Entry]\n")
        make(tree, share, output, edition="full", build=BUILD, console=console, level=1)
        made.append(output.read_bytes())
    assert made[0] == made[1]
    listed = subprocess.run(["dpkg-deb", "-c", str(output)], capture_output=True, text=True, check=True).stdout
    assert "./usr/bin/quern -> ../lib/quern/quern" in listed
    assert "./usr/lib/quern/_internal/lib.so" in listed
    assert "./usr/share/doc/quern/copyright" in listed
    assert "./usr/share/applications/quern.desktop" in listed
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}
