"""Builds llama-cpp-python for this machine, once, and keeps the wheel. Knows nothing about the rest of the set-up.

pip's own wheel cache ignores CMake's flags, so wheels are kept here by everything that shapes them: version, flags,
platform and recipe. QUERN_WHEELS names a folder to share them between checkouts. A wheel is built beside its place and
renamed, so that an interrupted build never leaves a half one.
"""

from __future__ import annotations

import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from build_flags import (
    AVX2_GENERATION,
    X86_64_V2,
    build_flags,
    cpu_features,
    features_the_compiler_knows,
    find_tools,
)
from console import Console, SetUpError, duration
from stamps import fingerprint

_HERE = Path(__file__).parent
_RECIPE = _HERE / "lean_llama.cmake"
_TARGETS = "llama;ggml"  # all that Quern loads: libllama, libggml and the backends that they link with
_EXCLUDED = "/lib/**;/bin/**;/include/**"  # second copies, outside the package
_EXCLUDED_FROM_PACKAGES = "/lib/**;/include/**"  # back ends that are files of their own are in /bin alone
_BUILD = (
    "import sys; from scikit_build_core.build import build_wheel; "
    f'build_wheel(sys.argv[1], {{"build.targets": "{_TARGETS}", "wheel.exclude": sys.argv[2]}})'
)
_LIBRARIES = ("llama", "ggml", "ggml-base", "ggml-cpu")
_ABANDONED_S = 86_400
_BYTES_PER_JOB = 1_500_000_000


@dataclass(frozen=True)
class LlamaBuild:
    """One build of llama-cpp-python: its version and CMake's flags."""

    version: str
    flags: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name of this build's folder among the wheels, readable up to the hash."""
        libc = "".join(platform.libc_ver())
        recipe = _RECIPE.read_text(encoding="utf-8")
        shaped_by = fingerprint(self.version, self.flags, recipe, _TARGETS, self.excluded)
        parts = (self.version, platform.system(), platform.machine(), libc, shaped_by)
        return "-".join(part for part in parts if part).lower()

    @property
    def is_for_packages(self) -> bool:
        """Says whether every back end is a file of its own, so that the build runs on other computers too."""
        return "-DGGML_BACKEND_DL=ON" in self.flags

    @property
    def excluded(self) -> str:
        """What the wheel leaves out, as scikit-build-core wants it."""
        return _EXCLUDED_FROM_PACKAGES if self.is_for_packages else _EXCLUDED

    @property
    def has_gpu(self) -> bool:
        """Says whether GPU kernels are built, which takes far longer."""
        return not {"-DGGML_CUDA=ON", "-DGGML_VULKAN=ON"}.isdisjoint(self.flags)


def choose_builds(version: str, environ: Mapping[str, str] = os.environ) -> list[LlamaBuild]:
    """Returns the builds for this machine, best first; a later one serves where the one before it fails or dies.

    A GPU's tool chain may be incomplete, and a hypervisor may report instructions that it traps.
    """
    features = features_the_compiler_knows(cpu_features(), _compiler_accepts(environ))
    tools, system, machine = find_tools(environ), platform.system(), platform.machine()

    def flags(level: frozenset[str], chosen: Mapping[str, str]) -> list[str]:
        return build_flags(level, system, machine, tools, chosen)

    return ranked_builds(version, features, flags, environ)


def ranked_builds(
    version: str,
    features: frozenset[str],
    flags: Callable[[frozenset[str], Mapping[str, str]], list[str]],
    environ: Mapping[str, str],
) -> list[LlamaBuild]:
    """Returns the builds from the best down: with the GPU unless a person chose otherwise, then simpler processors."""
    best = LlamaBuild(version, tuple(flags(features, environ)))
    gives_way = best.has_gpu and environ.get("QUERN_GPU", "auto").lower() in {"", "auto"}
    later = {**environ, "QUERN_GPU": "none"} if gives_way else environ
    levels = (features, features & AVX2_GENERATION, features & X86_64_V2)
    return list(dict.fromkeys([best, *(LlamaBuild(version, tuple(flags(level, later))) for level in levels)]))


