"""What the model has read survives a restart in a file, and a file of no use does no harm: in both engines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

import engines
import tiny_gguf
import tiny_lora
from engines import EXACT, chat, collect
from runtime import saved_state
from runtime.engine import Engine
from runtime.errors import UserError
from runtime.params import KVType

pytestmark = pytest.mark.usefixtures("engine_name")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def reopened(path: Path, state_file: Path, **params: object) -> tuple[Engine, int, str]:
    engine = engines.load(path, **params)
    loaded = engine.load_state(state_file)
    return engine, loaded.tokens, loaded.note


@pytest.mark.parametrize("kind", get_args(KVType))
def test_a_chat_goes_on_after_a_restart_without_being_read_again(tiny: Path, tmp_path: Path, kind: str) -> None:
    first = engines.load(tiny, kv_type_k=kind, kv_type_v=kind)
    answer = collect(first, chat("Tell me of mills."))
    follow = chat("Tell me of mills.", answer.text, "And of querns?")
    saved = first.save_state(tmp_path / "chat.state")
    assert saved.size_bytes == (tmp_path / "chat.state").stat().st_size
    expected = collect(first, follow)
    second, tokens, note = reopened(tiny, tmp_path / "chat.state", kv_type_k=kind, kv_type_v=kind)
    assert (tokens, note) == (saved.tokens, "")
    continued = collect(second, follow)
    assert continued.end.usage.cached_tokens == expected.end.usage.cached_tokens == saved.tokens
    assert continued.text == expected.text


@pytest.mark.parametrize("swa_full", [True, False])
def test_a_windowed_model_goes_on_as_before(tmp_path: Path, swa_full: bool) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=32)
    first = engines.load(path, swa_full=swa_full, **EXACT)
    answer = collect(first, chat("Tell me of mills. " * 5))
    follow = chat("Tell me of mills. " * 5, answer.text, "And of querns?")
    first.save_state(tmp_path / "chat.state")
    expected = collect(first, follow)
    second, tokens, _note = reopened(path, tmp_path / "chat.state", swa_full=swa_full, **EXACT)
    continued = collect(second, follow)
    assert continued.text == expected.text
    assert continued.end.usage.cached_tokens == tokens > 0


def test_a_chat_goes_on_after_its_context_rolled_and_a_restart(tmp_path: Path, engine_name: str) -> None:
    path = tmp_path / "endless.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    first = engines.load(path, context_length=64)
    collect(first, chat("sing", context_policy="shift", max_tokens=100))
    saved = first.save_state(tmp_path / "chat.state")
    second, tokens, _note = reopened(path, tmp_path / "chat.state", context_length=64)
    assert tokens == saved.tokens > 0
    assert tokens < 40 or engine_name == "native"  # llama.cpp moves what it holds, and nothing moved is saved
    assert collect(second, chat("sing", max_tokens=4)).text == "la li la li "


def test_a_longer_context_takes_the_state_and_a_shorter_one_refuses_it(tiny: Path, tmp_path: Path) -> None:
    first = engines.load(tiny, context_length=256)
    collect(first, chat("x" * 100, max_tokens=20))
    saved = first.save_state(tmp_path / "chat.state")
    assert reopened(tiny, tmp_path / "chat.state", context_length=1024)[1] == saved.tokens
    _engine, tokens, note = reopened(tiny, tmp_path / "chat.state", context_length=64)
    assert tokens == 0
    assert "longer than the context" in note


def test_an_empty_cache_writes_no_file(tiny: Path, tmp_path: Path) -> None:
    assert engines.load(tiny).save_state(tmp_path / "chat.state").tokens == 0
    assert list(tmp_path.iterdir()) == []


# --- files of no use --------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tiny: Path, tmp_path: Path) -> Path:
    engine = engines.load(tiny)
    collect(engine, chat("Tell me of mills.", max_tokens=8))
    engine.save_state(tmp_path / "chat.state")
    engine.close()
    return tmp_path / "chat.state"


def assert_refused(engine: Engine, file: Path, why: str) -> None:
    collect(engine, chat("Something else.", max_tokens=2))
    loaded = engine.load_state(file)
    assert loaded.tokens == 0
    assert why in loaded.note
    answer = collect(engine, chat("Tell me of mills.", max_tokens=8))
    assert answer.end.usage.generated_tokens == 8
    assert answer.end.usage.cached_tokens == 0


def test_no_file_is_refused(tiny: Path, tmp_path: Path) -> None:
    assert_refused(engines.load(tiny), tmp_path / "none", "no saved state")
    assert_refused(engines.load(tiny), tmp_path, "no saved state")


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 5000])
def test_a_foreign_file_is_refused(tiny: Path, tmp_path: Path, size: int) -> None:
    (tmp_path / "foreign").write_bytes(b"x" * size)
    assert_refused(engines.load(tiny), tmp_path / "foreign", "no saved state")
    (tmp_path / "foreign").write_bytes(b"\xff" * size + b"QuernKV1")
    assert engines.load(tiny).load_state(tmp_path / "foreign").tokens == 0


def test_a_file_that_is_not_whole_is_refused(tiny: Path, saved: Path) -> None:
    data = saved.read_bytes()
    engine = engines.load(tiny)
    for cut in (1, 100, len(data) // 2):
        saved.write_bytes(data[:-cut])
        assert_refused(engine, saved, "not whole")


def test_a_damaged_file_is_refused_wherever_the_damage_is(tiny: Path, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    engine = engines.load(tiny)
    for place in range(0, len(data), len(data) // 23):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        saved.write_bytes(damaged)
        assert engine.load_state(saved).tokens == 0
    assert_refused(engine, saved, "")


def test_a_state_of_another_model_is_refused(saved: Path, tmp_path: Path) -> None:
    other = tiny_gguf.write_tiny(tmp_path / "other.gguf", seed=1)
    assert_refused(engines.load(other), saved, "another model")


def test_a_state_is_refused_once_the_models_file_has_changed(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    engine = engines.load(path)
    collect(engine, chat("Hello", max_tokens=2))
    engine.save_state(tmp_path / "chat.state")
    os.utime(path, ns=(1, 1))
    assert_refused(engines.load(path), tmp_path / "chat.state", "changed")


def test_a_model_that_was_replaced_while_it_was_loaded_leaves_no_state_to_its_successor(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    engine = engines.load(path)
    collect(engine, chat("Tell me of mills.", max_tokens=8))
    tiny_gguf.write_tiny(tmp_path / "next.gguf", seed=9).replace(path)
    saved = engine.save_state(tmp_path / "chat.state")
    assert engine.load_state(tmp_path / "chat.state").tokens == saved.tokens > 0
    assert_refused(engines.load(path), tmp_path / "chat.state", "changed")


def test_a_model_whose_file_is_gone_while_it_is_loaded_takes_its_own_state_back(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    engine = engines.load(path)
    collect(engine, chat("Tell me of mills.", max_tokens=8))
    path.unlink()
    saved = engine.save_state(tmp_path / "chat.state")
    assert engine.load_state(tmp_path / "chat.state").tokens == saved.tokens > 0


def test_an_adapter_that_was_trained_on_while_it_was_in_use_leaves_no_state_to_its_successor(tmp_path: Path) -> None:
    path, style = tiny_gguf.write_tiny(tmp_path / "model.gguf"), tmp_path / "style.gguf"
    tiny_lora.write_lora(style)
    engine = engines.load(path, lora=(str(style),))
    collect(engine, chat("Tell me of mills.", max_tokens=8))
    tiny_lora.write_lora(style, seed=1)
    saved = engine.save_state(tmp_path / "chat.state")
    assert engine.load_state(tmp_path / "chat.state").tokens == saved.tokens > 0
    assert_refused(engines.load(path, lora=(str(style),)), tmp_path / "chat.state", "other settings")


@pytest.mark.parametrize(
    "change", [{"kv_type_k": "q8_0"}, {"flash_attention": "off"}, {"swa_full": True}, {"dtype": "bf16"}]
)
def test_a_state_made_with_other_settings_is_refused(
    tiny: Path, saved: Path, change: dict[str, object], engine_name: str
) -> None:
    if {"flash_attention": "native", "dtype": "llama"}.get(*change) == engine_name:
        pytest.skip("this engine's numbers do not depend on it")
    assert_refused(engines.load(tiny, **change), saved, "other settings")


def test_a_state_of_another_version_is_refused(
    tiny: Path, saved: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str
) -> None:
    where = {"llama": "runtime.llama.library", "native": "runtime.native.engine"}[engine_name]
    monkeypatch.setattr(f"{where}.build_description", lambda *_device: "the engine of tomorrow")
    assert_refused(engines.load(tiny), saved, "another version")


# --- writing ----------------------------------------------------------------------------------------------------


def test_a_state_that_cannot_be_written_says_why_and_leaves_the_old_one(tiny: Path, tmp_path: Path) -> None:
    engine = engines.load(tiny)
    collect(engine, chat("Hello", max_tokens=2))
    with pytest.raises(UserError) as caught:
        engine.save_state(tmp_path / "none" / "chat.state")
    assert caught.value.info.code == "state_not_saved"
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError):
        engine.save_state(tmp_path / "folder")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_the_old_state(
    tiny: Path, saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_path: Path, _record: bytes) -> None:
        raise OSError(28, "No space left on device")

    before = saved.read_bytes()
    engine = engines.load(tiny)
    collect(engine, chat("Hello", max_tokens=2))
    monkeypatch.setattr(saved_state, "append_record", full)
    with pytest.raises(UserError) as caught:
        engine.save_state(saved)
    assert "No space left" in caught.value.info.message
    assert saved.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["chat.state"]


def test_a_path_that_is_not_plain_ascii_works(tiny: Path, tmp_path: Path) -> None:
    engine = engines.load(tiny)
    collect(engine, chat("Hello", max_tokens=2))
    file = tmp_path / "Ünï 模型　🦙 'q\" %d.state"
    saved = engine.save_state(file)
    assert engine.load_state(file).tokens == saved.tokens > 0
