"""Makes the llama.cpp that packages carry: one folder with each library once, and a back end for every processor.

It is built as the set-up's own wheel is (`llama_wheel.py`), kept under its own key, and laid out so that nothing is in
it twice: a wheel cannot hold links, so it carries each library under three names. Knows nothing of the bundle around
it.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

import vulkan_sdk
from build_flags import package_flags
from console import Console, SetUpError
from llama_wheel import LlamaBuild, build_wheel, finished_wheel, wheels_folder

MODULES = ("__init__.py", "_ctypes_extensions.py", "_ggml.py", "llama_cpp.py", "py.typed")
# The names under which they look for each other: libllama's and the back ends' own lists of what they need.
_LINKED = {
    "Linux": ("libllama.so", "libggml.so.0", "libggml-base.so.0"),
    "Darwin": ("libllama.dylib", "libggml.0.dylib", "libggml-base.0.dylib"),
    "Windows": ("llama.dll", "ggml.dll", "ggml-base.dll"),
}
_BACKEND = re.compile(r"(lib)?ggml-(?!base\b)[\w.-]+\.(so|dll)")


def package_build(version: str, environ: Mapping[str, str] = os.environ) -> LlamaBuild:
    """Returns the build that packages of this system carry."""
    return LlamaBuild(version, tuple(package_flags(platform.system(), environ)))


def package_tree(
    version: str, *, source: Path, build_folder: Path, tools: Callable[[], Path], console: Console
) -> Path:
    """Returns a folder that holds the package `llama_cpp` and nothing else; builds it where it is not there yet.

    `source` is llama-cpp-python's unpacked source; `tools` returns the interpreter of an environment with its build
    tools, which is made only where something is to be built. Raises SetUpError.
    """
    build, wheels = package_build(version), wheels_folder(build_folder)
    wheel = finished_wheel(wheels, build) or _built(build, source, wheels, build_folder, tools(), console)
    tree = wheel.parent / "tree"
    if not tree.is_dir():
        part = tree.with_name(f"tree.part-{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        unpack(wheel, part)
        part.replace(tree)
    return tree


def _built(build: LlamaBuild, source: Path, wheels: Path, folder: Path, python: Path, console: Console) -> Path:
    environ = repeatable(source, os.environ)
    if "-DGGML_VULKAN=ON" in build.flags and platform.system() == "Linux":
        sdk = vulkan_sdk.provide(folder / "vulkan-headers", console, given=environ.get("VULKAN_SDK", ""))
        environ["VULKAN_SDK"] = str(sdk)
    return build_wheel(build, source=source, wheels=wheels, python=python, console=console, environ=environ)


def repeatable(source: Path, environ: Mapping[str, str], system: str = platform.system()) -> dict[str, str]:
    """Returns an environment in which the build of `source` gives the same bytes wherever it lies.

    llama.cpp's messages name its source files, and its version is the commit of the nearest repository: not ours.
    """
    places = dict.fromkeys((source.absolute(), source.resolve()))
    made = {**environ, "GIT_CEILING_DIRECTORIES": os.pathsep.join(str(place.parent) for place in places)}
    if system != "Windows":
        named = shlex.join(f"-ffile-prefix-map={place}=llama-cpp-python" for place in places)
        for name in ("CFLAGS", "CXXFLAGS"):
            made[name] = f"{environ.get(name, '')} {named}".lstrip()
    return made


def unpack(wheel: Path, target: Path, system: str = platform.system()) -> None:
    """Lays out the wheel's modules and libraries below `target`, each library once.

    Raises SetUpError where the wheel lacks one that is needed.
    """
    with zipfile.ZipFile(wheel) as archive:
        chosen = chosen_files(archive.namelist(), system)
        for name, place in chosen.items():
            file = target / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))
            file.chmod(0o644)


def chosen_files(names: Iterable[str], system: str) -> dict[str, str]:
    """Returns which of a wheel's files are laid out, and where, as paths with forward slashes.

    Raises SetUpError where one is missing.
    """
    paths = [PurePosixPath(name) for name in names]
    chosen = {str(path): str(path) for path in paths if path.parent.name == "llama_cpp" and path.name in MODULES}
    places: dict[str, str] = {}
    for path in paths:
        wanted = path.name in _LINKED[system] or _BACKEND.fullmatch(path.name)
        if wanted and path.parent.name in ("lib", "bin"):
            places.setdefault(path.name, str(path))
    absent = [name for name in _LINKED[system] if name not in places]
    if not any("ggml-cpu-" in name for name in places):
        absent.append("ggml-cpu-*")
    if absent:
        raise SetUpError(f"llama.cpp was built without {', '.join(absent)}. Unset QUERN_CMAKE_ARGS and run this again.")
    return chosen | {place: f"llama_cpp/lib/{name}" for name, place in sorted(places.items())}
