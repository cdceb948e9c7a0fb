"""An engine's process takes its memory in large pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import tiny_gguf
from runtime.engine_process import EngineProcess
from runtime.large_pages import with_large_pages
from runtime.params import LoadParams

_SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives large pages to whoever asks")


@linux
@pytest.mark.parametrize(
    ("given", "made"),
    [({}, "glibc.malloc.hugetlb=1"), ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"},
      "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1"),
     ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}, "glibc.malloc.hugetlb=0")],
)  # fmt: skip
def test_what_a_person_has_set_stays(given: dict[str, str], made: str) -> None:
    assert with_large_pages({"HOME": "/x", **given}) == {"HOME": "/x", "GLIBC_TUNABLES": made}


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert with_large_pages({"A": "b"}) == {"A": "b"}


@linux
def test_weights_and_cache_of_an_engine_lie_in_large_pages(tmp_path: Path) -> None:
    if not _SWITCH.exists() or "[never]" in _SWITCH.read_text():
        pytest.skip("this system gives no large pages")
    model = tiny_gguf.write_tiny(tmp_path / "wide.gguf", d_model=512, d_ff=2048)
    with EngineProcess() as engine:
        before = in_large_pages(engine.pid)
        engine.load(model, LoadParams(threads=1, mmap="off"))
        assert in_large_pages(engine.pid) - before > model.stat().st_size


def in_large_pages(pid: int) -> int:
    """Returns the bytes that a process holds in large pages."""
    found = re.search(r"AnonHugePages:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found
    return 1024 * int(found[1])
