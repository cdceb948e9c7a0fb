"""The builds of the processor code: what each one needs, and how they are ranked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from runtime.llama import variants
from runtime.llama.variants import NEEDS, Unusable, names_here, ranked

SOURCE = next(Path(__file__).parents[3].glob("build/llama-cpp-python-*/vendor/llama.cpp/ggml/src"), None)
# CMake's word for an instruction set -> Linux's words, as the compiler's options mean them
_MEANT = {
    "SSE42": {"sse4_2"}, "AVX512": {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"},
    "AVX512_VBMI": {"avx512vbmi"},
}  # fmt: skip


def files(*names: str) -> list[Path]:
    return [Path(f"/lib/libggml-cpu-{name}.so") for name in names]


def nothing_denied(_features: Iterable[str]) -> frozenset[str]:
    return frozenset()


@pytest.mark.skipif(SOURCE is None, reason="llama.cpp's source is not unpacked here")
def test_the_table_says_what_llama_cpp_builds() -> None:
    assert SOURCE is not None
    text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    x86 = text[text.index("ggml_add_cpu_backend_variant(x64)") : text.index("ggml_add_cpu_backend_variant(armv8")]
    lines = re.findall(r"ggml_add_cpu_backend_variant\((\w+)([\w ]*)\)", x86)
    built = {
        name: set().union(*(_MEANT.get(word, {word.lower()}) for word in words.split())) for name, words in lines
    }
    assert {name: set(needs) for name, needs in NEEDS.items()} == built


def test_the_highest_score_comes_first_and_the_unusable_last() -> None:
    scores = {"x64": 1, "haswell": 64, "zen4": 2000, "sapphirerapids": 0}
    found = ranked(files(*scores), score=lambda file: scores[variants.variant_name(file)], denied=nothing_denied)
    assert [variant.name for variant in found] == ["zen4", "haswell", "x64", "sapphirerapids"]
    assert found[-1].unusable is Unusable.PROCESSOR


def test_what_the_system_withholds_is_not_used_whatever_the_processor_says() -> None:
    def no_avx512(features: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in features if name.startswith("avx512"))

    best, other = ranked(files("zen4", "haswell"), score=lambda _file: 9, denied=no_avx512)
    assert (best.name, best.unusable) == ("haswell", None)
    assert (other.name, other.unusable) == ("zen4", Unusable.SYSTEM)
    assert "avx512f" in other.detail


def test_a_file_that_is_no_library_is_named_damaged(tmp_path: Path) -> None:
    file = tmp_path / "libggml-cpu-x64.so"
    file.write_text("not a library")
    (variant,) = ranked([file], denied=nothing_denied)
    assert variant.unusable is Unusable.DAMAGED
    assert "libggml-cpu-x64.so" in variant.detail


def test_other_back_ends_are_no_variants() -> None:
    assert ranked([Path("libggml-vulkan.so"), Path("libggml-base.so")]) == ()


def test_names_are_those_of_files_that_the_system_allows_the_newest_first() -> None:
    def no_amx(features: Iterable[str]) -> frozenset[str]:
        return frozenset(features) & {"amx_tile", "amx_int8"}

    found = [*files("x64", "haswell", "sapphirerapids", "zen4", "future"), Path("/lib/libggml-vulkan.so")]
    assert names_here(found, no_amx) == ("zen4", "haswell", "x64", "future")
