"""The llama.cpp engine, where it differs from others on models whose every answer is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import engines
import tiny_gguf
from engines import collect, raw
from runtime.engine import Engine
from runtime.gguf_header import read_header
from runtime.params import KVType


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = engines.load(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))
    yield engine
    engine.close()


def test_the_engine_tells_what_it_loaded(tiny: Engine) -> None:
    info = tiny.info
    assert (info.engine, info.architecture, info.name) == ("llama", "llama", "Tiny")
    assert (info.context_length, info.trained_context, info.n_vocab) == (512, 4096, 512)
    assert info.has_template
    assert info.memory_bytes > info.size_bytes > 0
    assert info.load_seconds > 0
    assert "llama.cpp" in info.build
    assert info.devices


def test_a_file_that_lies_too_narrow_to_be_mapped_is_read_with_a_note(tmp_path: Path) -> None:
    plain = tiny_gguf.write_tiny(tmp_path / "plain.gguf")
    narrow = tiny_gguf.write_tiny(tmp_path / "narrow.gguf", name="Tiny 8 bytes", metadata={"general.alignment": 8})
    assert read_header(narrow).data_offset % 32
    first, second = engines.load(plain, mmap="on"), engines.load(narrow, mmap="on")
    assert collect(second, raw("Hello")).text == collect(first, raw("Hello")).text
    assert "multiples of 8 bytes" in " ".join(second.info.notes)
    assert not first.info.notes
    first.close()
    second.close()


@pytest.mark.parametrize("head_dim", [16, 48])
def test_an_impossible_cache_type_is_corrected_with_a_note(tmp_path: Path, head_dim: int) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", n_heads=8, n_kv_heads=2, head_dim=head_dim)
    engine = engines.load(path, kv_type_k="q8_0", kv_type_v="q4_0")
    assert (engine.info.kv_type_k, engine.info.kv_type_v) == ("f16", "f16")
    assert any("q8_0" in note and str(head_dim) in note for note in engine.info.notes)
    assert collect(engine, raw("abc", max_tokens=2)).end.usage.generated_tokens == 2
    engine.close()


@pytest.fixture(scope="module")
def small_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("small") / "small.gguf", n_layers=1)


@pytest.mark.parametrize("kind", get_args(KVType))
def test_every_pair_of_cache_types_answers(small_gguf: Path, kind: str) -> None:
    for other in get_args(KVType):
        engine = engines.load(small_gguf, kv_type_k=kind, kv_type_v=other)
        assert (engine.info.kv_type_k, engine.info.kv_type_v) == (kind, other)
        assert collect(engine, raw("abc", max_tokens=3)).end.usage.generated_tokens == 3
        engine.close()


@pytest.mark.shows("context_length")
@pytest.mark.parametrize("length", [1_048_576, 2**31 - 1, 0])
def test_a_huge_trained_context_gives_a_sensible_default(tmp_path: Path, length: int) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata={"llama.context_length": length})
    engine = engines.load(path, context_length=0)
    assert 16 <= engine.info.context_length <= 4096
    engine.close()
