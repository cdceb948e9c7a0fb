"""Finds the draft model that the loading settings name, and says how it is loaded. Loads nothing."""

from __future__ import annotations

from pathlib import Path

from runtime import gguf_header, runnable
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, UnsupportedModel
from runtime.params import LoadParams
from runtime.places import path_of
from runtime.text import _

# Where and with what numbers it computes; what changes a model's own sense, such as adapters, is not a draft's matter.
_SHARED = (
    "flash_attention", "kv_type_k", "kv_type_v", "mmap", "mlock", "threads", "prompt_threads", "batch", "micro_batch",
    "gpu_layers", "devices", "split_mode", "tensor_split", "main_gpu", "kv_on_gpu",
)  # fmt: skip


class NoDraftModel(UserError):
    """A draft model was asked for and none was named."""

    code = "no_draft_model"

    def __init__(self) -> None:
        super().__init__(
            _("No draft model is chosen."),
            _("The setting “Speculation” says that a draft model guesses, and the setting “Draft model” is empty."),
            _("Name a small model of the same family, or let the text itself be the draft (n-grams)."),
        )


def draft_path(params: LoadParams) -> Path | None:
    """Returns where the draft model is; None where none is to be used. Raises what `draft_header` raises."""
    if params.speculation != "draft":
        return None
    if not params.draft_model.strip():
        raise NoDraftModel
    from runtime.library import resolve  # looks through the disk for names

    return resolve(str(path_of(params.draft_model.strip()))).path


def draft_header(params: LoadParams) -> GgufHeader | None:
    """Returns the draft model's header; None where none is to be used.

    Raises `NoDraftModel`, and what naming a model and reading its header raise.
    """
    path = draft_path(params)
    if path is None:
        return None
    header = gguf_header.read_header(path)
    runnable.require_runnable(header)
    if runnable.turns_texts(header):
        raise UnsupportedModel(header.path, _("It turns one text into another, and cannot guess how one goes on."))
    return header


def draft_params(params: LoadParams) -> LoadParams:
    """Returns how to load the draft for a model that is loaded with `params`: where, not what, it computes.

    A sliding window keeps everything, so that the draft can go back from guesses that did not come true.
    """
    return LoadParams(swa_full=True, **{name: getattr(params, name) for name in _SHARED})
