"""Which instruction sets the operating system lets programs use. Loads no engine.

The processor's own word (CPUID) is not enough: AVX, AVX-512 and AMX need registers that the system saves when it turns
from one program to another, and where it does not, their first instruction ends the process. Names are Linux's.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_AVX = frozenset({"avx", "avx2", "fma", "f16c", "avx_vnni"})
_AVX512 = frozenset({
    "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw", "avx512vbmi", "avx512_vnni", "avx512_bf16",
})  # fmt: skip
_AMX = frozenset({"amx_tile", "amx_int8", "amx_bf16"})
# Bits of XCR0, the register that says what the system saves. Intel SDM, volume 1, chapter 13.
_STATES = ((_AVX | _AVX512 | _AMX, 0b110), (_AVX512 | _AMX, 0b111 << 5), (_AMX, 0b11 << 17))
_ARCH_PRCTL, _GET_SUPPORTED_STATES = 158, 0x1021  # x86-64 Linux: asm/prctl.h, ARCH_GET_XCOMP_SUPP


def denied(features: Iterable[str]) -> frozenset[str]:
    """Returns those of the features that the system does not let programs use; none where it does not say."""
    readers: dict[str, Callable[[], Callable[[str], bool] | None]] = {
        "linux": _allowed_by_linux, "win32": _allowed_by_windows,
    }  # fmt: skip
    allowed = readers.get(sys.platform, lambda: None)()
    return frozenset(name for name in features if allowed is not None and not allowed(name))


def _allowed_by_linux() -> Callable[[str], bool] | None:
    """The kernel lists only what it has enabled, and tells apart whether it hands out the tiles of AMX."""
    try:
        listed = parse_cpuinfo(_CPUINFO.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    if not listed:
        return None
    states = _states_of_linux() if listed & _AMX else None
    return lambda name: name in listed and (states is None or states_allow(name, states))


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Returns the features that every processor in /proc/cpuinfo has: on some chips the cores differ."""
    lines = re.findall(r"^(?:flags|Features)[ \t]*:(.*)$", text, re.MULTILINE)
    return frozenset.intersection(*(frozenset(line.split()) for line in lines)) if lines else frozenset()


def _states_of_linux() -> int | None:
    """Returns the register states that a process may ask for; 0 before Linux 5.16, which has no AMX."""
    if platform.machine() != "x86_64":
        return None
    mask = ctypes.c_uint64()
    status = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _GET_SUPPORTED_STATES, ctypes.byref(mask))
    return mask.value if status == 0 else 0b11100111


def _allowed_by_windows() -> Callable[[str], bool] | None:
    if sys.platform != "win32":
        return None
    function = ctypes.windll.kernel32.GetEnabledXStateFeatures
    function.restype = ctypes.c_uint64
    states = int(function())
    return lambda name: states_allow(name, states)


def states_allow(feature: str, states: int) -> bool:
    """Says whether the registers of a feature are among the `states`, a mask as in XCR0."""
    return all(states & bits == bits for features, bits in _STATES if feature in features)
