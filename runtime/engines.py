"""Opens the right engine for a model. The engines themselves are imported only when one is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from runtime.engine import Embedder, Engine, LoadListener, StopFlag, Tokenizer
from runtime.params import LoadParams

EngineName = Literal["auto", "llama"]
ENGINES: tuple[EngineName, ...] = ("auto", "llama")


def open_engine(
    path: Path,
    params: LoadParams,
    *,
    engine: EngineName = "auto",
    listener: LoadListener | None = None,
    stop: StopFlag | None = None,
) -> Engine:
    """Loads the model and returns its engine. Raises `UserError` where the file or the machine does not allow it."""
    from runtime.llama.engine import LlamaEngine

    return LlamaEngine(path, params, listener=listener, stop=stop)


def open_embedder(
    path: Path,
    params: LoadParams,
    *,
    engine: EngineName = "auto",
    listener: LoadListener | None = None,
    stop: StopFlag | None = None,
) -> Embedder:
    """Loads a model to make vectors with. Raises `UserError` where the file or the machine does not allow it."""
    from runtime.llama.embedding import LlamaEmbedder

    return LlamaEmbedder(path, params, listener=listener, stop=stop)


def open_tokenizer(path: Path) -> Tokenizer:
    """Opens a model's vocabulary without its weights, also of a model that no engine runs. Raises `UserError`."""
    from runtime.llama.tokenizer import GgufTokenizer

    return GgufTokenizer(path)
