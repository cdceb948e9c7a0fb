"""Chooses llama.cpp's build flags from the processor and the GPU tool chain. Builds nothing.

The library is never built with -march=native: on machines whose hypervisor promises more than it gives (AMX tiles, for
one) such a build dies with an illegal instruction. Each instruction set is named instead, on or off.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from console import SetUpError

# CMake option -> the processor features (Linux's names) it needs -> the compiler option it adds.
# Source: ggml/CMakeLists.txt and ggml/src/ggml-cpu/CMakeLists.txt. AMX is left out on purpose.
X86_OPTIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("GGML_SSE42", ("sse4_2",), "-msse4.2"),
    ("GGML_AVX", ("avx",), "-mavx"),
    ("GGML_F16C", ("f16c",), "-mf16c"),
    ("GGML_FMA", ("fma",), "-mfma"),
    ("GGML_BMI2", ("bmi2",), "-mbmi2"),
    ("GGML_AVX2", ("avx2",), "-mavx2"),
    ("GGML_AVX_VNNI", ("avx_vnni",), "-mavxvnni"),
    ("GGML_AVX512", ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"), "-mavx512f"),
    ("GGML_AVX512_VBMI", ("avx512vbmi",), "-mavx512vbmi"),
    ("GGML_AVX512_VNNI", ("avx512_vnni",), "-mavx512vnni"),
    ("GGML_AVX512_BF16", ("avx512_bf16",), "-mavx512bf16"),
)
# What an option's code takes for granted besides its own feature.
_NEEDS = {
    "GGML_AVX2": ("GGML_AVX",),
    "GGML_F16C": ("GGML_AVX",),
    "GGML_FMA": ("GGML_AVX",),
    "GGML_AVX_VNNI": ("GGML_AVX2",),
    "GGML_AVX512": ("GGML_AVX2", "GGML_FMA", "GGML_F16C"),
    "GGML_AVX512_VBMI": ("GGML_AVX512",),
    "GGML_AVX512_VNNI": ("GGML_AVX512",),
    "GGML_AVX512_BF16": ("GGML_AVX512",),
}
_ARM_FEATURES = (("asimddp", "dotprod"), ("asimdhp", "fp16"), ("i8mm", "i8mm"))
X86_64_V2 = frozenset({"sse4_2"})
AVX2_GENERATION = X86_64_V2 | {"avx", "avx2", "fma", "f16c", "bmi2"}
VULKAN_HEADERS_NEEDED = (1, 4, 0)
GPU_CHOICES = ("auto", "cuda", "vulkan", "metal", "none")


@dataclass(frozen=True)
class Tools:
    """The GPU tool chains of this machine. `vulkan_headers` is a version, `cuda_architectures` are like "89"."""

    nvcc: str | None = None
    cuda_architectures: tuple[str, ...] = ()
    glslc: str | None = None
    vulkan_headers: tuple[int, int, int] | None = None
    spirv_headers: bool = False
    vulkan_device: bool = False


def build_flags(
    features: Collection[str], system: str, machine: str, tools: Tools, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Returns CMake's -D flags for this machine.

    `system` and `machine` are platform.system() and platform.machine(). In `environ`, QUERN_GPU chooses the GPU tool
    chain and QUERN_CMAKE_ARGS adds flags, which win over ours. Raises SetUpError when QUERN_GPU names none we know.
    """
    environ = environ or {}
    flags = ["-DGGML_NATIVE=OFF", "-DLLAVA_BUILD=OFF", "-DGGML_CCACHE=ON"]
    flags += _cpu_flags(frozenset(features), machine.lower())
    flags += _gpu_flags(environ.get("QUERN_GPU", "auto").lower() or "auto", system, machine.lower(), tools)
    return flags + shlex.split(environ.get("QUERN_CMAKE_ARGS", ""))


