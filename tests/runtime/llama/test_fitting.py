"""How many layers go on a graphics card, and what happens where a card fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
from runtime import memory
from runtime.gguf_header import GgufHeader, read_header
from runtime.llama import engine as llama_engine
from runtime.llama import library as llama_library
from runtime.llama.fitting import fitted, layers_that_fit
from runtime.llama.library import Device
from runtime.llama.model import LlamaModel, LoadFailed, NoRoomForContext
from runtime.params import LoadParams

CARD = Device("Vulkan0", "A card", 1, 0xA0)
CPU = Device("CPU", "A processor", 0, 0xB0)
PARAMS, CONTEXT = LoadParams(), 256
MARGIN = 300 * 1024 * 1024

Cards = Callable[[int], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("fitting") / "tiny.gguf")


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Cards:
    """Makes this a computer with a card that has so much free memory."""

    def there(free: int) -> None:
        monkeypatch.setattr(llama_library, "devices", lambda: (CARD, CPU))
        monkeypatch.setattr(llama_library, "device_memory", lambda _card: (free, free))

    return there


def layers_of(header: GgufHeader) -> int:
    return len({tensor.name.split(".")[1] for tensor in header.tensors if tensor.name.startswith("blk.")})


def needed_for_all(model: Path) -> int:
    header = read_header(model)
    found = memory.estimate(header, PARAMS, context_length=CONTEXT)
    on_cards = [tensor.n_bytes for tensor in header.tensors if tensor.name.startswith(("blk.", "output"))]
    return sum(on_cards) + found.cache + found.compute


def test_all_layers_go_on_a_card_with_room_and_fewer_on_a_smaller_one(model: Path) -> None:
    header = read_header(model)
    enough = needed_for_all(model)
    assert layers_that_fit(header, PARAMS, CONTEXT, room=enough) is None
    counts = [layers_that_fit(header, PARAMS, CONTEXT, room=enough - less) for less in range(1, enough, 20_000)]
    assert counts[0] == layers_of(header)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_a_cache_in_ordinary_memory_leaves_room_for_more_layers(model: Path) -> None:
    header = read_header(model)
    cache = memory.estimate(header, PARAMS, context_length=CONTEXT).cache
    room = needed_for_all(model) - cache
    assert layers_that_fit(header, PARAMS, CONTEXT, room=room) is not None
    assert layers_that_fit(header, PARAMS.replace(kv_on_gpu=False), CONTEXT, room=room) is None


def test_the_person_is_told_where_not_all_fit(model: Path, cards: Cards) -> None:
    header = read_header(model)
    cards(MARGIN + needed_for_all(model) - 1)
    params, notes = fitted(PARAMS, header, CONTEXT)
    assert params.gpu_layers == layers_of(header)
    layers = f"{layers_of(header)} of {layers_of(header) + 1} layers"
    assert notes == [f"{layers} fit in the graphics cards' free memory (0.3 GB); the processor has the rest."]


@pytest.mark.parametrize(
    "changes", [{"gpu_layers": 1}, {"gpu_layers": 0}, {"devices": ("CPU",)}], ids=["a number", "none", "no card"]
)
def test_what_a_person_chose_stays(model: Path, cards: Cards, changes: dict[str, Any]) -> None:
    cards(1)
    chosen = PARAMS.replace(**changes)
    assert fitted(chosen, read_header(model), CONTEXT) == (chosen, [])


def test_without_a_card_nothing_is_reckoned(model: Path) -> None:
    assert fitted(PARAMS, read_header(model), CONTEXT) == (PARAMS, [])


@pytest.mark.parametrize("error", ["load", "context"])
def test_a_card_that_fails_leaves_the_processor_with_a_note(
    model: Path, cards: Cards, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    cards(80_000_000_000)
    asked: list[tuple[str, ...]] = []

    def load(path: Path, params: LoadParams, **options: Any) -> LlamaModel:
        asked.append(params.devices)
        if params.devices == ("auto",):
            reason = "error: ErrorInitializationFailed"
            raise LoadFailed(path, reason) if error == "load" else NoRoomForContext(256, reason)
        return LlamaModel(path, params, **options)

    monkeypatch.setattr(llama_engine, "LlamaModel", load)
    engine = engines.load(model, context_length=256)
    assert asked == [("auto",), ("CPU",)]
    assert any(note.startswith("The graphics card failed, so") and "ErrorInit" in note for note in engine.info.notes)
    engine.close()


def test_a_card_that_was_named_fails_openly(model: Path, cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    cards(80_000_000_000)

    def load(path: Path, params: LoadParams, **_options: Any) -> LlamaModel:
        raise LoadFailed(path, "error: device lost")

    monkeypatch.setattr(llama_engine, "LlamaModel", load)
    with pytest.raises(LoadFailed, match="device lost"):
        engines.load(model, devices=("Vulkan0",))


def test_a_file_that_fails_without_a_card_is_not_tried_twice(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Path] = []

    def load(path: Path, params: LoadParams, **_options: Any) -> LlamaModel:
        tries.append(path)
        raise LoadFailed(path, "error: bad file")

    monkeypatch.setattr(llama_engine, "LlamaModel", load)
    with pytest.raises(LoadFailed):
        engines.load(model)
    assert len(tries) == 1
