"""The build flags that each kind of processor and tool chain gets."""

from __future__ import annotations

import pytest

from build_flags import (
    Tools,
    build_flags,
    features_the_compiler_knows,
    parse_compute_capabilities,
    parse_cpuinfo,
    parse_sysctl,
    parse_vulkan_header,
)
from console import SetUpError

X86_64_V2 = ["fpu", "sse", "sse2", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm"]
SANDY_BRIDGE = [*X86_64_V2, "avx"]
HASWELL = [*SANDY_BRIDGE, "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"]
SKYLAKE_X = [*HASWELL, "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"]
ICE_LAKE = [*SKYLAKE_X, "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq"]
ZEN_4 = [*ICE_LAKE, "avx512_bf16"]
ALDER_LAKE = [*HASWELL, "avx_vnni"]
SAPPHIRE_RAPIDS = [*ZEN_4, "avx_vnni", "avx512_fp16", "amx_bf16", "amx_tile", "amx_int8"]

BASE = {"SSE42"}
AVX2 = BASE | {"AVX", "AVX2", "FMA", "F16C", "BMI2"}
AVX512 = AVX2 | {"AVX512"}
VULKAN_SDK = Tools(glslc="/usr/bin/glslc", vulkan_headers=(1, 4, 309), spirv_headers=True, vulkan_device=True)
NO_TOOLS = Tools()
NVIDIA = Tools(nvcc="/usr/local/cuda/bin/nvcc", cuda_architectures=("89",))


def on(flags: list[str]) -> set[str]:
    """Returns the names of the GGML_ options that `flags` turns on."""
    return {flag.removeprefix("-DGGML_").removesuffix("=ON") for flag in flags if flag.endswith("=ON")} - {"CCACHE"}


def linux(features: list[str], tools: Tools = NO_TOOLS, **environ: str) -> list[str]:
    return build_flags(features, "Linux", "x86_64", tools, environ)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (X86_64_V2, BASE),
        (SANDY_BRIDGE, BASE | {"AVX"}),
        (HASWELL, AVX2),
        (ALDER_LAKE, AVX2 | {"AVX_VNNI"}),
        (SKYLAKE_X, AVX512),
        (ICE_LAKE, AVX512 | {"AVX512_VBMI", "AVX512_VNNI"}),
        (ZEN_4, AVX512 | {"AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"}),
        (SAPPHIRE_RAPIDS, AVX512 | {"AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AVX_VNNI"}),
    ],
    ids=["x86-64-v2", "Sandy Bridge", "Haswell", "Alder Lake", "Skylake-X", "Ice Lake", "Zen 4", "Sapphire Rapids"],
)
def test_an_x86_processor_gets_the_instruction_sets_it_has(features: list[str], expected: set[str]) -> None:
    assert on(linux(features)) == expected


@pytest.mark.parametrize("features", [X86_64_V2, HASWELL, SAPPHIRE_RAPIDS])
def test_every_instruction_set_is_named_and_none_left_to_a_default(features: list[str]) -> None:
    flags = linux(features)

    names = ("SSE42", "AVX", "F16C", "FMA", "BMI2", "AVX2", "AVX_VNNI", "AVX512", "AVX512_VBMI", "AVX512_VNNI")
    assert all(f"-DGGML_{name}=ON" in flags or f"-DGGML_{name}=OFF" in flags for name in (*names, "AVX512_BF16"))


@pytest.mark.parametrize("features", [X86_64_V2, HASWELL, SAPPHIRE_RAPIDS])
def test_the_build_is_never_native_and_never_uses_amx(features: list[str]) -> None:
    flags = linux(features)

    assert "-DGGML_NATIVE=OFF" in flags
    assert not any("AMX" in flag or "march=native" in flag for flag in flags)


def test_half_of_avx512_counts_as_none() -> None:
    hidden_by_the_hypervisor = [feature for feature in ZEN_4 if feature != "avx512bw"]

    assert on(linux(hidden_by_the_hypervisor)) == AVX2


def test_avx2_is_off_where_the_system_does_not_keep_avx_registers() -> None:
    assert on(linux([feature for feature in HASWELL if feature != "avx"])) == BASE | {"BMI2"}


def test_an_older_compiler_is_not_asked_for_what_it_does_not_know() -> None:
    known = features_the_compiler_knows(frozenset(SAPPHIRE_RAPIDS), lambda option: option != "-mavxvnni")

    assert on(linux(sorted(known))) == AVX512 | {"AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"}


def test_an_arm_processor_gets_its_dot_products() -> None:
    flags = build_flags({"asimddp", "asimdhp", "i8mm", "sve"}, "Linux", "aarch64", Tools())

    assert "-DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod+fp16+i8mm" in flags
    assert not any("AVX" in flag for flag in flags)


