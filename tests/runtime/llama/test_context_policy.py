"""A context that rolls on moves what llama.cpp holds, and counts on nothing that was moved. See test_engine_context."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import engines
import tiny_gguf
from engines import EXACT
from runtime.engine import Engine
from runtime.llama.cache import TokenCache
from runtime.params import KVType

KV_TYPES = get_args(KVType)
TEXT = "QUERN miller opened 17 sluices; and the stone began to turn, warm & fine. Was it early?"


@pytest.fixture(scope="module")
def one_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("one") / "one.gguf", n_layers=1, n_heads=4)


def cache_of(engine: Engine) -> TokenCache:
    cache = engine._cache  # type: ignore[attr-defined]
    assert isinstance(cache, TokenCache)
    return cache


def logits(engine: Engine) -> np.ndarray:
    model = engine._model  # type: ignore[attr-defined]
    pointer = model.library.llama_get_logits_ith(model.context, -1)
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (model.vocabulary.size,)).copy()


def read(engine: Engine, ids: list[int]) -> np.ndarray:
    cache = cache_of(engine)
    kept, _ = cache.keep_common(ids)
    list(cache.evaluate(ids[kept:]))
    return logits(engine)


@pytest.mark.parametrize("kind", [kind for kind in KV_TYPES if kind != "bf16"])
def test_after_a_shift_the_model_sees_what_the_cache_says_it_holds(one_layer: Path, kind: str) -> None:
    exact = kind == "f32"
    settings = EXACT if exact else {"kv_type_k": kind, "kv_type_v": kind}
    engine = engines.load(one_layer, context_length=64, **settings)
    ids = engine.tokenize(TEXT)[:40]
    read(engine, ids)
    cache = cache_of(engine)
    assert cache.shift(6) == 17
    assert cache.ids == ids[:6] + ids[23:]
    cache.append(70)
    moved = logits(engine)
    cache.clear()
    fresh = read(engine, ids[:6] + ids[23:] + [70])  # keys and values of the only layer depend on nothing before them
    spread = float(fresh.std())
    assert np.abs(moved - fresh).max() < (1e-3 if exact else 0.5) * spread
    engine.close()


def test_what_was_moved_is_not_used_for_another_prompt(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    rolled, fresh = (engines.load(path, context_length=64, micro_batch=4, **EXACT) for _ in range(2))
    ids = rolled.tokenize(TEXT)[:40]
    read(rolled, ids)
    assert cache_of(rolled).shift(6) == 17
    prompt = [*cache_of(rolled).ids, 70, 71]
    assert cache_of(rolled).keep_common(prompt)[0] == 6
    assert np.abs(read(rolled, prompt) - read(fresh, prompt)).max() < 1e-3
    assert cache_of(rolled).ids == prompt
    assert cache_of(rolled).keep_common([*prompt, 72])[0] == len(prompt)
