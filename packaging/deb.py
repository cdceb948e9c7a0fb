"""Makes a Debian package of the bundle. What it depends on is read from the native code in it.

Works on Debian and its relatives, whose dpkg-deb writes the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from bundle_checks import NativeFile, files_below, from_outside, native_files, newest
from console import Console, SetUpError
from freezing import Build, unchanging
from system_packages import LIBRARIES, WAYLAND_LIBRARIES, X11_LIBRARIES

_PROGRAM = "usr/lib/quern"
# Native code that Quern does without when what it needs is missing, and the packages that then belong to it.
OPTIONAL = {
    re.compile(r"platformthemes/libqgtk3\.so$"): ("Suggests", ("libgtk-3-0 | libgtk-3-0t64",)),
    re.compile(r"libggml-vulkan\.so$"): ("Recommends", ("libvulkan1", "mesa-vulkan-drivers | vulkan-icd")),
}
_FROM_LIBC = frozenset({
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libutil.so.1",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
})  # fmt: skip
_MORE = {
    "libgcc_s.so.1": "libgcc-s1", "libstdc++.so.6": "libstdc++6", "libbrotlicommon.so.1": "libbrotli1",
    "libgthread-2.0.so.0": "libglib2.0-0", "libgio-2.0.so.0": "libglib2.0-0", "libgobject-2.0.so.0": "libglib2.0-0",
    "libwayland-egl.so.1": "libwayland-egl1", "libdrm.so.2": "libdrm2", "libvulkan.so.1": "libvulkan1",
}  # fmt: skip
# The package version that brought each version of the C++ library.
_LIBSTDCXX = {(3, 4, 28): "9", (3, 4, 29): "11", (3, 4, 30): "12", (3, 4, 31): "13", (3, 4, 33): "14"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_OTHERS = f"The licences of everything else in this package are in /{_PROGRAM}/THIRD-PARTY-LICENCES.txt."
_DESCRIPTION = """Run language models on your own computer
 Quern runs language models where you are: no account, no cloud, no network.
 Pick a model, talk to it, and keep every word on your own disk. It converts
 and quantizes models, too, and shows in numbers what that cost.
 .
 {edition}"""
_EDITIONS = {
    "full": " A small model is included, and both engines: llama.cpp and Quern's own.",
    "light": " A small model is included. This edition has llama.cpp alone; what needs\n"
             " torch is in the package quern.",
}


def package_name(edition: str) -> str:
    """Returns the name of an edition's package."""
    return "quern" if edition == "full" else "quern-light"


def machine() -> str:
    """Returns this computer's architecture as Debian calls it."""
    return _MACHINES[os.uname().machine]


def relations(tree: Path) -> dict[str, list[str]]:
    """Returns what the package depends on, recommends and suggests, each sorted.

    Raises SetUpError for a library that no Debian package is known for.
    """
    files = list(native_files(tree))
    inside = {file.name.rsplit("/", 1)[-1] for file in files} | {file.elf.soname for file in files}
    found: dict[str, set[str]] = {"Depends": set(), "Recommends": set(), "Suggests": {"fonts-noto-cjk"}}
    needed: list[NativeFile] = []
    for file in files:
        optional = next((value for pattern, value in OPTIONAL.items() if pattern.search(file.name)), None)
        if optional is None:
            needed.append(file)
        elif set(file.elf.needed) - inside:
            found[optional[0]].update(optional[1])
    outside = {library: who for library, who in from_outside(files).items() if library in _asked(needed)}
    found["Depends"] = _packages(outside, newest(needed)) | _data_of(inside)
    return {name: sorted(packages) for name, packages in found.items() if packages}


def _data_of(inside: set[str]) -> set[str]:
    """Returns the packages with data that bundled libraries read: keyboard layouts."""
    return {"xkb-data"} if "libxkbcommon.so.0" in inside else set()


def _asked(files: Iterable[NativeFile]) -> set[str]:
    return {library for file in files for library in file.elf.needed}


