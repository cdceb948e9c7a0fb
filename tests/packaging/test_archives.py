"""The portable archive and the AppImage."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from archives import appimage, elf_part, portable
from console import Console
from elf_files import elf_bytes
from freezing import Build, build_of, without_torch

BUILD = Build("0.1.0", "1a2b3c4d5e", 1_700_000_000)
needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd packs the archive")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small bundle with a program, a library, a link, and torch."""
    tree = tmp_path / "quern"
    for name in ("quern", "_internal/lib.so", "_internal/torch/lib/libtorch.so", "_internal/numpy/core.so",
                 "_internal/torch-2.1.dist-info/METADATA", "_internal/torchgen/model.pyc"):  # fmt: skip
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tree / "quern").chmod(0o755)
    (tree / "_internal" / "link.so").symlink_to("lib.so")
    return tree


@pytest.fixture
def share(tmp_path: Path) -> Path:
    share = tmp_path / "share"
    for name in ("applications/quern.desktop", "icons/hicolor/scalable/apps/quern.svg",
                 "icons/hicolor/256x256/apps/quern.png"):  # fmt: skip
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(name)
    return share


@needs_zstd
def test_a_portable_archive_is_one_folder_that_knows_it_is_portable(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "quern-0.1.0-linux-x86_64-portable.tar.zst"
    portable(tree, archive, build=BUILD, level=1)
    subprocess.run(["tar", "-I", "zstd", "-xf", str(archive)], cwd=tmp_path, check=True)
    unpacked = tmp_path / "quern-0.1.0-linux-x86_64-portable"
    assert (unpacked / "portable").read_bytes() == b""
    assert "0.1.0" in (unpacked / "README.txt").read_text()
    assert os.access(unpacked / "quern", os.X_OK)
    assert (unpacked / "_internal" / "link.so").resolve() == unpacked / "_internal" / "lib.so"
    assert (unpacked / "quern").stat().st_mtime == BUILD.moment


@needs_zstd
def test_the_archive_is_the_same_for_the_same_files(tree: Path, tmp_path: Path) -> None:
    archives = [tmp_path / "one" / "q.tar.zst", tmp_path / "two" / "q.tar.zst"]
    for archive in archives:
        archive.parent.mkdir()
        os.utime(tree / "quern")
        portable(tree, archive, build=BUILD, level=1)
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_the_light_edition_is_the_same_without_torch(tree: Path, tmp_path: Path) -> None:
    light = without_torch(tree, tmp_path / "light")
    names = {path.relative_to(light).as_posix() for path in light.rglob("*")}
    assert names == {"quern", "_internal", "_internal/lib.so", "_internal/link.so", "_internal/numpy",
                     "_internal/numpy/core.so"}  # fmt: skip


@needs_zstd
def test_files_that_editions_share_on_disk_are_whole_in_each_archive(tree: Path, tmp_path: Path) -> None:
    light = without_torch(tree, tmp_path / "light")
    os.link(light / "quern", light / "again")
    portable(light, tmp_path / "q.tar.zst", build=BUILD, level=1)
    subprocess.run(["tar", "-I", "zstd", "-xf", str(tmp_path / "q.tar.zst")], cwd=tmp_path, check=True)
    assert (tmp_path / "q" / "again").read_text() == "quern"


@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="mksquashfs packs the AppImage")
def test_an_appimage_is_the_runtime_and_a_file_system(tree: Path, share: Path, tmp_path: Path) -> None:
    target, runtime = tmp_path / "Quern.AppImage", elf_bytes(needed=("libc.so.6",))
    console = Console(tmp_path / "log", io.StringIO())
    appimage(tree, share, target, runtime=runtime, build=BUILD, console=console)
    made = target.read_bytes()
    assert elf_part(made) == runtime
    assert made[len(runtime) :].startswith(b"hsqs")
    assert os.access(target, os.X_OK)
    subprocess.run(["unsquashfs", "-q", "-o", str(len(runtime)), "-d", str(tmp_path / "out"), str(target)], check=True,
                   capture_output=True)  # fmt: skip
    assert os.readlink(tmp_path / "out" / "AppRun") == "usr/lib/quern/quern"
    assert (tmp_path / "out" / "quern.desktop").is_file()
    assert (tmp_path / "out" / "usr" / "lib" / "quern" / "_internal" / "link.so").is_symlink()


def test_the_named_moment_wins_over_the_commits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    build = build_of(tmp_path, "0.1.0")
    assert build == Build("0.1.0", "", 1_700_000_000)
    assert build.date == "2023-11-14"
