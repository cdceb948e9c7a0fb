"""Models are listed, measured and loaded where the system gives little: memory, or room for names."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiny_gguf
from runtime import exact_memory
from runtime.engine_process import EngineProcess
from runtime.engines import open_engine, open_tokenizer
from runtime.gguf_header import read_header
from runtime.library import Library
from runtime.model_errors import ModelUnreadable
from runtime.params import LoadParams, SamplingParams
from runtime.places import places
from runtime.protocol import Finished, FinishReason, GenerationRequest

KIBIBYTES = 2 * 1024 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the limit")
@pytest.mark.parametrize("trained", [1_048_576, 2**31 - 1, 0])
def test_a_model_that_claims_any_context_loads_with_the_defaults_in_two_gigabytes(tmp_path: Path, trained: int) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", n_ctx=trained)
    limited = ["sh", "-c", f'ulimit -v {KIBIBYTES}; exec "{sys.executable}" -m runtime.worker']
    with EngineProcess(command=limited) as engine:
        info = engine.load(path, LoadParams(threads=1))
        sampling = SamplingParams(max_tokens=2, seed=1)
        *_, finished = engine.generate(GenerationRequest(prompt="Hello", sampling=sampling))
    assert 512 <= info.context_length <= 4096
    assert isinstance(finished, Finished)
    assert finished.reason is FinishReason.LENGTH


@pytest.fixture
def deep() -> Iterator[Path]:
    """A folder of models whose path has some 3,000 letters."""
    folder = places().models
    for number in range(25):
        folder = folder / f"{number:03}{'d' * 117}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(places().models)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow shorter paths")
def test_a_model_with_a_path_of_3_000_letters_is_described_and_measured(deep: Path) -> None:
    path = tiny_gguf.write_tiny(deep / f"{'n' * 245}.gguf")
    assert len(str(path)) > 3000
    header = read_header(path)
    assert exact_memory.measured(header, LoadParams(context_length=256)).weights == header.tensor_bytes
    with EngineProcess() as engine:
        assert engine.load(path, LoadParams(context_length=256, threads=1)).context_length == 256


def test_a_name_of_250_letters_is_listed(tmp_path: Path) -> None:
    places().models.mkdir(parents=True, exist_ok=True)
    path = tiny_gguf.write_tiny(places().models / f"{'n' * 245}.gguf")
    found = [model for model in Library(()).models() if model.path == path]
    assert [model.runnable for model in found] == [True]


@pytest.mark.parametrize("open_it", [lambda path: open_engine(path, LoadParams()), open_tokenizer],
                         ids=["engine", "tokenizer"])  # fmt: skip
def test_a_path_longer_than_any_system_allows_is_an_error_in_words(open_it: Callable[[Path], object]) -> None:
    with pytest.raises(ModelUnreadable) as caught:
        open_it(Path("/" + "x/" * 3000 + "m.gguf"))
    assert "too long" in caught.value.info.message
