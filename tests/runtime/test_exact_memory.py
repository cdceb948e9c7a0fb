"""The measured figure is what loading takes, and whatever goes wrong while measuring ends in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import engines
import raw_gguf
import recurrent_gguf
import tiny_gguf
from runtime import exact_memory, memory, starter
from runtime.engine_process import EngineProcess
from runtime.errors import UserError
from runtime.exact_memory import MemoryUnknown, measured
from runtime.gguf_header import read_header
from runtime.params import LoadParams, SamplingParams
from runtime.protocol import GenerationRequest

CACHE_TYPES = ["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]


def taken(path: Path, **params: Any) -> int:
    """What the engine reports once the model is loaded, in bytes."""
    engine = engines.load(path, **params)
    engine.close()
    return engine.info.memory_bytes


def buffers(figure: memory.MemoryEstimate) -> int:
    """What the engine's report counts: all but the vocabulary."""
    return figure.total - figure.other


def found(path: Path, **params: Any) -> memory.MemoryEstimate:
    return measured(read_header(path), LoadParams(threads=1, **params))


@pytest.mark.parametrize("shape", [{}, {"head_dim": 64}, {"n_kv_heads": 8}, {"type": "Q8_0", "d_model": 512}], ids=str)
@pytest.mark.parametrize("flash_attention", ["on", "off"])
def test_it_is_what_loading_takes(tmp_path: Path, shape: dict[str, Any], flash_attention: str) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", **shape)
    params = {"context_length": 2048, "flash_attention": flash_attention}
    assert buffers(found(path, **params)) == pytest.approx(taken(path, **params), rel=0.02)


@pytest.mark.parametrize("kind", CACHE_TYPES)
def test_it_is_what_loading_takes_with_each_type_of_cache(tmp_path: Path, kind: str) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    params = {"context_length": 4096, "flash_attention": "on", "kv_type_k": kind, "kv_type_v": kind}
    assert buffers(found(path, **params)) == pytest.approx(taken(path, **params), rel=0.02)


@pytest.mark.parametrize("swa_full", [False, True])
def test_it_is_what_a_windowed_model_takes(tmp_path: Path, swa_full: bool) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "windowed.gguf")
    params = {"context_length": 8192, "swa_full": swa_full}
    assert buffers(found(path, **params)) == pytest.approx(taken(path, **params), rel=0.02)


def test_it_is_what_a_recurrent_model_takes(tmp_path: Path) -> None:
    path = recurrent_gguf.write_recurrent(tmp_path / "recurrent.gguf")
    exact = found(path, context_length=1024)
    assert exact.cache > 0
    assert buffers(exact) == pytest.approx(taken(path, context_length=1024), rel=0.02)


def test_its_parts_are_the_header_s_weights_the_cache_and_the_rest(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    exact = found(path, context_length=2048)
    estimate = memory.estimate(read_header(path), LoadParams(context_length=2048))
    assert (exact.context_length, exact.weights) == (2048, estimate.weights)
    assert exact.cache == pytest.approx(estimate.cache, abs=10_000)
    assert exact.compute > 0


def test_a_cache_of_gigabytes_is_measured_without_taking_them(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", n_layers=8, n_kv_heads=8)
    length = 1 << 20
    cache = found(path, context_length=length, flash_attention="on", batch=32, micro_batch=32).cache
    assert cache == length * 8 * 2 * 256 * 2  # cells, layers, keys and values, numbers, bytes


def test_a_context_without_bounds_is_not_measured(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    with pytest.raises(UserError, match="67,108,864 tokens is too long to be measured"):
        found(path, context_length=1 << 26)


def test_weights_are_not_read(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    header = read_header(path)
    with path.open("r+b") as file:  # all of them are holes now, which take no time and no memory to have
        file.truncate(header.data_offset)
        file.truncate(header.file_size)
    exact = found(path, context_length=512)
    assert exact.weights == header.tensor_bytes
    assert path.stat().st_blocks * 512 < header.data_offset + 100_000


GEMMA = Path(__file__).resolve().parents[2] / "build" / "models" / "gemma-3-270m-q4_k_m.gguf"
ON_DISK = [
    ("starter", {}), ("starter", {"kv_type_k": "q8_0", "kv_type_v": "q8_0", "flash_attention": "on"}),
    ("starter", {"micro_batch": 128, "context_length": 8192}), ("gemma", {}), ("gemma", {"swa_full": True}),
]  # fmt: skip


@pytest.mark.acceptance
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "params"), ON_DISK, ids=str)
def test_it_is_what_the_system_says_that_the_engine_holds(tmp_path: Path, name: str, params: dict[str, Any]) -> None:
    path = starter.starter_path() if name == "starter" else GEMMA
    if not path.exists():
        pytest.skip("the model is not on this computer")
    load = LoadParams(**{"context_length": 4096, "threads": 1, "mmap": "off", **params})
    with EngineProcess() as engine:
        tiny = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
        engine.load(tiny, LoadParams(context_length=256, threads=1))
        answer(engine, "hello")
        before = psutil.Process(engine.pid).memory_info().rss
        engine.load(path, load)
        answer(engine, "word " * 3000)
        held = psutil.Process(engine.pid).memory_info().rss - before
    assert measured(read_header(path), load).total == pytest.approx(held, rel=0.1)


def answer(engine: EngineProcess, prompt: str) -> None:
    for _event in engine.generate(GenerationRequest(prompt=prompt, sampling=SamplingParams(max_tokens=4))):
        pass


# --- what goes wrong --------------------------------------------------------------------------------------------


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(raw_gguf.pack())  # sound, but without the tensors of its family
    with pytest.raises(UserError, match="vocabulary"):
        found(path)


def child(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(exact_memory, "_command", lambda: [sys.executable, "-c", script])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import os; os.abort()", "status -6"),
        ("raise SystemExit(3)", "status 3"),
        ("print('{}')", "no answer"),
        ("print('nonsense')", "no answer"),
        ("import time; time.sleep(60)", "longer than 0.5 seconds"),
    ],
)
def test_a_child_that_fails_leaves_the_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    child(monkeypatch, script)
    seconds = 0.5 if "sleep" in script else 30
    with pytest.raises(MemoryUnknown, match=reason):
        measured(read_header(path), LoadParams(), seconds=seconds)
    assert psutil.Process().children() == []


def test_a_child_that_takes_too_much_memory_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    monkeypatch.setattr(exact_memory, "MEMORY_LIMIT", 50_000_000)
    child(monkeypatch, "import time; hog = b'x' * 80_000_000; time.sleep(60)")
    with pytest.raises(MemoryUnknown, match="more memory"):
        measured(read_header(path), LoadParams())
    assert psutil.Process().children() == []


def test_no_child_at_all_leaves_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    monkeypatch.setattr(exact_memory, "_command", lambda: [str(tmp_path / "nothing")])
    with pytest.raises(MemoryUnknown):
        measured(read_header(path), LoadParams())