def test_a_first_generation_arm_processor_gets_the_base_alone() -> None:
    assert not any("ARM_ARCH" in flag for flag in build_flags({"asimd", "fp"}, "Linux", "aarch64", Tools()))


def test_a_mac_with_apple_silicon_uses_metal_and_an_intel_mac_does_not() -> None:
    assert "-DGGML_METAL=ON" in build_flags({"asimddp"}, "Darwin", "arm64", Tools())
    assert "-DGGML_METAL=OFF" in build_flags(HASWELL, "Darwin", "x86_64", Tools())


def test_cuda_is_built_for_the_card_that_is_there() -> None:
    flags = linux(HASWELL, NVIDIA)

    assert "-DGGML_CUDA=ON" in flags
    assert "-DCMAKE_CUDA_ARCHITECTURES=89" in flags


def test_nvcc_without_a_driver_or_card_builds_no_cuda() -> None:
    assert not any("CUDA" in flag for flag in linux(HASWELL, Tools(nvcc="/usr/local/cuda/bin/nvcc")))


def test_vulkan_is_built_where_its_kit_and_a_device_are() -> None:
    assert "-DGGML_VULKAN=ON" in linux(HASWELL, VULKAN_SDK)


@pytest.mark.parametrize(
    "lacking",
    [
        {"vulkan_headers": (1, 3, 239)},
        {"vulkan_headers": None},
        {"glslc": None},
        {"spirv_headers": False},
        {"vulkan_device": False},
    ],
    ids=str,
)
def test_an_incomplete_vulkan_kit_builds_no_vulkan(lacking: dict[str, object]) -> None:
    whole = {"glslc": "/usr/bin/glslc", "vulkan_headers": (1, 4, 309), "spirv_headers": True, "vulkan_device": True}

    assert not any("VULKAN" in flag for flag in linux(HASWELL, Tools(**{**whole, **lacking})))  # type: ignore[arg-type]


def test_cuda_comes_before_vulkan() -> None:
    both = Tools(NVIDIA.nvcc, NVIDIA.cuda_architectures, "/usr/bin/glslc", (1, 4, 309), True, True)

    assert on(linux(HASWELL, both)) == AVX2 | {"CUDA"}


@pytest.mark.parametrize(
    ("choice", "tools", "expected"),
    [("cuda", NO_TOOLS, {"CUDA"}), ("vulkan", NVIDIA, {"VULKAN"}), ("none", NVIDIA, set()), ("", NVIDIA, {"CUDA"})],
)
def test_a_person_chooses_the_gpu(choice: str, tools: Tools, expected: set[str]) -> None:
    assert on(linux(HASWELL, tools, QUERN_GPU=choice)) == AVX2 | expected


def test_an_unknown_gpu_choice_is_refused_with_the_choices() -> None:
    with pytest.raises(SetUpError, match=r'"rocm".*cuda, vulkan'):
        linux(HASWELL, QUERN_GPU="rocm")


def test_a_persons_own_flags_come_last_so_that_they_win() -> None:
    flags = linux(ZEN_4, QUERN_CMAKE_ARGS="-DGGML_AVX512=OFF '-DVulkan_INCLUDE_DIR=/opt/my headers'")

    assert flags[-2:] == ["-DGGML_AVX512=OFF", "-DVulkan_INCLUDE_DIR=/opt/my headers"]


def test_cpuinfo_counts_what_every_core_has() -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n\nprocessor\t: 1\nFeatures\t: fp asimd asimddp\n"

    assert parse_cpuinfo(text) == {"fp", "asimd", "asimddp"}


def test_cpuinfo_without_features_is_no_error() -> None:
    assert parse_cpuinfo("processor\t: 0\nvendor_id\t: unknown\n") == frozenset()


def test_sysctl_names_are_read_on_both_kinds_of_mac() -> None:
    intel = "machdep.cpu.features: FPU SSE4.2 AVX1.0 FMA F16C\nmachdep.cpu.leaf7_features: BMI2 AVX2 AVX512F\n"
    apple = "hw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_FP16: 1\nhw.optional.arm.FEAT_I8MM: 0\n"

    assert parse_sysctl(intel) == {"sse4_2", "avx", "fma", "f16c", "bmi2", "avx2"}
    assert parse_sysctl(apple) == {"asimddp", "asimdhp"}


def test_compute_capabilities_become_cmake_architectures() -> None:
    assert parse_compute_capabilities("8.9\n12.0\n8.9\n") == ("120", "89")
    assert parse_compute_capabilities("NVIDIA-SMI has failed") == ()


def test_the_vulkan_header_states_its_version() -> None:
    header = (
        "#define VK_HEADER_VERSION 309\n"
        "#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 4, VK_HEADER_VERSION)\n"
    )

    assert parse_vulkan_header(header) == (1, 4, 309)
    assert parse_vulkan_header("/* empty */") is None
