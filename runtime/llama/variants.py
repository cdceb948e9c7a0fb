"""The builds of llama.cpp's processor code, one for each generation, and which of them this computer may run.

Ranks them only; loads none but to ask its own opinion. Which one survives is for `trials.py` to find out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runtime import cpu_features

_AVX2 = ("avx", "f16c", "fma", "avx2", "bmi2")
_AVX512 = (*_AVX2, "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw")
# What each one's code takes for granted, in Linux's words. Source: ggml/src/CMakeLists.txt, GGML_CPU_ALL_VARIANTS.
NEEDS: dict[str, tuple[str, ...]] = {
    "x64": (),
    "sse42": ("sse4_2",),
    "sandybridge": ("sse4_2", "avx"),
    "ivybridge": ("sse4_2", "avx", "f16c"),
    "piledriver": ("sse4_2", "avx", "f16c", "fma"),
    "haswell": ("sse4_2", *_AVX2),
    "alderlake": ("sse4_2", *_AVX2, "avx_vnni"),
    "skylakex": ("sse4_2", *_AVX512),
    "cannonlake": ("sse4_2", *_AVX512, "avx512vbmi"),
    "cascadelake": ("sse4_2", *_AVX512, "avx512_vnni"),
    "cooperlake": ("sse4_2", *_AVX512, "avx512_vnni", "avx512_bf16"),
    "icelake": ("sse4_2", *_AVX512, "avx512vbmi", "avx512_vnni"),
    "zen4": ("sse4_2", *_AVX512, "avx512vbmi", "avx512_vnni", "avx512_bf16"),
    "sapphirerapids": (
        "sse4_2", *_AVX512, "avx512vbmi", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8",
    ),
}  # fmt: skip
_MARK = "ggml-cpu-"


class Unusable(StrEnum):
    """Why a variant is out of the question before it is tried."""

    DAMAGED = "damaged"  # it cannot be loaded as a library
    PROCESSOR = "processor"  # the processor lacks an instruction set
    SYSTEM = "system"  # the operating system withholds one


@dataclass(frozen=True, slots=True)
class Variant:
    """One build of the processor code. `score` orders the usable ones; `detail` names what is missing."""

    name: str
    file: Path
    score: int = 0
    unusable: Unusable | None = None
    detail: str = ""


Score = Callable[[Path], int]
Denied = Callable[[Iterable[str]], frozenset[str]]


def is_variant(file: Path) -> bool:
    """Says whether a library is one of several builds of the processor code."""
    return _MARK in file.name


def variant_name(file: Path) -> str:
    """Returns "haswell" for libggml-cpu-haswell.so."""
    return file.name.partition(_MARK)[2].rpartition(".")[0]


def names_here(files: Iterable[Path], denied: Denied = cpu_features.denied) -> tuple[str, ...]:
    """Returns the names of the variants that nothing speaks against before one is loaded, for the newest first."""
    names = [variant_name(file) for file in files if is_variant(file)]
    known = [name for name in reversed(NEEDS) if name in names and not denied(NEEDS[name])]
    return (*known, *sorted(name for name in names if name not in NEEDS))


def own_score(file: Path) -> int:
    """Returns what the library itself says: higher is better, 0 where the processor lacks something it needs.

    Raises OSError where it is no whole library.
    """
    function = ctypes.CDLL(str(file)).ggml_backend_score
    function.restype = ctypes.c_int
    return int(function())


def ranked(
    files: Sequence[Path], *, score: Score = own_score, denied: Denied = cpu_features.denied
) -> tuple[Variant, ...]:
    """Returns the variants among the files: the usable ones from the best down, then the others with their reasons."""
    found = [_judged(file, score, denied) for file in files if is_variant(file)]
    return tuple(sorted(found, key=lambda variant: (variant.unusable is not None, -variant.score, variant.name)))


def _judged(file: Path, score: Score, denied: Denied) -> Variant:
    name = variant_name(file)
    withheld = denied(NEEDS.get(name, ()))
    try:
        points = score(file)
    except (OSError, AttributeError) as error:
        return Variant(name, file, unusable=Unusable.DAMAGED, detail=str(error))
    if points <= 0:
        return Variant(name, file, unusable=Unusable.PROCESSOR, detail=", ".join(sorted(withheld)))
    if withheld:
        return Variant(name, file, unusable=Unusable.SYSTEM, detail=", ".join(sorted(withheld)))
    return Variant(name, file, points)
