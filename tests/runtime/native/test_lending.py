"""Lending: a model that works with its mapped file gives what it gives once its weights are moved, at every moment."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from native_gguf import write_native
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.model_errors import LoadStopped
from runtime.native import lending
from runtime.native.kv_cache import KVCache
from runtime.native.lending import Lending
from runtime.native.linear import Embedding, Linear
from runtime.native.load import load_model
from runtime.native.one_token import OneToken
from runtime.native.transformer import Transformer
from tiny_native import tiny_checkpoint

IDS = torch.tensor([[1, 5, 9, 2, 7]])
SIZES = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 200}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_LEAST", 64)
    monkeypatch.setattr(lending, "_BLOCK", 4096)


def write_folder(folder: Path, dtype: str, *, other: str = "", tied: bool = True) -> Path:
    """Writes a model whose tensors are of one type, but those whose names hold `other`."""
    folder.mkdir(exist_ok=True)
    checkpoint = tiny_checkpoint(**SIZES, tie_word_embeddings=tied)
    tensors = {name: torch.from_numpy(tensor).to(torch.float16 if other and other in name else TYPES[dtype])
               for name, tensor in checkpoint.tensors.items()}  # fmt: skip
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(dict(checkpoint.config)), encoding="utf-8")
    return folder


def lent_model(path: Path, dtype: str) -> tuple[Transformer, Lending]:
    lent = Lending()
    with open_checkpoint(path) as checkpoint:
        return load_model(checkpoint, dtype=dtype, lending=lent), lent


def answers(model: Transformer) -> torch.Tensor:
    """Returns the scores behind a prompt and behind two tokens that are read alone, by the short way."""
    cache, one_token = KVCache(model.config, dtype=model.embedding.weight.dtype), OneToken.of(model)
    assert one_token is not None
    with torch.inference_mode():
        found = [model(IDS, cache=cache)]
        cache.advance(IDS.shape[1])
        for token in (3, 8):
            found.append(one_token(torch.tensor([[token]]), cache))
            cache.advance(1)
    return torch.cat(found, dim=1)


def lent_parts(model: Transformer) -> list[torch.nn.Module]:
    return [module for module in model.modules() if isinstance(module, Linear | Embedding) and module.lent]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_number_is_the_same_while_weights_are_lent_and_after(dtype: str, tied: bool, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", dtype, tied=tied)
    with open_checkpoint(path) as checkpoint:
        expected = answers(load_model(checkpoint, dtype=dtype))

    model, lent = lent_model(path, dtype)
    n_matrices = 4 * model.config.n_layers + (1 if tied else 2)
    assert len(lent_parts(model)) == n_matrices
    assert torch.equal(answers(model), expected)

    lent.move(then=lambda: None)
    lent.wait()

    assert not lent_parts(model)
    assert torch.equal(answers(model), expected)


def test_half_moved_it_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_folder(tmp_path / "model", "f32")
    with open_checkpoint(path) as checkpoint:
        expected = answers(load_model(checkpoint))
    model, lent = lent_model(path, "f32")
    seen: list[bool] = []
    move = lent._move

    def looked_at(module: Linear | Embedding) -> bool:
        seen.append(torch.equal(answers(model), expected))
        return move(module)

    monkeypatch.setattr(lent, "_move", looked_at)
    lent.move(then=lambda: None)
    lent.wait()

    assert len(seen) > 5
    assert all(seen)


def test_a_gguf_file_lends_what_it_stores_as_we_keep_it(tmp_path: Path) -> None:
    whole = load_model(tiny_checkpoint(**SIZES))
    path = write_native(tmp_path / "model.gguf", whole)

    model, lent = lent_model(path, "f32")

    assert {type(part) for part in lent_parts(model)} >= {Embedding, Linear}
    assert model.decoder is not None
    assert not model.decoder.layers[0].attention.qkv.lent  # its rows are in another order
    before = answers(model)
    lent.move(then=lambda: None)
    lent.wait()
    assert torch.equal(answers(model), before)


def test_a_matrix_of_which_some_rows_are_of_another_type_is_whole_at_once(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", "f32", other="k_proj")
    with open_checkpoint(path) as checkpoint:
        expected = answers(load_model(checkpoint))

    model, _lent = lent_model(path, "f32")

    assert model.decoder is not None
    assert not model.decoder.layers[0].attention.qkv.lent
    assert model.decoder.layers[0].ffn.gate_up.lent
    assert torch.equal(answers(model), expected)


def test_a_file_of_another_type_lends_nothing(tmp_path: Path) -> None:
    model, _lent = lent_model(write_folder(tmp_path / "model", "bf16"), "f32")

    assert not lent_parts(model)


def test_the_caller_hears_when_everything_is_moved_and_the_files_memory_is_let_go(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model", "f32")
    lent, heard, released = Lending(), threading.Event(), []
    with open_checkpoint(path) as checkpoint:
        free: Callable[[str], None] = checkpoint.release
        checkpoint.release = lambda name: (released.append(name), free(name))[0]  # type: ignore[method-assign]
        model = load_model(checkpoint, lending=lent)
        matrices = [name for name in checkpoint.names if "norm" not in name]

    lent.move(then=heard.set)
    lent.wait()

    assert heard.is_set()
    assert not lent_parts(model)
    assert set(matrices) <= set(released)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Holds moving in its third matrix: an event that says so, and one that lets it go on."""
    reached, goes_on, count, blocks = threading.Event(), threading.Event(), iter(range(1000)), lending._blocks

    def slow(tensor: torch.Tensor) -> list[np.ndarray]:
        if next(count) == 5:
            reached.set()
            goes_on.wait(30)
        return blocks(tensor)

    monkeypatch.setattr(lending, "_blocks", slow)
    yield reached, goes_on
    goes_on.set()


