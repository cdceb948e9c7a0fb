"""The computer is described as the system describes it, and limits of binding and containers are respected."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from runtime import devices

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")

CPUINFO = """processor\t: 0
model name\t: Maker(R)   Fast  CPU @ 3.00GHz
flags\t\t: fpu sse3 ssse3 sse4_2 avx avx2 fma f16c avx512f avx512_vnni something_new

processor\t: 1
model name\t: Maker(R)   Fast  CPU @ 3.00GHz
flags\t\t: fpu
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the system's files."""
    for name, path in {
        "_PROC_CPU": "cpuinfo", "_CPU_FOLDER": "cpu", "_CGROUP_FOLDER": "cgroup", "_OWN_CGROUPS": "own_cgroups",
        "_DRM_FOLDER": "drm", "_NVIDIA_FOLDER": "nvidia",
    }.items():  # fmt: skip
        monkeypatch.setattr(devices, name, tmp_path / path)
    return tmp_path


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def bind(monkeypatch: pytest.MonkeyPatch, *threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(threads), raising=False)


def siblings(system: Path, *pairs: tuple[int, int]) -> None:
    for pair in pairs:
        for thread in pair:
            write(system / "cpu" / f"cpu{thread}" / "topology" / "thread_siblings_list", f"{pair[0]},{pair[1]}\n")


def test_this_machine_is_described() -> None:
    found = devices.machine()
    assert 1 <= found.processor.usable <= found.processor.threads
    assert found.processor.name
    assert 0 < found.memory_free <= found.memory_total == psutil.virtual_memory().total


@linux_only
def test_name_and_features_come_from_the_first_processor(system: Path) -> None:
    write(system / "cpuinfo", CPUINFO)
    processor = devices.processor()
    assert processor.name == "Maker(R) Fast CPU @ 3.00GHz"
    assert processor.features == ("SSE3", "SSSE3", "SSE4.2", "AVX", "F16C", "FMA", "AVX2", "AVX512", "AVX512-VNNI")


def test_a_silent_system_still_gives_an_answer(system: Path) -> None:
    processor = devices.processor()
    assert processor.name
    assert processor.features == ()
    assert processor.usable >= 1
    assert list(devices.graphics_cards()) == [] or sys.platform == "darwin"


def test_two_threads_of_one_core_count_once(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    siblings(system, (0, 4), (1, 5), (2, 6), (3, 7))
    bind(monkeypatch, *range(8))
    assert devices.usable_cores() == 4


def test_a_process_bound_to_some_cores_uses_only_these(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    siblings(system, (0, 4), (1, 5), (2, 6), (3, 7))
    bind(monkeypatch, 1, 5, 2)
    assert devices.usable_cores() == 2


@pytest.mark.parametrize(("limit", "expected"), [("max 100000", 4), ("200000 100000", 2), ("50000 100000", 1), ("", 4)])
def test_a_containers_limit_bounds_the_cores(
    system: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int
) -> None:
    bind(monkeypatch, 0, 1, 2, 3)
    write(system / "cgroup" / "cpu.max", limit + "\n")
    assert devices.usable_cores() == expected


def test_the_tightest_limit_of_the_groups_around_counts(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bind(monkeypatch, *range(8))
    write(system / "own_cgroups", "0::/slice/app\n")
    write(system / "cgroup" / "slice" / "cpu.max", "300000 100000\n")
    write(system / "cgroup" / "slice" / "app" / "cpu.max", "max 100000\n")
    assert devices.usable_cores() == 3


def test_limits_of_version_1_count_too(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bind(monkeypatch, *range(8))
    write(system / "own_cgroups", "4:memory:/box\n1:cpu,cpuacct:/box\n")
    write(system / "cgroup" / "cpu" / "box" / "cpu.cfs_quota_us", "200000\n")
    write(system / "cgroup" / "cpu" / "box" / "cpu.cfs_period_us", "100000\n")
    write(system / "cgroup" / "memory" / "box" / "memory.limit_in_bytes", "1000\n")
    write(system / "cgroup" / "memory" / "box" / "memory.usage_in_bytes", "400\n")
    assert devices.usable_cores() == 2
    assert devices.memory_left_in_container() == 600


def test_memory_left_in_a_container_is_its_limit_less_what_is_used(system: Path) -> None:
    assert devices.memory_left_in_container() is None
    write(system / "cgroup" / "memory.max", "max\n")
    write(system / "cgroup" / "memory.current", "400\n")
    assert devices.memory_left_in_container() is None
    assert devices.memory_limit_of_container() is None
    write(system / "cgroup" / "memory.max", "300\n")
    assert devices.memory_left_in_container() == 0
    assert devices.memory_limit_of_container() == 300


def test_a_group_path_cannot_lead_out_of_the_group_folder(system: Path) -> None:
    write(system / "own_cgroups", "0::/../../..\nnot a group line\n")
    (system / "cgroup").mkdir()
    write(system / "memory.max", "1\n")
    write(system / "memory.current", "0\n")
    assert devices.memory_left_in_container() is None


@linux_only
def test_graphics_cards_are_those_the_system_lists(system: Path) -> None:
    write(system / "nvidia" / "0000:01:00.0" / "information", "Model: \t NVIDIA Card 9\nIRQ: 1\n")
    write(system / "drm" / "card0" / "device" / "vendor", "0x10de\n")
    write(system / "drm" / "card1" / "device" / "vendor", "0x1002\n")
    write(system / "drm" / "card1" / "device" / "mem_info_vram_total", "17163091968\n")
    write(system / "drm" / "card2" / "device" / "vendor", "0x1af4\n")  # a virtual screen
    assert list(devices.graphics_cards()) == [
        devices.GraphicsCard("NVIDIA Card 9", "NVIDIA"),
        devices.GraphicsCard("AMD", "AMD", 17163091968),
    ]
