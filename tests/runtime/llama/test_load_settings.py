"""What the settings of loading do to a model that is loaded with them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engines
import tiny_gguf
from engines import chat, collect, raw
from raw_logits import logits
from runtime import devices, gguf_header, memory
from runtime.draft_pace import DraftPace
from runtime.drafts import Guess
from runtime.llama import library as llama_library
from runtime.llama import mapping
from runtime.params import LoadParams

IDS = list(range(40, 90))
MIB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux tells of a process")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.shows("context_length")
def test_the_cache_grows_with_the_context(tiny: Path) -> None:
    long, short = (engines.load(tiny, context_length=length).info for length in (4096, 1024))
    assert (long.context_length, short.context_length) == (4096, 1024)
    assert long.memory_bytes - short.memory_bytes > 3072 * 2 * 2 * 32 * 2 * 2  # layers, heads, their size, K and V, f16


@pytest.mark.shows("kv_type_k", "kv_type_v")
@pytest.mark.parametrize("part", ["kv_type_k", "kv_type_v"])
@pytest.mark.parametrize(
    ("kind", "bits", "loss"),
    [("f32", 32, 0.05), ("bf16", 16, 2.0), ("q8_0", 8.5, 2.0), ("q5_1", 6, 10.0), ("q5_0", 5.5, 10.0),
     ("q4_1", 5, 20.0), ("q4_0", 4.5, 20.0), ("iq4_nl", 4.5, 20.0)],
)  # fmt: skip
def test_keys_and_values_are_kept_in_their_own_types(
    tiny: Path, part: str, kind: str, bits: float, loss: float
) -> None:
    flash = "off" if kind == "f32" else "auto"  # flash attention reads an f32 cache as f16
    shape = {"context_length": 4096, "flash_attention": flash}
    plain, other = (engines.load(tiny, **shape, **{part: each}) for each in ("f16", kind))
    numbers = 4096 * 2 * 2 * 32  # cells, layers, heads, their size
    expected = numbers * (bits - 16) / 8
    assert other.info.memory_bytes - plain.info.memory_bytes == pytest.approx(expected, abs=0.1 * MIB)
    assert getattr(other.info, part) == kind
    difference = np.abs(logits(other, IDS) - logits(plain, IDS)).max()
    assert 0 < difference < loss


@pytest.mark.shows("flash_attention")
def test_flash_attention_needs_no_room_for_scores(tiny: Path) -> None:
    with_it, by_itself, without = (
        engines.load(tiny, context_length=4096, flash_attention=mode) for mode in ("on", "auto", "off")
    )
    scores = 512 * 4096 * 8 * 4  # tokens at once, cells, heads, f32
    assert without.info.memory_bytes - with_it.info.memory_bytes > scores / 2
    assert (with_it.info.flash_attention, by_itself.info.flash_attention, without.info.flash_attention) == (
        True, True, False)  # fmt: skip
    assert np.array_equal(logits(by_itself, IDS), logits(with_it, IDS))
    assert 0 < np.abs(logits(without, IDS) - logits(with_it, IDS)).max() < 0.5


@pytest.mark.shows("swa_full")
def test_a_full_cache_makes_edits_far_back_quick(tmp_path: Path) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=32)
    text = "one two three four five six seven eight nine ten. " * 40
    cached = {}
    for full in (True, False):
        engine = engines.load(path, swa_full=full, context_length=2048, micro_batch=32)
        collect(engine, raw(text + "And this is said.", max_tokens=2))
        cached[full] = collect(engine, raw(text[:150] + "But now another.", max_tokens=2)).end.usage.cached_tokens
    assert cached[True] > 30
    assert cached[False] == 0


@linux
@pytest.mark.shows("mmap")
@pytest.mark.parametrize("mapped", ["on", "off"])
def test_a_mapped_file_is_part_of_the_process(tiny: Path, mapped: str) -> None:
    engines.load(tiny, mmap=mapped)
    assert is_mapped(tiny) is (mapped == "on")


@linux
@pytest.mark.shows("mmap")
@pytest.mark.parametrize(("models_in_memory", "mapped"), [(1.9, True), (2.1, False)])
def test_a_file_is_read_by_itself_only_where_it_takes_no_more_than_half_of_the_free_memory(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, models_in_memory: float, mapped: bool
) -> None:
    total = memory.estimate(gguf_header.read_header(tiny), LoadParams(context_length=256)).total
    monkeypatch.setattr(memory, "free_memory", lambda: int(models_in_memory * total))
    engines.load(tiny, context_length=256)
    assert is_mapped(tiny) is mapped


def test_on_a_mac_the_file_is_mapped_by_itself(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    params, notes = mapping.resolved(LoadParams(), gguf_header.read_header(tiny), 256)
    assert (params.mmap, notes) == ("on", [])


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@linux
@pytest.mark.shows("mlock")
@pytest.mark.parametrize("mapped", ["on", "off"])
def test_a_model_that_is_kept_in_memory_is_locked_there(tiny: Path, mapped: str) -> None:
    import resource

    size, before = tiny.stat().st_size, locked()
    limit, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if 0 <= limit < before + size + MIB:
        pytest.skip("this system does not let so much be locked")
    engines.load(tiny, mlock=False, mmap=mapped)
    assert locked() == before
    assert not engines.load(tiny, mlock=True, mmap=mapped).info.notes
    assert locked() - before > 0.9 * size


def locked() -> int:
    """Returns the bytes that this process has locked."""
    found = re.search(r"VmLck:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


@linux
def test_a_system_that_does_not_let_memory_be_locked_is_told_of(tiny: Path) -> None:
    code = """