def _packages(outside: Mapping[str, list[str]], versions: Mapping[str, str]) -> set[str]:
    known = {need.name: need.debian for need in (*LIBRARIES, *X11_LIBRARIES, *WAYLAND_LIBRARIES)} | _MORE
    unknown = [library for library in outside if library not in known and library not in _FROM_LIBC]
    if unknown:
        told = ", ".join(f"{library} (for {outside[library][0]})" for library in unknown)
        raise SetUpError(f"No Debian package is known for {told}. Add it to packaging/deb.py, or leave the file out.")
    packages = {known[library] for library in outside if library in known} - {"libstdc++6"}
    packages.add(f"libc6 (>= {versions['GLIBC']})")
    if "GLIBCXX" in versions:
        wanted = tuple(map(int, versions["GLIBCXX"].split(".")))
        packages.add(f"libstdc++6 (>= {next(package for cxx, package in _LIBSTDCXX.items() if cxx >= wanted)})")
    return packages


def control(build: Build, edition: str, *, machine: str, kilobytes: int, relations: Mapping[str, list[str]]) -> str:
    """Returns the text of the control file."""
    other = package_name("light" if edition == "full" else "full")
    fields = {
        "Package": package_name(edition), "Version": build.version, "Architecture": machine, "Section": "science",
        "Priority": "optional", "Maintainer": "The Quern authors <quern@localhost>",
        "Installed-Size": str(kilobytes),
        **{relation: ", ".join(packages) for relation, packages in relations.items()},
        "Conflicts": other, "Replaces": other,
        "Description": _DESCRIPTION.format(edition=_EDITIONS[edition].lstrip()),
    }  # fmt: skip
    return "".join(f"{field}: {value}\n" for field, value in fields.items())


def make(tree: Path, share: Path, target: Path, *, edition: str, build: Build, console: Console, level: int) -> None:
    """Writes the package `target`. Raises SetUpError."""
    if shutil.which("dpkg-deb") is None:
        raise SetUpError("dpkg-deb is missing; Debian packages are made on Debian, Ubuntu and their relatives.")
    root = target.parent / f".{target.name}.part"
    shutil.rmtree(root, ignore_errors=True)
    try:
        _lay_out(root, tree, share)
        _write_copyright(root, edition)
        kilobytes = -(-sum(path.lstat().st_size for path in files_below(root)) // 1024)
        text = control(build, edition, machine=machine(), kilobytes=kilobytes, relations=relations(tree))
        _write_control(root, text)
        settle_times(root, build.moment)
        command = ["dpkg-deb", "--root-owner-group", "-Zzstd", f"-z{level}", "--build", str(root), str(target)]
        console.run(command, failure="dpkg-deb could not write the package.", env=unchanging(build.moment))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _lay_out(root: Path, tree: Path, share: Path) -> None:
    shutil.copytree(tree, root / _PROGRAM, symlinks=True, copy_function=os.link)
    shutil.copytree(share, root / "usr" / "share")
    command = root / "usr" / "bin" / "quern"
    command.parent.mkdir(parents=True)
    command.symlink_to("../lib/quern/quern")


def _write_copyright(root: Path, edition: str) -> None:
    folder = root / "usr" / "share" / "doc" / package_name(edition)
    folder.mkdir(parents=True)
    own = (root / _PROGRAM / "LICENSE").read_text(encoding="utf-8")
    (folder / "copyright").write_text(f"{own}\n{_OTHERS}\n", encoding="utf-8")


def _write_control(root: Path, text: str) -> None:
    sums = [f"{_md5(path)}  {path.relative_to(root).as_posix()}" for path in files_below(root)]
    folder = root / "DEBIAN"
    folder.mkdir(mode=0o755)
    (folder / "control").write_text(text, encoding="utf-8")
    (folder / "md5sums").write_text("\n".join(sums) + "\n", encoding="utf-8")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def settle_times(root: Path, moment: int) -> None:
    """Gives every file, link and folder the time `moment`, and folders plain permissions."""
    for folder, _folders, names in os.walk(root):
        for name in names:
            os.utime(Path(folder, name), (moment, moment), follow_symlinks=False)
        os.chmod(folder, 0o755)
        os.utime(folder, (moment, moment))