def test_moving_can_be_stopped_in_the_middle_and_the_model_still_answers(
    held: tuple[threading.Event, threading.Event], tmp_path: Path
) -> None:
    reached, goes_on = held
    model, lent = lent_model(write_folder(tmp_path / "model", "f32"), "f32")
    expected, finished = answers(model), threading.Event()
    lent.move(then=finished.set)
    assert reached.wait(30)

    closing = threading.Thread(target=lent.close)
    closing.start()
    goes_on.set()
    closing.join(30)

    assert not closing.is_alive()
    assert not finished.is_set()
    assert lent_parts(model)
    assert torch.equal(answers(model), expected)
    lent.close()


def test_moving_waits_while_the_first_tokens_are_read_and_not_for_later_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lending, "_HELD", 30)
    model, lent = lent_model(write_folder(tmp_path / "model", "f32"), "f32")
    with lent.read():
        lent.move(then=lambda: None)
        n_lent = len(lent_parts(model))
        moving = lent._thread
        assert moving is not None
        moving.join(0.2)
        assert len(lent_parts(model)) == n_lent
    with lent.read():
        lent.wait()
    assert not lent_parts(model)


def test_moving_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lending, "_HELD", 0.01)
    model, lent = lent_model(write_folder(tmp_path / "model", "f32"), "f32")
    with lent.read():
        lent.move(then=lambda: None)
        lent.wait()
    assert not lent_parts(model)


def test_a_model_is_closed_while_its_first_tokens_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lending, "_HELD", 30)
    _model, lent = lent_model(write_folder(tmp_path / "model", "f32"), "f32")
    with lent.read():
        lent.move(then=lambda: None)
        lent.close()
    assert lent._thread is not None
    assert not lent._thread.is_alive()


def test_a_stopped_loading_leaves_no_thread_behind(tmp_path: Path) -> None:
    stop = StopFlag()
    stop.set()
    before = threading.active_count()

    with open_checkpoint(write_folder(tmp_path / "model", "f32")) as checkpoint, pytest.raises(LoadStopped):
        load_model(checkpoint, lending=Lending(), stop=stop)

    assert threading.active_count() == before


_PEAK = """
import gc, json, sys
from pathlib import Path
import torch
from runtime.checkpoint import open_checkpoint
from runtime.native.lending import Lending
from runtime.native.load import load_model

def memory(which: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(which))

def read_while_it_is_moved() -> int:
    lending, finished, ids = Lending(), [], torch.tensor([[1]])
    with open_checkpoint(Path(sys.argv[1])) as checkpoint:
        model = load_model(checkpoint, lending=lending)
    model(ids)
    lending.move(then=lambda: finished.append(True))
    while not finished:
        model(ids)
    lending.close()
    return sum(parameter.nbytes for parameter in model.parameters())

torch.set_num_threads(1)
with torch.inference_mode():
    read_while_it_is_moved()  # brings all code that is needed into memory
    gc.collect()
    before = memory("VmRSS:")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    weights = read_while_it_is_moved()
    print(json.dumps([weights, memory("VmHWM:") - before]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_model_that_is_read_while_it_is_moved_takes_its_size_and_15_percent(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "intermediate_size": 1536, "vocab_size": 32768, "num_hidden_layers": 20}
    checkpoint = tiny_checkpoint(**sizes, tie_word_embeddings=True)
    save_file({name: torch.from_numpy(tensor) for name, tensor in checkpoint.tensors.items()},
              tmp_path / "model.safetensors")  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(dict(checkpoint.config)), encoding="utf-8")

    done = subprocess.run([sys.executable, "-c", _PEAK, tmp_path], check=True, capture_output=True, text=True)

    weights, peak = json.loads(done.stdout)
    assert weights > 280 << 20
    assert peak < 1.15 * weights