import ctypes, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(header, sets)
sets[0] &= ~(1 << 14)  # the system's manager gives up CAP_IPC_LOCK, to which no limit applies
libc.capset(header, sets)
from runtime.llama.engine import LlamaEngine
from runtime.params import LoadParams
engine = LlamaEngine(Path(sys.argv[1]), LoadParams(mlock=True, threads=1, context_length=256))
print(*engine.info.notes)
engine.close()
"""
    done = subprocess.run([sys.executable, "-c", code, str(tiny)], capture_output=True, text=True, check=True)
    assert "does not allow the model to be kept in memory" in done.stdout


# --- speed ------------------------------------------------------------------------------------------------------


@pytest.mark.shows("threads", "prompt_threads")
@pytest.mark.parametrize(
    ("threads", "prompt_threads", "used"), [(1, 0, (1, 1)), (2, 0, (2, 2)), (1, 2, (1, 2)), (3, 1, (3, 1))]
)
def test_threads_for_the_answer_and_for_the_prompt_are_set_apart(
    tiny: Path, threads: int, prompt_threads: int, used: tuple[int, int]
) -> None:
    engine: Any = engines.load(tiny, threads=threads, prompt_threads=prompt_threads)
    library, context = engine._model.library, engine._model.context
    assert (library.llama_n_threads(context), library.llama_n_threads_batch(context)) == used
    assert engine.info.threads == threads


@linux
@pytest.mark.shows("threads")
def test_that_many_threads_work(tiny: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from runtime.engine import StopFlag
from runtime.llama.engine import LlamaEngine
from runtime.params import LoadParams, SamplingParams
from runtime.protocol import GenerationRequest
engine = LlamaEngine(Path(sys.argv[1]), LoadParams(threads=int(sys.argv[2]), context_length=256))
list(engine.generate(GenerationRequest(prompt="one two", sampling=SamplingParams(max_tokens=8)), StopFlag()))
print(len(os.listdir("/proc/self/task")))
engine.close()
"""
    commands = ([sys.executable, "-c", code, str(tiny), count] for count in ("1", "3"))
    one, three = (int(subprocess.check_output(command, text=True)) for command in commands)
    assert three == one + 2


