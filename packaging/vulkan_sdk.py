"""Finds what llama.cpp's Vulkan back end is compiled with: headers, SPIR-V's headers and the shader compiler.

llama.cpp needs newer headers than the oldest supported Debian has, while everything else is built with that system's
own tools, so that the C library that is needed stays old. Headers are files alone: the next Debian's are unpacked
beside the build, with apt's own check of their signatures, and nothing of them is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import system_packages
from build_flags import VULKAN_HEADERS_NEEDED, parse_vulkan_header
from console import Console, SetUpError
from system_packages import Need

TOOLS = (
    Need("glslc", "glslc", "glslc", "shaderc"),
    Need("libvulkan.so", "libvulkan-dev", "vulkan-loader-devel", "vulkan-icd-loader"),
)
_PACKAGES = ("libvulkan-dev", "spirv-headers")
_NEWER = "trixie"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def vulkan_sdk(folder: Path, console: Console, *, given: str = "") -> Path:
    """Returns the folder with include/vulkan and share/cmake/SPIRV-Headers, as VULKAN_SDK names one.

    `given` (the variable's own value) and the system come first; else the headers are fetched into `folder`. Raises
    SetUpError with what to install where that is impossible.
    """
    for root in (*([Path(given)] if given else []), Path("/usr"), folder / "usr"):
        if is_new_enough(root):
            return root
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None or not _KEYS.is_file():
        wanted = ".".join(map(str, VULKAN_HEADERS_NEEDED))
        raise SetUpError(
            f"The Vulkan headers here are older than {wanted}. Install the Vulkan SDK and set VULKAN_SDK to its "
            "folder, or set QUERN_GPU=none to build without graphics cards."
        )
    with console.step("Fetching newer Vulkan headers", "3 MB"):
        _fetch(folder, console)
    if not is_new_enough(folder / "usr"):
        raise SetUpError(f"The headers in {folder} are not what llama.cpp needs. Set VULKAN_SDK to a Vulkan SDK.")
    return folder / "usr"


def is_new_enough(root: Path) -> bool:
    """Says whether `root` holds all that is compiled with, in a version that llama.cpp accepts."""
    header = root / "include" / "vulkan" / "vulkan_core.h"
    if not header.is_file() or not (root / "share" / "cmake" / "SPIRV-Headers").is_dir():
        return False
    return (parse_vulkan_header(header.read_text(encoding="utf-8")) or (0, 0, 0)) >= VULKAN_HEADERS_NEEDED


def missing_tools() -> list[Need]:
    """Returns what the system lacks to build the back end, besides headers."""
    return [need for need in TOOLS if not (shutil.which(need.name) or _links(need.name))]


def _links(library: str) -> bool:
    places = [Path("/usr/lib"), Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    return any((place / library).exists() for place in places)


def _fetch(folder: Path, console: Console) -> None:
    """Unpacks the packages of the newer Debian, from the mirror that this system already uses."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "lists" / "partial").mkdir(parents=True)
    (part / "archives" / "partial").mkdir(parents=True)
    sources = part / "newer.list"
    sources.write_text(f"deb [signed-by={_KEYS}] {debian_mirror(_apt_sources())} {_NEWER} main\n", encoding="utf-8")
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in {
        "Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "-", "Dir::State::Lists": part / "lists",
        "Dir::Cache": part, "APT::Sandbox::User": "root",
    }.items())]  # fmt: skip
    failure = "The Vulkan headers could not be fetched. Set VULKAN_SDK to a Vulkan SDK, or QUERN_GPU=none."
    console.run([*apt, "update"], failure=failure, on_line=console.progress)
    console.run([*apt, "download", *_PACKAGES], failure=failure, on_line=console.progress, cwd=part)
    for package in part.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, part / "unpacked"], check=True)
    shutil.rmtree(folder, ignore_errors=True)
    (part / "unpacked").replace(folder)
    shutil.rmtree(part)


def _apt_sources() -> Iterable[str]:
    folder = Path("/etc/apt")
    for file in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        if file.suffix in (".list", ".sources") and file.is_file():
            yield file.read_text(encoding="utf-8", errors="replace")


def debian_mirror(sources: Iterable[str]) -> str:
    """Returns the address of the Debian mirror in apt's lists, old (one line) or new (deb822) style.

    Raises SetUpError where none is there.
    """
    for text in sources:
        for pattern in (r"^URIs:\s*(\S+/debian/?)\s*$", r"^deb\s+(?:\[.*?\]\s+)?(\S+/debian/?)\s"):
            if found := re.search(pattern, text, re.MULTILINE):
                return found[1]
    raise SetUpError("apt's lists name no Debian mirror. Set VULKAN_SDK to a Vulkan SDK, or QUERN_GPU=none.")


def provide(folder: Path, console: Console, *, given: str = "") -> Path:
    """Returns what `vulkan_sdk` returns, after installing the tools that the system lacks."""
    if lacking := missing_tools():
        system_packages.install(lacking, console, system_packages.apt_prefix())
    return vulkan_sdk(folder, console, given=given)
