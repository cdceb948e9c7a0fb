"""LoRA adapters: a model with one computes what a model with the merged weights computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engines
import tiny_gguf
import tiny_lora
from engines import EXACT, chat, collect
from raw_logits import logits
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.llama.embedding import LlamaEmbedder
from runtime.params import LoadParams
from runtime.places import spelled_path
from runtime.reading import Embedded, EmbedRequest
from tiny_lora import TinyLora

IDS = list(range(40, 90))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("base") / "base.gguf")


@pytest.fixture(scope="module")
def style(base: Path) -> TinyLora:
    return tiny_lora.write_lora(base.with_name("style.gguf"))


def adapted(base: Path, *lora: str) -> Any:
    return logits(engines.load(base, lora=lora, **EXACT), IDS)


def merged(folder: Path, *changes: dict[str, np.ndarray]) -> Any:
    names = dict.fromkeys(name for change in changes for name in change)
    total = {name: sum(change.get(name, np.float32(0)) for change in changes) for name in names}
    return logits(engines.load(tiny_gguf.write_tiny(folder / "merged.gguf", changes=total), **EXACT), IDS)


@pytest.mark.shows("lora")
@pytest.mark.parametrize(("written", "scale"), [("", 1.0), ("=0.5", 0.5), ("=-1", -1.0)])
def test_an_adapter_equals_merged_weights(
    base: Path, style: TinyLora, tmp_path: Path, written: str, scale: float
) -> None:
    found = adapted(base, f"{style.path}{written}")
    assert np.abs(found - merged(tmp_path, style.changes(scale))).max() < 1e-4
    assert np.abs(found - adapted(base)).max() > 1


@pytest.mark.shows("lora")
def test_two_adapters_add_up_each_with_its_scale(base: Path, style: TinyLora, tmp_path: Path) -> None:
    other = tiny_lora.write_lora(
        tmp_path / "other.gguf", seed=1, rank=2, alpha=4.0, names=("blk.0.attn_q.weight", "blk.0.ffn_up.weight")
    )
    found = adapted(base, f"{style.path}=0.5", f"{other.path}=2")
    assert np.abs(found - merged(tmp_path, style.changes(0.5), other.changes(2.0))).max() < 1e-4


def test_a_changed_embedding_equals_a_merged_one(base: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((512, 4), np.float32), rng.standard_normal((256, 4), np.float32)
    pair = {"token_embd.weight.lora_a": a, "token_embd.weight.lora_b": b}  # flipped: A (V, rank), B (C, rank)
    path = tiny_lora.write_adapter(tmp_path / "words.gguf", pair, metadata={"adapter.lora.alpha": 8.0})
    assert np.abs(adapted(base, str(path)) - merged(tmp_path, {"token_embd.weight": 2 * (a @ b.T)})).max() < 1e-4


def test_a_changed_expert_equals_a_merged_one(tmp_path: Path) -> None:
    rng, name = np.random.default_rng(0), "blk.0.ffn_up_exps.weight"
    a, b = rng.standard_normal((4, 4, 256), np.float32) / 16, rng.standard_normal((4, 512, 4), np.float32) / 4
    path = tiny_lora.write_adapter(tmp_path / "experts.gguf", {f"{name}.lora_a": a, f"{name}.lora_b": b})
    mixture = tiny_gguf.write_tiny(tmp_path / "mixture.gguf", experts=4)
    merged = tiny_gguf.write_tiny(tmp_path / "merged.gguf", experts=4, changes={name: b @ a})
    found = adapted(mixture, str(path))
    assert np.abs(found - logits(engines.load(merged, **EXACT), IDS)).max() < 1e-4
    assert np.abs(found - adapted(mixture)).max() > 1


def test_without_alpha_the_scale_alone_counts(base: Path, style: TinyLora, tmp_path: Path) -> None:
    tensors = {f"{name}.lora_{letter}": part for name, (a, b) in style.pairs.items() for letter, part in
               (("a", a), ("b", b))}  # fmt: skip
    path = tiny_lora.write_adapter(tmp_path / "plain.gguf", tensors)
    plain = {name: b @ a for name, (a, b) in style.pairs.items()}
    assert np.abs(adapted(base, str(path)) - merged(tmp_path, plain)).max() < 1e-4


def test_a_scale_of_zero_equals_no_adapter(base: Path, style: TinyLora) -> None:
    assert np.array_equal(adapted(base, f"{style.path}=0"), adapted(base))


def test_vectors_are_made_with_the_adapter(base: Path, style: TinyLora, tmp_path: Path) -> None:
    def vector(path: Path, *lora: str) -> np.ndarray:
        embedder = LlamaEmbedder(path, LoadParams(lora=lora, threads=1, **EXACT))  # type: ignore[arg-type]
        *_, last = embedder.embed(EmbedRequest(texts=("the miller",)), StopFlag())
        embedder.close()
        assert isinstance(last, Embedded)
        return np.array(last.vectors[0])

    whole = tiny_gguf.write_tiny(tmp_path / "merged.gguf", changes=style.changes())
    found = vector(base, str(style.path))
    assert np.abs(found - vector(whole)).max() < 1e-5
    assert np.abs(found - vector(base)).max() > 1e-2


def test_the_adapters_memory_is_counted(base: Path, style: TinyLora) -> None:
    with_adapter, without = (engines.load(base, lora=lora).info.memory_bytes for lora in ((str(style.path),), ()))
    assert with_adapter - without == pytest.approx(style.path.stat().st_size, abs=10_000)


def test_the_adapters_that_act_are_told(base: Path, tmp_path: Path) -> None:
    odd = tiny_lora.write_lora(tmp_path / "Ünï 模型　🦙 'q\" %d.gguf").path
    raw_name = tmp_path / os.fsdecode(b"\xff.gguf")
    raw_name.write_bytes(odd.read_bytes())
    info = engines.load(base, lora=(f"{odd}=0.5", spelled_path(f"{raw_name}=-2"), f"{odd}=0")).info
    assert info.adapters == ("Ünï 模型 🦙 'q\" %d.gguf × 0.5", "\ufffd.gguf × -2")


def test_an_adapter_that_was_replaced_after_the_check_is_an_error_in_words(
    base: Path, style: TinyLora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tiny_lora.write_lora(tmp_path / "swapped.gguf", architecture="qwen2")
    monkeypatch.setattr("runtime.lora_files.read_header", lambda path, **how: real(style.path, **how))
    from runtime.gguf_header import read_header as real

    with pytest.raises(UserError) as caught:
        engines.load(base, lora=(str(other.path),))
    assert caught.value.info.code == "adapter_failed"
    assert "arch" in caught.value.info.message


def test_a_state_with_another_adapter_or_scale_is_refused(base: Path, style: TinyLora, tmp_path: Path) -> None:
    other = tiny_lora.write_lora(tmp_path / "other.gguf", seed=1)
    first = engines.load(base, lora=(str(style.path),))
    answer = collect(first, chat("Tell me of mills.", max_tokens=8))
    saved = first.save_state(tmp_path / "chat.state")
    expected = collect(first, chat("Tell me of mills.", answer.text, "And?", max_tokens=8)).text

    def taken(*lora: str) -> tuple[Engine, int, str]:
        engine = engines.load(base, lora=lora)
        loaded = engine.load_state(tmp_path / "chat.state")
        return engine, loaded.tokens, loaded.note

    for lora in ((), (f"{style.path}=0.5",), (f"{style.path}=0",), (str(other.path),), (str(style.path),) * 2):
        _engine, tokens, note = taken(*lora)
        assert tokens == 0
        assert "other settings" in note
    engine, tokens, note = taken(str(style.path), f"{other.path}=0")  # one without effect makes no difference
    assert (tokens, note) == (saved.tokens, "")
    assert collect(engine, chat("Tell me of mills.", answer.text, "And?", max_tokens=8)).text == expected