def surroundings(version: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns a hash of all that `choose_builds` decides by. It runs no program, so asking costs milliseconds."""
    programs = [shutil.which(name) for name in ("nvcc", "nvidia-smi", "glslc", *_compilers(environ))]
    names = ("QUERN_GPU", "QUERN_CMAKE_ARGS", "VULKAN_SDK", "CXX")
    recipe = [(_HERE / name).read_text(encoding="utf-8") for name in (_RECIPE.name, "build_flags.py", "llama_wheel.py")]
    return fingerprint(version, sorted(cpu_features()), programs, [environ.get(name, "") for name in names], recipe)


def wheels_folder(build_folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Returns where finished wheels are kept."""
    shared = environ.get("QUERN_WHEELS")
    return Path(shared).expanduser() if shared else build_folder / "wheels"


def finished_wheel(folder: Path, build: LlamaBuild) -> Path | None:
    """Returns the wheel of `build` if it was built before."""
    return next((folder / build.key).glob("*.whl"), None)


def unpack_source(archive: Path, target: Path) -> None:
    """Unpacks llama-cpp-python's source archive to `target`, whole or not at all."""
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # from 3.11.4 on, and in patched older ones
            tar.extractall(part, filter="data")
        else:
            tar.extractall(part)
    (inner,) = part.iterdir()
    shutil.rmtree(target, ignore_errors=True)
    inner.replace(target)
    part.rmdir()


def build_wheel(
    build: LlamaBuild, *, source: Path, wheels: Path, python: Path, console: Console,
    environ: Mapping[str, str] = os.environ,
) -> Path:  # fmt: skip
    """Builds the wheel with the build tools of the environment of `python`, and returns its place in `wheels`.

    `environ` is what the compilers see. Raises SetUpError with the compiler's own words when the build fails.
    """
    shutil.rmtree(source / "llama_cpp" / "lib", ignore_errors=True)  # the build installs here too; old ones would stay
    part = wheels / f".{build.key}.part-{os.getpid()}"
    _remove_abandoned(wheels)
    part.mkdir(parents=True)
    try:
        where = "every computer" if build.is_for_packages else "this computer"
        with console.step(f"Building llama.cpp for {where}", _estimate(build)):
            command = [str(python), "-c", _BUILD, str(part), build.excluded]
            failure = "llama.cpp could not be built."
            progress, env = _Progress(console), _environment(build, python, environ)
            console.run(command, failure=failure, on_line=progress, env=env, cwd=source)
        check_wheel(next(part.glob("*.whl")), _LIBRARIES[:-1] if build.is_for_packages else _LIBRARIES)
        return _keep(part, wheels, build)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_wheel(wheel: Path, libraries: Sequence[str] = _LIBRARIES) -> None:
    """Raises SetUpError when one of the `libraries` that Quern loads is not in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = " ".join(archive.namelist())
    absent = [name for name in libraries if not re.search(rf"llama_cpp/lib/(lib)?{name}\.(so|dylib|dll)", files)]
    if absent:
        names = ", ".join(absent)
        raise SetUpError(f"llama.cpp was built without {names}. Unset QUERN_CMAKE_ARGS and run this again.")


def _remove_abandoned(wheels: Path) -> None:
    """Removes what builds that were killed left, sparing those that somebody else may be working on."""
    for left in wheels.glob(".*.part-*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(left, ignore_errors=True)


def _keep(part: Path, wheels: Path, build: LlamaBuild) -> Path:
    target = wheels / build.key
    try:
        part.replace(target)
    except OSError:  # somebody sharing the folder was quicker
        if finished_wheel(wheels, build) is None:
            raise
    return next(target.glob("*.whl"))


def _environment(build: LlamaBuild, python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    jobs = environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(_jobs())
    return {
        **environ,
        "PATH": os.pathsep.join([str(python.parent), environ.get("PATH", "")]),
        "CMAKE_ARGS": shlex.join([*build.flags, f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={_RECIPE.as_posix()}"]),
        "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
    }


def cores() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _jobs() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return cores()
    return max(1, min(cores(), memory // _BYTES_PER_JOB))


def _estimate(build: LlamaBuild) -> str:
    if build.is_for_packages:
        return "once; every processor's kernels and those of graphics cards, about half an hour on two cores"
    if build.has_gpu:
        return "once; with GPU kernels, 10 minutes to an hour"
    minutes = max(1, math.ceil(6 / cores()))
    return f"once; about {minutes} minute{'s' if minutes > 1 else ''}"


class _Progress:
    """Turns Ninja's "[12/78] …" into a percentage and an estimate."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, line: str) -> None:
        counted = re.match(r"\s*\[(\d+)/(\d+)\]", line)
        if not counted or int(counted[1]) == 0:  # Ninja begins with "[0/2]" where it looks for new files
            return
        done = int(counted[1]) / int(counted[2])
        left = self._console.elapsed / done * (1 - done)
        rest = f", about {duration(left)} left" if done > 0.1 else ""
        self._console.progress(f"{done:.0%} ({counted[1]} of {counted[2]} files){rest}")


def _compilers(environ: Mapping[str, str]) -> tuple[str, ...]:
    return (*environ.get("CXX", "").split()[:1], "c++", "g++", "clang++")


def _compiler_accepts(environ: Mapping[str, str]) -> Callable[[str], bool]:
    compiler = next((path for name in _compilers(environ) if (path := shutil.which(name))), None)

    def accepts(option: str) -> bool:
        if compiler is None:  # Microsoft's compiler has one switch for it all
            return True
        command = [compiler, option, "-x", "c++", "-c", "-o", os.devnull, "-"]
        return subprocess.run(command, input=b"", capture_output=True, check=False).returncode == 0

    return accepts
