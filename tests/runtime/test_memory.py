"""Memory is estimated from the header as llama.cpp will take it, and the default context fits what is free."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
import tiny_lora
from runtime import devices, memory
from runtime.gguf_header import GgufHeader, read_header
from runtime.params import LoadParams

KIB = 1024


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> GgufHeader:
    return read_header(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


def cache(header: GgufHeader, **params: Any) -> int:
    return memory.estimate(header, LoadParams(**params)).cache


def with_keys(header: GgufHeader, **keys: Any) -> GgufHeader:
    """The same header with other values of the architecture's keys, dots written as two underscores."""
    changed = {f"{header.architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    return replace(header, metadata={**header.metadata, **changed})


def test_weights_that_our_own_engine_unpacks_take_what_its_number_format_takes(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_tiny(tmp_path / "m.gguf", type="Q4_0"))
    whole = memory.estimate(header, LoadParams(engine="native", dtype="f32")).weights
    half = memory.estimate(header, LoadParams(engine="native", dtype="bf16")).weights
    assert whole == 4 * header.n_params == 2 * half > memory.estimate(header).weights


def test_a_context_is_no_longer_than_a_table_of_positions(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_learned(tmp_path / "m.gguf", n_ctx=256))
    assert memory.estimate(header, LoadParams(context_length=4096)) == memory.estimate(header, context_length=256)


def test_adapters_count_with_the_weights(tiny: GgufHeader, tmp_path: Path) -> None:
    style = tiny_lora.write_lora(tmp_path / "style.gguf", rank=4, names=("blk.0.attn_q.weight",)).path
    n_bytes = 4 * 4 * (256 + 256)
    assert memory.estimate(tiny, LoadParams(lora=(str(style),))).weights == tiny.tensor_bytes + n_bytes
    assert memory.estimate(tiny, LoadParams(lora=(f"{style}=0",))).weights == tiny.tensor_bytes
    fits = memory.estimate(tiny).total
    assert memory.default_context(tiny, fits) == 4096
    assert memory.default_context(tiny, fits, LoadParams(lora=(str(style),))) < 4096


def test_a_draft_model_counts_in_full_and_shortens_the_default_context(tiny: GgufHeader, tmp_path: Path) -> None:
    draft = read_header(tiny_gguf.write_tiny(tmp_path / "draft.gguf", n_layers=1))
    params = LoadParams(context_length=4096, kv_type_k="f32", lora=())

    both = memory.estimate(tiny, params, draft=draft)

    alone = memory.estimate(draft, LoadParams(context_length=4096, kv_type_k="f32"))
    assert both.draft == alone.total
    assert both.total == memory.estimate(tiny, params).total + alone.total
    fits = memory.estimate(tiny).total
    assert memory.default_context(tiny, fits) == 4096
    assert memory.default_context(tiny, fits, draft=draft) < 4096


# --- the cache, by hand -----------------------------------------------------------------------------------------


def test_cache_counts_kv_heads_not_query_heads(tiny: GgufHeader) -> None:
    # 2 layers, 2 KV heads of 32 numbers, K and V, 2 bytes each
    assert cache(tiny, context_length=4096) == 4096 * 2 * 2 * 32 * 2 * 2


def test_cache_uses_the_stated_head_size(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_tiny(tmp_path / "hd.gguf", head_dim=64))
    assert cache(header, context_length=4096) == 4096 * 2 * 2 * 64 * 2 * 2


def test_cache_is_padded_like_the_library_pads_it(tiny: GgufHeader) -> None:
    assert cache(tiny, context_length=257) == cache(tiny, context_length=512) == 2 * cache(tiny, context_length=256)


@pytest.mark.parametrize(
    ("kind", "bytes_per_32"),
    [("f32", 128), ("f16", 64), ("bf16", 64), ("q8_0", 34), ("q5_1", 24), ("q5_0", 22), ("q4_1", 20), ("q4_0", 18),
     ("iq4_nl", 18)],
)  # fmt: skip
def test_cache_types_have_their_block_sizes(tiny: GgufHeader, kind: str, bytes_per_32: int) -> None:
    cells = 4096 * 2 * 2  # positions, layers, KV heads of 32
    assert cache(tiny, context_length=4096, kv_type_k=kind) == cells * (bytes_per_32 + 64)
    assert cache(tiny, context_length=4096, kv_type_v=kind) == cells * (64 + bytes_per_32)


def test_a_head_size_off_the_block_is_counted_as_f16(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_tiny(tmp_path / "h16.gguf", n_heads=16, n_kv_heads=4))
    assert cache(header, kv_type_k="q8_0") == cache(header)


def test_heads_given_per_layer_are_counted_per_layer(tiny: GgufHeader) -> None:
    header = with_keys(tiny, attention__head_count_kv=(0, 8))
    assert cache(header, context_length=256) == 256 * 8 * 32 * 2 * 2


def test_layers_that_share_a_cache_have_none(tiny: GgufHeader) -> None:
    assert cache(with_keys(tiny, attention__shared_kv_layers=1)) * 2 == cache(tiny)


def test_windowed_layers_keep_the_window_and_a_micro_batch(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_windowed(tmp_path / "w.gguf", n_layers=6, window=256))
    layer = 2 * 64 * 2 * 2  # bytes per cell
    assert cache(header, context_length=8192, micro_batch=512) == (8192 + 5 * 768) * layer
    assert cache(header, context_length=8192, swa_full=True) == 6 * 8192 * layer
    assert cache(header, context_length=256) == 6 * 256 * layer


def test_a_pattern_in_the_file_wins_over_the_family_s(tmp_path: Path) -> None:
    header = read_header(tiny_gguf.write_windowed(tmp_path / "w.gguf", n_layers=6, window=256))
    layer = 2 * 64 * 2 * 2
    listed = with_keys(header, attention__sliding_window_pattern=(True, False, False, False, False, False))
    assert cache(listed, context_length=8192) == (5 * 8192 + 768) * layer
    period = with_keys(header, attention__sliding_window_pattern=2)
    assert cache(period, context_length=8192) == (3 * 8192 + 3 * 768) * layer


def test_a_window_that_the_library_ignores_is_ignored(tiny: GgufHeader) -> None:
    assert cache(with_keys(tiny, attention__sliding_window=16)) == cache(tiny)


def test_recurrent_models_have_a_state_instead_of_a_cache(tiny: GgufHeader) -> None:
    sizes = {"block_count": 2, "embedding_length": 64}
    sizes |= {"ssm.inner_size": 128, "ssm.state_size": 16, "ssm.conv_kernel": 4}
    header = replace(
        tiny, metadata={"general.architecture": "mamba", **{f"mamba.{key}": size for key, size in sizes.items()}}
    )
    assert cache(header, context_length=256) == cache(header, context_length=65536) == 2 * 4 * (3 * 128 + 16 * 128)


def test_latent_attention_keeps_keys_alone(tiny: GgufHeader) -> None:
    latent = with_keys(tiny, attention__head_count_kv=1, attention__key_length=576, attention__value_length=512,
                       attention__key_length_mla=192)  # fmt: skip
    assert cache(latent, context_length=4096) == 4096 * 2 * 576 * 2


@pytest.mark.parametrize("keys", [{}, {"full_attention_interval": 4}])
def test_only_layers_that_attend_have_a_cache_and_the_others_a_state(tiny: GgufHeader, keys: dict[str, int]) -> None:
    sizes = {"block_count": 8, "embedding_length": 256, "attention.head_count": 8, "attention.head_count_kv": 2}
    sizes |= {"ssm.inner_size": 128, "ssm.state_size": 16, "ssm.conv_kernel": 4, **keys}
    metadata = {f"qwen3next.{key}": size for key, size in sizes.items()}
    header = replace(tiny, metadata={"general.architecture": "qwen3next", **metadata})
    assert cache(header, context_length=256) == 256 * 2 * 2 * 32 * 2 * 2 + 6 * 4 * (3 * 128 + 16 * 128)


# --- against the library ----------------------------------------------------------------------------------------


SHAPES: dict[str, dict[str, Any]] = {
    "gqa": {},
    "stated head size": {"head_dim": 64},
    "as many kv heads": {"n_kv_heads": 8},
    "wide feed-forward": {"d_model": 512, "d_ff": 2048},
    "quantized": {"type": "Q8_0"},
}
PARAMS: list[dict[str, Any]] = [
    {"context_length": 256},
    {"context_length": 4096},
    {"context_length": 4096, "micro_batch": 64},
    {"context_length": 4096, "flash_attention": "off"},
    {"context_length": 4096, "flash_attention": "off", "micro_batch": 128},
    {"context_length": 4096, "flash_attention": "on", "kv_type_k": "q8_0", "kv_type_v": "q4_0"},
    {"context_length": 1024, "flash_attention": "on", "kv_type_k": "f32", "kv_type_v": "f32", "batch": 256},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_estimate_is_what_the_library_takes(tmp_path: Path, shape: str, params: dict[str, Any]) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", **SHAPES[shape])
    assert memory.estimate(read_header(path), LoadParams(**params)).total == pytest.approx(taken(path, params), rel=0.1)


@pytest.mark.parametrize("kind", ["f32", "bf16", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"])
def test_estimate_is_what_the_library_takes_with_each_type_of_cache(tmp_path: Path, kind: str) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    params = {"context_length": 4096, "flash_attention": "on", "kv_type_k": kind, "kv_type_v": kind}
    assert memory.estimate(read_header(path), LoadParams(**params)).total == pytest.approx(taken(path, params), rel=0.1)


@pytest.mark.parametrize(
    "params",
    [
        {"context_length": 8192},
        {"context_length": 8192, "swa_full": True},
        {"context_length": 8192, "flash_attention": "off", "micro_batch": 128},
        {"context_length": 512},
    ],
    ids=str,
)
def test_estimate_of_a_windowed_model_is_what_the_library_takes(tmp_path: Path, params: dict[str, Any]) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "w.gguf", n_layers=6)
    assert memory.estimate(read_header(path), LoadParams(**params)).total == pytest.approx(taken(path, params), rel=0.1)


def taken(path: Path, params: dict[str, Any]) -> int:
    """What the engine reports, in bytes."""
    engine = engines.load(path, **params)
    engine.close()
    return engine.info.memory_bytes


# --- the default context ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trained", "expected"), [(0, 4096), (100, 100), (2048, 2048), (4096, 4096), (1_048_576, 4096), (2**31 - 1, 4096)]
)
def test_default_context_is_the_models_but_at_most_4096(tiny: GgufHeader, trained: int, expected: int) -> None:
    assert memory.default_context(with_keys(tiny, context_length=trained), 1 << 40) == expected


def test_default_context_shrinks_to_what_is_free(tiny: GgufHeader) -> None:
    whole = memory.estimate(tiny, context_length=4096).total
    fitting = memory.default_context(tiny, whole - 1)
    assert 512 <= fitting < 4096
    assert memory.estimate(tiny, context_length=fitting).total < whole


def test_default_context_takes_the_parameters_into_account(tiny: GgufHeader) -> None:
    small = LoadParams(kv_type_k="q4_0", kv_type_v="q4_0")
    free = memory.estimate(tiny, small, context_length=4096).total
    assert memory.default_context(tiny, free, small) == 4096
    assert memory.default_context(tiny, free, LoadParams()) < 4096


def test_default_context_never_falls_below_512(tiny: GgufHeader) -> None:
    assert memory.default_context(tiny, 0) == 512


# --- free memory ------------------------------------------------------------------------------------------------


def test_free_memory_respects_a_containers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "memory_left_in_container", lambda: 5 * KIB)
    assert memory.free_memory() == 5 * KIB


def test_total_memory_respects_a_containers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "memory_limit_of_container", lambda: 5 * KIB)
    assert memory.total_memory() == 5 * KIB
    monkeypatch.setattr(devices, "memory_limit_of_container", lambda: None)
    assert memory.total_memory() > memory.free_memory()


def test_free_memory_respects_the_limit_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (KIB, KIB))
    assert memory.free_memory() == 0
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (resource.RLIM_INFINITY, KIB))
    assert memory.free_memory() > KIB * KIB


# --- room for scores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_vocab", "params", "rows"),
    [
        (512, {}, 512),
        (49_152, {}, 85),
        (262_144, {}, 64),
        (262_144, {"micro_batch": 8}, 8),
        (262_144, {"speculation": "ngram", "draft_tokens": 80}, 81),
        (262_144, {"speculation": "off", "draft_tokens": 80}, 64),
    ],
)
def test_there_is_room_for_some_scores_and_for_all_guesses(n_vocab: int, params: dict[str, Any], rows: int) -> None:
    assert memory.logit_rows(n_vocab, LoadParams(**params)) == rows
