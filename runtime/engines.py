"""Opens the right engine for a model. The engines themselves are imported only when one is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from runtime.engine import Embedder, Engine, Inspector, LoadListener, StopFlag, Tokenizer
from runtime.installation import require_torch
from runtime.model_errors import UnsupportedModel
from runtime.params import LoadParams
from runtime.text import _

EngineName = Literal["llama", "native"]


def engine_of(path: Path, params: LoadParams) -> EngineName:
    """Returns which engine runs a model: the one that was chosen, or llama.cpp wherever it can."""
    if params.engine != "auto":
        return params.engine
    return "native" if _is_folder(path) else "llama"


def open_engine(
    path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
) -> Engine:
    """Loads the model and returns its engine. Raises `UserError` where the file or the machine does not allow it."""
    if engine_of(path, params) == "native":
        require_torch(_("Quern's own engine"))
        from runtime.native.engine import NativeEngine

        return NativeEngine(path, params, listener=listener, stop=stop)
    _require_file(path)
    from runtime.llama.engine import LlamaEngine

    return LlamaEngine(path, params, listener=listener, stop=stop)


def open_embedder(
    path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
) -> Embedder:
    """Loads a model to make vectors with. Raises `UserError` where the file or the machine does not allow it."""
    if engine_of(path, params) == "native":
        require_torch(_("Quern's own engine"))
        from runtime.native.embedding import NativeEmbedder

        return NativeEmbedder(path, params, listener=listener, stop=stop)
    _require_file(path)
    from runtime.llama.embedding import LlamaEmbedder

    return LlamaEmbedder(path, params, listener=listener, stop=stop)


def open_inspector(
    path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
) -> Inspector:
    """Loads a model to look into, always with Quern's own engine. Raises `UserError` where that cannot run it."""
    require_torch(_("Looking into a model"))
    from runtime.native.inspection import Inspector as NativeInspector

    return NativeInspector(path, params, listener=listener, stop=stop)


def open_tokenizer(path: Path) -> Tokenizer:
    """Opens a model's vocabulary without its weights, also of a model that no engine runs. Raises `UserError`."""
    if _is_folder(path):
        from runtime.tokenizer import FolderTokenizer

        return FolderTokenizer(path)
    from runtime.llama.tokenizer import GgufTokenizer

    return GgufTokenizer(path)


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path) or path.suffix == ".safetensors"  # no error where the system lets nobody look


def _require_file(path: Path) -> None:
    """Raises `UnsupportedModel` where llama.cpp was chosen for a folder."""
    if _is_folder(path):
        hint = _("Choose Quern's own engine (--engine native), or convert the folder with “quern convert”.")
        raise UnsupportedModel(path, _("llama.cpp runs GGUF files, and this is a folder."), hint)