@pytest.mark.shows("cpu_variant")
def test_the_processor_code_that_was_named_is_asked_for(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, asked = llama_library.load_library, []

    def watched(variant: str = llama_library.AUTO, **_options: Any) -> Any:
        asked.append(variant)
        return load()

    monkeypatch.setattr(llama_library, "load_library", watched)
    engines.load(tiny, cpu_variant="haswell")
    assert "haswell" in asked


def test_without_a_number_each_physical_core_has_a_thread(tiny: Path) -> None:
    assert engines.load(tiny, threads=0).info.threads == devices.usable_cores()


@pytest.mark.shows("batch", "micro_batch")
@pytest.mark.parametrize(
    ("params", "step"),
    [({"batch": 8}, 8), ({"micro_batch": 8}, 8), ({"batch": 32, "micro_batch": 8}, 8),
     ({"batch": 8, "micro_batch": 32}, 8), ({"batch": 1}, 1), ({}, 100)],
)  # fmt: skip
def test_a_prompt_is_read_in_pieces_of_the_smaller_batch(tiny: Path, params: dict[str, object], step: int) -> None:
    progress = collect(engines.load(tiny, **params), raw("x" * 100, max_tokens=1)).progress
    assert [event.done for event in progress] == [*range(0, 100, step), 100]


@pytest.mark.shows("micro_batch")
def test_a_smaller_micro_batch_needs_less_room(tiny: Path) -> None:
    large, small = (engines.load(tiny, context_length=2048, micro_batch=n).info.memory_bytes for n in (1024, 128))
    assert large - small > 2 * MIB


@pytest.mark.shows("batch")
def test_llama_cpp_has_room_for_a_batch(tiny: Path) -> None:
    for batch, room in ((100, 100), (4096, 512)):  # never more than the context
        engine: Any = engines.load(tiny, context_length=512, batch=batch)
        assert engine._model.library.llama_n_batch(engine._model.context) == room


# --- guessing ahead ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def song(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("song") / "song.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li ", b"lu "], cyclic=True)
    return path


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses as much as may be, however long that takes on this machine just now."""

    def choose(_pace: DraftPace, guesses: Iterator[Guess], *, most: int) -> tuple[list[Guess], int]:
        taken = list(islice(guesses, most))
        return taken, len(taken)

    monkeypatch.setattr(DraftPace, "choose", choose)
    monkeypatch.setattr(DraftPace, "asks", lambda _pace, _behind: True)


@pytest.mark.usefixtures("eager")
@pytest.mark.shows("ngram_size", "speculation")
@pytest.mark.parametrize(("size", "guessed"), [(1, True), (4, True), (16, False)])
def test_guesses_begin_once_so_many_tokens_repeat(song: Path, size: int, guessed: bool) -> None:
    engine = engines.load(song, speculation="ngram", ngram_size=size)
    usage = collect(engine, chat("sing", max_tokens=12)).end.usage  # three different tokens, four times
    assert (usage.drafted_tokens > 0) == guessed


@pytest.mark.usefixtures("eager")
@pytest.mark.shows("draft_tokens")
@pytest.mark.parametrize("most", [1, 3, 16])
def test_no_more_than_the_draft_length_is_guessed_at_once(
    song: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = engines.load(song, speculation="ngram", draft_tokens=most)
    decode, sizes = engine._model.library.llama_decode, []

    def watched(context: Any, batch: Any) -> int:
        sizes.append(batch.n_tokens)
        return int(decode(context, batch))

    collect(engine, chat("sing", max_tokens=2))  # the prompt is read
    monkeypatch.setattr(engine._model.library, "llama_decode", watched)
    collect(engine, chat("sing", max_tokens=200))
    assert max(sizes[1:]) == 1 + most


# --- length -----------------------------------------------------------------------------------------------------


@pytest.mark.shows("max_tokens")
@pytest.mark.parametrize(("most", "length"), [(1, 1), (7, 7), (-1, 100)])
def test_an_answer_ends_after_so_many_tokens(tmp_path: Path, most: int, length: int) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [f"w{at} ".encode() for at in range(100)])
    assert collect(engines.load(path), chat("hi", max_tokens=most)).end.usage.generated_tokens == length
