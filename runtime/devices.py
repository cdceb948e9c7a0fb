"""The processor, its memory and the graphics cards, as far as the system tells. Loads no engine."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_PROC_CPU = Path("/proc/cpuinfo")
_CPU_FOLDER = Path("/sys/devices/system/cpu")
_CGROUP_FOLDER = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_DRM_FOLDER = Path("/sys/class/drm")
_NVIDIA_FOLDER = Path("/proc/driver/nvidia/gpus")

# What llama.cpp's kernels ask for, in the words of /proc/cpuinfo.
_FEATURES = {
    "sse3": "SSE3", "pni": "SSE3", "ssse3": "SSSE3", "sse4_2": "SSE4.2", "avx": "AVX", "f16c": "F16C", "fma": "FMA",
    "bmi2": "BMI2", "avx2": "AVX2", "avx_vnni": "AVX-VNNI", "avx512f": "AVX512", "avx512vbmi": "AVX512-VBMI",
    "avx512_vnni": "AVX512-VNNI", "avx512_bf16": "AVX512-BF16", "amx_int8": "AMX-INT8", "amx_tile": "AMX",
    "asimd": "NEON", "asimddp": "DOTPROD", "i8mm": "I8MM", "sve": "SVE", "sme": "SME",
}  # fmt: skip
_VENDORS = {"0x1002": "AMD", "0x10de": "NVIDIA", "0x8086": "Intel", "0x106b": "Apple"}


@dataclass(frozen=True, slots=True)
class Processor:
    """The processor. `usable` counts the physical cores this process may use; the names are the maker's."""

    name: str
    architecture: str
    cores: int
    threads: int
    usable: int
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphicsCard:
    """A graphics card that the system knows. `memory` is in bytes, 0 where the system does not say."""

    name: str
    vendor: str
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything of this computer that matters for running a model. Memory in bytes."""

    processor: Processor
    memory_total: int
    memory_free: int
    graphics: tuple[GraphicsCard, ...]


def machine() -> Machine:
    """Returns what the system says now."""
    memory = psutil.virtual_memory()
    return Machine(processor(), memory.total, memory.available, tuple(graphics_cards()))


def processor() -> Processor:
    """Returns the processor."""
    return Processor(
        name=_processor_name(),
        architecture=platform.machine(),
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        threads=psutil.cpu_count() or 1,
        usable=usable_cores(),
        features=processor_features(),
    )


def usable_cores() -> int:
    """Returns how many physical cores this process may use: those it is bound to, within a container's limit.

    Two threads of one core share its arithmetic units, so for the matrix products a core counts once.
    """
    allowed = _allowed_threads()
    cores = {_core_of(thread) for thread in allowed} if allowed else set()
    count = len(cores) or psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    limit = _cgroup_limit()
    return max(1, min(count, round(limit)) if limit else count)


def processor_features() -> tuple[str, ...]:
    """Returns the instruction sets that llama.cpp can use, without repetitions; empty where the system is silent."""
    listed = _cpuinfo("flags") or _cpuinfo("Features")
    present = set(listed.lower().split())
    return tuple(dict.fromkeys(name for flag, name in _FEATURES.items() if flag in present))


def graphics_cards() -> Iterator[GraphicsCard]:
    """Yields the graphics cards that Linux lists; on macOS the one that Apple's processors hold.

    Whether an engine can use them is the engine's to say.
    """
    if sys.platform == "darwin" and platform.machine() == "arm64":
        yield GraphicsCard(name=_processor_name(), vendor="Apple", memory=psutil.virtual_memory().total)
    nvidia = list(_nvidia_cards())
    yield from nvidia
    for device in sorted(_DRM_FOLDER.glob("card[0-9]*/device")):
        vendor = _VENDORS.get(_read(device / "vendor"))
        if vendor and not (vendor == "NVIDIA" and nvidia):
            yield GraphicsCard(name=_read(device / "product_name") or vendor, vendor=vendor, memory=_vram(device))


def _nvidia_cards() -> Iterator[GraphicsCard]:
    for folder in sorted(_NVIDIA_FOLDER.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", _read(folder), re.MULTILINE)
        yield GraphicsCard(name=match[1].strip() if match else "NVIDIA", vendor="NVIDIA")


def _vram(device: Path) -> int:
    size = _read(device / "mem_info_vram_total")
    return int(size) if size.isdigit() else 0


def _processor_name() -> str:
    name = _cpuinfo("model name") or platform.processor() or platform.machine()
    return " ".join(name.split())


def _cpuinfo(field: str) -> str:
    match = re.search(rf"^{re.escape(field)}\s*:\s*(.+)$", _read(_PROC_CPU), re.MULTILINE)
    return match[1] if match else ""


def _allowed_threads() -> set[int]:
    """Returns the hardware threads this process is bound to; empty where the system has no such binding."""
    getter = getattr(os, "sched_getaffinity", None)
    return set(getter(0)) if getter else set()


def _core_of(thread: int) -> str:
    """Returns a name that the threads of one core share."""
    siblings = _read(_CPU_FOLDER / f"cpu{thread}" / "topology" / "thread_siblings_list")
    return siblings or str(thread)


def _cgroup_limit() -> float:
    """Returns the processor time a container may use, in cores; 0 without a limit."""
    limits = [_cores_of_quota(*_read(folder / "cpu.max").split()[:2]) for folder in _cgroups("cpu.max")]
    for folder in _cgroups("cpu.cfs_quota_us", controller="cpu"):
        limits.append(_cores_of_quota(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")))
    return min((limit for limit in limits if limit), default=0.0)


def _cores_of_quota(quota: str = "", period: str = "") -> float:
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0.0


def memory_left_in_container() -> int | None:
    """Returns the bytes that a container's limit leaves to this process; None without a limit."""
    left = [limit - used for limit, used in _memory_of_containers()]
    return max(0, min(left)) if left else None


def memory_limit_of_container() -> int | None:
    """Returns the bytes that a container allows; None without a limit."""
    return min((limit for limit, _used in _memory_of_containers()), default=None)


def _memory_of_containers() -> list[tuple[int, int]]:
    """Returns the limit and the use of each control group around this process that has a limit, in bytes."""
    pairs = [(folder / "memory.max", folder / "memory.current") for folder in _cgroups("memory.max")] + [
        (folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes")
        for folder in _cgroups("memory.limit_in_bytes", controller="memory")
    ]
    numbers = [(_read(limit), _read(used)) for limit, used in pairs]
    return [(int(limit), int(used)) for limit, used in numbers if limit.isdigit() and used.isdigit()]


def _cgroups(name: str, *, controller: str = "") -> list[Path]:
    """Returns the control groups around this process that have a file `name`, of version 1 with a `controller`."""
    root = _CGROUP_FOLDER / controller
    found = []
    for line in _read(_OWN_CGROUPS).splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if controller in controllers.split(",") and ".." not in path.split("/"):  # outside this namespace
            inner = root / path.lstrip("/")
            found += [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root)]
    return [folder for folder in dict.fromkeys((*found, root)) if (folder / name).is_file()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
