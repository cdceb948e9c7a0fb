"""Which devices hold a model: what reaches llama.cpp, seen by a spy that then loads without the made-up cards."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engines
import tiny_gguf
from raw_logits import logits
from runtime.llama import library as llama_library
from runtime.llama.library import Device
from runtime.llama.placement import NoSuchCard, UnknownDevice

CPU, GPU, INTEGRATED, ACCELERATOR = range(4)
ONE = Device("CUDA0", "A card", GPU, 0xA0)
TWO = Device("CUDA1", "Another card", GPU, 0xB0)
CHIP = Device("Vulkan0", "In the processor", INTEGRATED, 0xC0)
BLAS = Device("BLAS", "A library", ACCELERATOR, 0xD0)


@dataclass
class Seen:
    """What llama.cpp was asked for."""

    devices: list[int] | None = None
    split_mode: int = -1
    main_gpu: int = -1
    gpu_layers: int = -2
    shares: tuple[float, ...] = ()
    patterns: tuple[bytes, ...] = ()
    kv_on_gpu: bool | None = None


Spy = Callable[..., tuple[Any, Seen]]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("mixture") / "mixture.gguf", experts=4)


@pytest.fixture
def spy(mixture: Path, monkeypatch: pytest.MonkeyPatch) -> Spy:
    """Loads with made-up cards beside the processor; returns the engine and what was asked for."""
    lib = llama_library.load_library()
    processor = next(device for device in llama_library.devices() if device.kind == CPU)
    load, make = lib.llama_model_load_from_file, lib.llama_init_from_model
    seen = Seen()

    def watched_load(path: bytes, native: Any) -> Any:
        seen.devices = _pointers(native.devices)
        seen.split_mode, seen.main_gpu, seen.gpu_layers = native.split_mode, native.main_gpu, native.n_gpu_layers
        seen.shares = tuple(native.tensor_split[: lib.llama_max_devices()]) if native.tensor_split else ()
        seen.patterns = tuple(_patterns(native.tensor_buft_overrides))
        native.devices, native.main_gpu, native.split_mode = None, 0, 1
        return load(path, native)

    def watched_make(model: Any, native: Any) -> Any:
        seen.kv_on_gpu = native.offload_kqv
        return make(model, native)

    monkeypatch.setattr(llama_library, "device_memory", lambda _card: (80_000_000_000, 80_000_000_000))
    monkeypatch.setattr(lib, "llama_model_load_from_file", watched_load)
    monkeypatch.setattr(lib, "llama_init_from_model", watched_make)

    def loaded(*cards: Device, **params: object) -> tuple[Any, Seen]:
        monkeypatch.setattr(llama_library, "devices", lambda: (*cards, processor))
        return engines.load(mixture, **params), seen

    return loaded


def _pointers(address: int | None) -> list[int] | None:
    if not address:
        return None
    array = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
    found = []
    while array[len(found)] is not None:
        found.append(array[len(found)])
    return found


def _patterns(address: int | None) -> list[bytes]:
    """Returns the patterns of a list of (text, buffer type) that ends with an empty pair."""
    array = ctypes.cast(address or 0, ctypes.POINTER(ctypes.c_void_p))
    found = []
    while address and array[2 * len(found)] is not None:
        assert array[2 * len(found) + 1] == llama_library.cpu_buffer_type()
        found.append(ctypes.string_at(array[2 * len(found)]))
    return found


def test_without_a_choice_llama_cpp_chooses(spy: Spy) -> None:
    engine, seen = spy(ONE, TWO)
    assert seen == Seen(None, split_mode=1, main_gpu=0, gpu_layers=-1, kv_on_gpu=True)
    assert not engine.info.notes
    assert spy(ONE, devices=("AUTO",))[1].devices is None


@pytest.mark.shows("devices")
@pytest.mark.parametrize(
    ("names", "handles"),
    [(("CUDA1",), [TWO.handle]), (("cuda1", "CUDA0"), [TWO.handle, ONE.handle]), (("CPU",), []), (("BLAS",), []),
     (("CPU", "CUDA0"), [ONE.handle]), (("CUDA0", "CUDA0"), [ONE.handle]), (("Vulkan0",), [CHIP.handle])],
)  # fmt: skip
def test_devices_are_chosen_by_name(spy: Spy, names: tuple[str, ...], handles: list[int]) -> None:
    assert spy(ONE, TWO, CHIP, BLAS, devices=names)[1].devices == handles


def test_an_unknown_device_is_refused_with_those_that_are_there(spy: Spy, mixture: Path) -> None:
    with pytest.raises(UnknownDevice) as caught:
        spy(ONE, devices=("CUDA0", "CUDA7"))
    assert "CUDA7" in caught.value.info.title
    assert "CUDA0 (A card), CPU (" in caught.value.info.message


def test_choosing_the_processor_of_this_machine_works(mixture: Path) -> None:
    engine = engines.load(mixture, devices=("CPU",))
    assert np.array_equal(logits(engine, [1, 2, 3]), logits(engines.load(mixture), [1, 2, 3]))


@pytest.mark.shows("split_mode", "tensor_split", "main_gpu", "gpu_layers")
@pytest.mark.parametrize(("mode", "number"), [("layer", 1), ("row", 2), ("none", 0)])
def test_split_mode_shares_and_main_card_are_handed_over(spy: Spy, mode: str, number: int) -> None:
    engine, seen = spy(ONE, TWO, split_mode=mode, tensor_split="3/1", main_gpu=1, gpu_layers=7)
    assert (seen.split_mode, seen.main_gpu, seen.gpu_layers) == (number, 1, 7)
    assert seen.shares[:3] == (3.0, 1.0, 0.0)
    assert not engine.info.notes


def test_a_main_card_that_is_not_there_is_refused(spy: Spy) -> None:
    with pytest.raises(NoSuchCard, match="number 2"):
        spy(ONE, TWO, split_mode="none", main_gpu=2)
    with pytest.raises(NoSuchCard, match="number 1"):
        spy(ONE, CHIP, split_mode="none", main_gpu=1)  # beside a card, the processor's own is left out
    with pytest.raises(NoSuchCard):
        spy(ONE, TWO, devices=("CUDA1",), split_mode="none", main_gpu=1)


@pytest.mark.shows("kv_on_gpu")
@pytest.mark.parametrize("on", [True, False])
def test_where_the_cache_lies_is_handed_over(spy: Spy, on: bool) -> None:
    assert spy(ONE, kv_on_gpu=on)[1].kv_on_gpu is on


NAMES = (
    "blk.0.ffn_up_exps.weight", "blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight",
    "blk.0.ffn_gate_up_exps.weight", "blk.0.ffn_down_chexps.weight", "blk.1.ffn_up_exps.weight",
    "blk.11.ffn_up_exps.weight",
)  # fmt: skip
OTHERS = ("blk.0.ffn_up.weight", "blk.0.ffn_up_shexp.weight", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q.weight")


@pytest.mark.shows("experts_on_cpu")
@pytest.mark.parametrize(("layers", "count"), [(0, 0), (1, 5), (2, 6), (12, 7), (-1, 7)])
def test_experts_of_the_first_layers_stay_in_ordinary_memory(spy: Spy, layers: int, count: int) -> None:
    patterns = [pattern.decode() for pattern in spy(ONE, experts_on_cpu=layers)[1].patterns]
    found = [name for name in (*NAMES, *OTHERS) if any(re.search(pattern, name) for pattern in patterns)]
    assert found == list(NAMES[:count])


@pytest.mark.shows("experts_on_cpu")
@pytest.mark.parametrize(("layers", "count"), [(1, 3), (-1, 6)])
def test_llama_cpp_takes_the_patterns_and_computes_the_same(
    mixture: Path, caplog: pytest.LogCaptureFixture, layers: int, count: int
) -> None:
    expected = logits(engines.load(mixture), [1, 2, 3])
    with caplog.at_level(logging.DEBUG, "runtime.llama.library"):
        engine = engines.load(mixture, experts_on_cpu=layers)
    assert sum("buffer type overridden to CPU" in each for each in caplog.messages) == count
    assert np.array_equal(logits(engine, [1, 2, 3]), expected)


def test_without_a_card_what_was_asked_of_one_is_named(mixture: Path) -> None:
    notes = " ".join(engines.load(
        mixture, gpu_layers=5, split_mode="none", tensor_split="1/1", main_gpu=1, experts_on_cpu=-1).info.notes
    )  # fmt: skip
    assert "no graphics card" in notes
    for title in ("Layers on the graphics card", "Split among cards", "Shares of the cards", "Main card"):
        assert title in notes
    assert "Experts" not in notes  # they stay in ordinary memory, as was asked
    assert not engines.load(mixture, gpu_layers=0, kv_on_gpu=False, devices=("CPU",)).info.notes


def test_shares_for_more_cards_than_there_are_get_a_note(spy: Spy) -> None:
    assert "for 2 graphics cards and 1 in use" in " ".join(spy(ONE, tensor_split="1/1")[0].info.notes)


@pytest.mark.parametrize(
    ("cards", "params", "shifts"),
    [((), {}, True), ((ONE,), {}, False), ((ONE,), {"gpu_layers": 0}, True), ((ONE,), {"devices": ("CPU",)}, True)],
)
def test_a_quantized_cache_is_shifted_on_the_processor_only(
    cards: tuple[Device, ...], params: dict[str, object], shifts: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # fmt: skip
    whole = tiny_gguf.write_tiny(tmp_path / "m.gguf", n_heads=4, n_kv_heads=2)  # heads of 64 can be moved
    processors = tuple(device for device in llama_library.devices() if device.kind == CPU)
    monkeypatch.setattr(llama_library, "devices", lambda: (*cards, *processors))
    monkeypatch.setattr(llama_library, "device_memory", lambda _card: (80_000_000_000, 80_000_000_000))
    engine: Any = engines.load(whole, kv_type_k="q8_0", **params)
    assert engine._model.can_shift is shifts
