"""Finds the draft model that the loading settings name, and says how it is loaded. Loads nothing."""

from __future__ import annotations

from runtime import gguf_header, runnable
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, UnsupportedModel
from runtime.params import LoadParams
from runtime.places import path_of
from runtime.text import _


class NoDraftModel(UserError):
    """A draft model was asked for and none was named."""

    code = "no_draft_model"

    def __init__(self) -> None:
        super().__init__(
            _("No draft model is chosen."),
            _("The setting “Speculation” says that a draft model guesses, and the setting “Draft model” is empty."),
            _("Name a small model of the same family, or let the text itself be the draft (n-grams)."),
        )


def draft_header(params: LoadParams) -> GgufHeader | None:
    """Returns the draft model's header; None where none is to be used.

    Raises `NoDraftModel`, and what naming a model and reading its header raise.
    """
    if params.speculation != "draft":
        return None
    if not params.draft_model.strip():
        raise NoDraftModel
    from runtime.library import resolve  # looks through the disk for names

    header = gguf_header.read_header(resolve(str(path_of(params.draft_model.strip()))).path)
    runnable.require_runnable(header)
    if runnable.turns_texts(header):
        raise UnsupportedModel(header.path, _("It turns one text into another, and cannot guess how one goes on."))
    return header


def draft_params(params: LoadParams) -> LoadParams:
    """Returns how to load the draft for a model that is loaded with `params`: where, not what, it computes.

    A sliding window keeps everything, so that the draft can go back from guesses that did not come true.
    """
    return LoadParams(
        flash_attention=params.flash_attention,
        kv_type_k=params.kv_type_k,
        kv_type_v=params.kv_type_v,
        swa_full=True,
        mmap=params.mmap,
        mlock=params.mlock,
        threads=params.threads,
        prompt_threads=params.prompt_threads,
        batch=params.batch,
        micro_batch=params.micro_batch,
        gpu_layers=params.gpu_layers,
        kv_on_gpu=params.kv_on_gpu,
        devices=params.devices,
        split_mode=params.split_mode,
        tensor_split=params.tensor_split,
        main_gpu=params.main_gpu,
    )
