"""What the operating system lets programs use of a processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime import cpu_features

HASWELL = "sse4_2 avx f16c fma avx2 bmi2"
AVX512 = "avx512f avx512cd avx512vl avx512dq avx512bw"
AMX = "amx_tile amx_int8 amx_bf16"
ALL_STATES = 0b110_0000_0000_1110_0111


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the file that is read in place of /proc/cpuinfo."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu_features.sys, "platform", "linux")
    monkeypatch.setattr(cpu_features, "_CPUINFO", file)
    monkeypatch.setattr(cpu_features, "_states_of_linux", lambda: ALL_STATES)
    return file


def test_what_the_kernel_does_not_list_is_denied(linux: Path) -> None:
    linux.write_text("processor\t: 0\nflags\t\t: fpu sse4_2\n")
    assert cpu_features.denied(HASWELL.split()) == {"avx", "f16c", "fma", "avx2", "bmi2"}


def test_a_feature_of_some_cores_only_is_denied(linux: Path) -> None:
    linux.write_text("flags\t: avx avx512f\n\nflags\t: avx\n")
    assert cpu_features.denied(["avx", "avx512f"]) == {"avx512f"}


def test_tiles_that_the_kernel_keeps_to_itself_are_denied(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linux.write_text(f"flags\t: {HASWELL} {AVX512} {AMX}\n")
    assert not cpu_features.denied(f"{AVX512} {AMX}".split())
    monkeypatch.setattr(cpu_features, "_states_of_linux", lambda: 0b1110_0111)
    assert cpu_features.denied(f"{AVX512} {AMX}".split()) == set(AMX.split())


def test_nothing_is_denied_where_nothing_is_known(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not cpu_features.denied(["avx"])  # no such file
    linux.write_text("processor : 0\n")
    assert not cpu_features.denied(["avx"])
    monkeypatch.setattr(cpu_features.sys, "platform", "plan9")
    assert not cpu_features.denied(["avx"])


@pytest.mark.parametrize(
    ("states", "denied"),
    [(0b11, f"avx avx2 avx512f {AMX}"), (0b111, f"avx512f {AMX}"), (0b1110_0111, AMX), (ALL_STATES, "")],
    ids=["no AVX", "no AVX-512", "no AMX", "everything"],
)
def test_registers_that_are_not_saved_cost_their_instructions(states: int, denied: str) -> None:
    asked = f"sse4_2 avx avx2 avx512f {AMX}".split()
    assert {name for name in asked if not cpu_features.states_allow(name, states)} == set(denied.split())


@pytest.mark.skipif(cpu_features.platform.machine() != "x86_64", reason="asks the kernel of an x86-64 processor")
def test_this_kernel_answers() -> None:
    if cpu_features.sys.platform == "linux":
        assert cpu_features._states_of_linux() & 0b11 == 0b11  # every x86-64 system saves those of SSE