def package_flags(system: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Returns CMake's -D flags of the build that packages carry: it chooses among its parts where it runs.

    Every back end is a file of its own, and there is one for each generation of processors. QUERN_GPU chooses the
    graphics cards (Vulkan, on a Mac Metal, unless it says otherwise); QUERN_CMAKE_ARGS adds flags, which win over ours.
    """
    environ = environ or {}
    choice = environ.get("QUERN_GPU", "auto").lower() or "auto"
    if choice == "auto":
        choice = "metal" if system == "Darwin" else "vulkan"
    flags = ["-DGGML_NATIVE=OFF", "-DLLAVA_BUILD=OFF", "-DGGML_CCACHE=ON"]
    flags += ["-DGGML_BACKEND_DL=ON", "-DGGML_CPU_ALL_VARIANTS=ON"]
    flags += [f"-DCMAKE_INSTALL_RPATH={'@loader_path' if system == 'Darwin' else '$ORIGIN'}"]  # they lie side by side
    flags += _gpu_flags(choice, system, "", Tools(cuda_architectures=("all-major",)))
    return flags + shlex.split(environ.get("QUERN_CMAKE_ARGS", ""))


def _cpu_flags(features: frozenset[str], machine: str) -> list[str]:
    if machine in {"x86_64", "amd64"}:
        return _x86_flags(features)
    if machine in {"arm64", "aarch64"}:
        return _arm_flags(features)
    return []


def _x86_flags(features: frozenset[str]) -> list[str]:
    on: set[str] = set()
    for option, needed, _ in X86_OPTIONS:
        if features.issuperset(needed) and on.issuperset(_NEEDS.get(option, ())):
            on.add(option)
    return [f"-D{option}={'ON' if option in on else 'OFF'}" for option, _, _ in X86_OPTIONS]


def _arm_flags(features: frozenset[str]) -> list[str]:
    extensions = [name for feature, name in _ARM_FEATURES if feature in features]
    return ["-DGGML_CPU_ARM_ARCH=" + "+".join(["armv8.2-a", *extensions])] if extensions else []


def _gpu_flags(choice: str, system: str, machine: str, tools: Tools) -> list[str]:
    if choice not in GPU_CHOICES:
        raise SetUpError(f'QUERN_GPU is "{choice}"; it can be {", ".join(GPU_CHOICES)}.')
    if choice == "auto":
        choice = _best_gpu(system, machine, tools)
    if system == "Darwin":
        return [f"-DGGML_METAL={'ON' if choice == 'metal' else 'OFF'}"]
    if choice == "cuda":
        architectures = ";".join(tools.cuda_architectures)
        return ["-DGGML_CUDA=ON", *([f"-DCMAKE_CUDA_ARCHITECTURES={architectures}"] if architectures else [])]
    return ["-DGGML_VULKAN=ON"] if choice == "vulkan" else []


def _best_gpu(system: str, machine: str, tools: Tools) -> str:
    if system == "Darwin":
        return "metal" if machine == "arm64" else "none"
    if tools.nvcc and tools.cuda_architectures:
        return "cuda"
    return "vulkan" if _vulkan_is_usable(tools) else "none"


def _vulkan_is_usable(tools: Tools) -> bool:
    headers = tools.vulkan_headers or (0, 0, 0)
    return bool(tools.glslc and tools.spirv_headers and tools.vulkan_device and headers >= VULKAN_HEADERS_NEEDED)


def cpu_features(system: str | None = None) -> frozenset[str]:
    """Returns what this processor can do, in Linux's words (avx2, avx512_vnni, asimddp …)."""
    readers: dict[str, Callable[[], frozenset[str]]] = {
        "Linux": _linux_features,
        "Darwin": _mac_features,
        "Windows": _windows_features,
    }
    reader = readers.get(system or platform.system())
    return reader() if reader else frozenset()


def _linux_features() -> frozenset[str]:
    return parse_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Returns the features that every processor in /proc/cpuinfo has (on some ARM chips the cores differ)."""
    lines = re.findall(r"^(?:flags|Features)[ \t]*:(.*)$", text, re.MULTILINE)
    return frozenset.intersection(*(frozenset(line.split()) for line in lines)) if lines else frozenset()


def _mac_features() -> frozenset[str]:
    names = ("machdep.cpu.features", "machdep.cpu.leaf7_features", "hw.optional.arm.FEAT_DotProd",
             "hw.optional.arm.FEAT_FP16", "hw.optional.arm.FEAT_I8MM")  # fmt: skip
    done = subprocess.run(["/usr/sbin/sysctl", *names], capture_output=True, text=True, check=False)
    return parse_sysctl(done.stdout)


def parse_sysctl(text: str) -> frozenset[str]:
    """Returns the features in macOS's sysctl output, without AVX-512: llama-cpp-python's build assumes none there."""
    intel = {"SSE4.2": "sse4_2", "AVX1.0": "avx", "AVX2": "avx2", "FMA": "fma", "F16C": "f16c", "BMI2": "bmi2"}
    arm = {"FEAT_DotProd: 1": "asimddp", "FEAT_FP16: 1": "asimdhp", "FEAT_I8MM: 1": "i8mm"}
    words = set(text.split())
    found = {feature for name, feature in intel.items() if name in words}
    return frozenset(found | {feature for line, feature in arm.items() if line in text})


def _windows_features() -> frozenset[str]:
    if sys.platform != "win32":
        return frozenset()
    import ctypes

    # Windows tells AVX-512's base apart but not its parts, so AVX2 is the highest level asked for.
    # https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-isprocessorfeaturepresent
    is_present = ctypes.windll.kernel32.IsProcessorFeaturePresent
    if is_present(40):  # PF_AVX2_INSTRUCTIONS_AVAILABLE
        return AVX2_GENERATION
    return frozenset(name for number, name in ((38, "sse4_2"), (39, "avx")) if is_present(number))


def features_the_compiler_knows(features: frozenset[str], accepts: Callable[[str], bool]) -> frozenset[str]:
    """Drops the features whose option the compiler refuses (`accepts("-mavxvnni")` is False): GCC before 11, say."""
    refused: set[str] = set()
    for _, needed, option in X86_OPTIONS:
        if features.issuperset(needed) and not accepts(option):
            refused.update(needed)
    return features - refused


def find_tools(environ: Mapping[str, str] = os.environ) -> Tools:
    """Looks for the GPU tool chains of this machine. Asks the NVIDIA driver only where nvcc is installed."""
    nvcc = shutil.which("nvcc")
    sdk = environ.get("VULKAN_SDK", "")
    return Tools(
        nvcc=nvcc,
        cuda_architectures=_cuda_architectures() if nvcc else (),
        glslc=shutil.which("glslc"),
        vulkan_headers=_vulkan_headers(sdk),
        spirv_headers=_has_spirv_headers(sdk),
        vulkan_device=platform.system() == "Windows" or any(Path("/dev/dri").glob("renderD*")),
    )


def _cuda_architectures() -> tuple[str, ...]:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ()
    try:
        query = [smi, "--query-gpu=compute_cap", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_compute_capabilities(done.stdout) if done.returncode == 0 else ()


def parse_compute_capabilities(text: str) -> tuple[str, ...]:
    """Returns CMake's names ("89") for nvidia-smi's compute capabilities ("8.9"), each once."""
    return tuple(sorted({major + minor for major, minor in re.findall(r"^(\d+)\.(\d)\s*$", text, re.MULTILINE)}))


def _vulkan_headers(sdk: str) -> tuple[int, int, int] | None:
    for folder in (*([Path(sdk) / "include", Path(sdk) / "Include"] if sdk else []), Path("/usr/include")):
        header = folder / "vulkan" / "vulkan_core.h"
        if header.is_file():
            return parse_vulkan_header(header.read_text(encoding="utf-8", errors="replace"))
    return None


def parse_vulkan_header(text: str) -> tuple[int, int, int] | None:
    """Returns the version that vulkan_core.h states, or None."""
    patch = re.search(r"^#define VK_HEADER_VERSION (\d+)", text, re.MULTILINE)
    complete = re.search(r"VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(\d+, (\d+), (\d+),", text)
    return (int(complete[1]), int(complete[2]), int(patch[1])) if patch and complete else None


def _has_spirv_headers(sdk: str) -> bool:
    roots = [*([Path(sdk)] if sdk else []), Path("/usr"), Path("/usr/local")]
    places = ("share/cmake", "lib/cmake", "Lib/cmake")
    return any((root / place / "SPIRV-Headers").is_dir() for root in roots for place in places)
