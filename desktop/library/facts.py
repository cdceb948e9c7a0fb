"""What the library says of a model in words: where it is from, whether it fits, what it takes. Knows no widget."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from desktop.chat.plain_text import one_line
from desktop.human import data_size, whole_number
from runtime.text import N_, _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

MISSING, OPENED, STARTER = "missing", "opened", "starter"
_PLACES = {
    "quern": N_("Quern's folder"), STARTER: N_("comes with Quern"), "folder": N_("your folder"),
    OPENED: N_("opened file"), "path": N_("opened file"), MISSING: N_("missing"), "lm-studio": "LM Studio",
    "ollama": "Ollama", "jan": "Jan", "gpt4all": "GPT4All", "llama.cpp": "llama.cpp",
    "hugging-face": N_("Hugging Face cache"),
}  # fmt: skip
_PROGRAMS = {"lm-studio": "LM Studio", "jan": "Jan", "gpt4all": "GPT4All", "llama.cpp": "llama.cpp"}
_MANAGED = {"ollama": "Ollama", "hugging-face": "Hugging Face"}  # their files have other names than their models
_TIGHT = 0.9  # of all memory: more leaves nothing for the system


class Fit(enum.Enum):
    """Whether a model finds room in memory."""

    UNKNOWN = "quiet"
    FITS = "good"
    TIGHT = "caution"
    TOO_LARGE = "bad"


def fit(needed: int, *, free: int, total: int) -> Fit:
    """Returns how a model that takes `needed` bytes would find room; 0 stands for what is not known."""
    if not needed or not total:
        return Fit.UNKNOWN
    if needed <= free:
        return Fit.FITS
    return Fit.TIGHT if needed <= total * _TIGHT else Fit.TOO_LARGE


def fit_words(needed: int, how: Fit) -> str:
    """Returns the fit in words, with the number."""
    size = data_size(needed) if needed else ""
    return {
        Fit.UNKNOWN: _("memory not known"),
        Fit.FITS: _("fits: {size}").format(size=size),
        Fit.TIGHT: _("tight: {size}").format(size=size),
        Fit.TOO_LARGE: _("too large: {size}").format(size=size),
    }[how]


def place(info: ModelInfo) -> str:
    """Returns whose folder a model lies in."""
    return _(_PLACES.get(info.source, info.source)) or _("this computer")


def owner(info: ModelInfo) -> str:
    """Returns the other program that uses the file; empty where it is only Quern's."""
    return _PROGRAMS.get(info.source) or _MANAGED.get(info.source, "")


def can_move(info: ModelInfo) -> bool:
    """Whether the file may be renamed or removed here: not the starter, nor what a program keeps under other names."""
    return info.source not in (STARTER, *_MANAGED) and info.source != MISSING


def is_missing(info: ModelInfo) -> bool:
    """True for a file that was opened once and is gone."""
    return info.source == MISSING


def family(info: ModelInfo) -> str:
    """Returns the architecture as people know it."""
    return one_line(info.architecture, limit=40) or _("unknown family")


def engine_words(info: ModelInfo) -> str:
    """Returns which engine runs it."""
    if not info.runnable:
        return _("none")
    return _("native") if info.kind == "folder" else "llama.cpp"


def context_words(info: ModelInfo) -> str:
    """Returns how much text a model takes in."""
    if not info.context_length:
        return _("not given")
    return _("{n} tokens").format(n=whole_number(info.context_length))
