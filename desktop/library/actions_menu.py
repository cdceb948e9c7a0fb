"""What can be done with a model of the library, in one table: for its buttons and its menu. Does nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from desktop.library import facts
from runtime.text import N_

if TYPE_CHECKING:
    from runtime.library import ModelInfo


@dataclass(frozen=True, slots=True)
class ModelAction:
    """One action: its name in code, its words, its drawing, its key in the list, and where it makes sense."""

    name: str
    words: str
    icon: str
    key: str
    fits: Callable[[ModelInfo], bool]


def _converts(info: ModelInfo) -> bool:
    return not facts.is_missing(info) and info.kind != "adapter"


MODEL_ACTIONS = (
    ModelAction("chat", N_("Chat with it"), "chat", "", lambda info: info.can_chat),
    ModelAction("details", N_("What is in the file"), "info", "Ctrl+D",
                lambda info: info.kind == "gguf" and not facts.is_missing(info)),
    ModelAction("convert", N_("Convert…"), "convert", "Ctrl+E", _converts),
    ModelAction("locate", N_("Locate…"), "search", "", facts.is_missing),
    ModelAction("reveal", N_("Show in the file manager"), "folder", "", lambda info: not facts.is_missing(info)),
    ModelAction("rename", N_("Rename…"), "edit", "F2", facts.can_move),
    ModelAction("remove", N_("Move to the trash"), "delete", "Del", facts.can_move),
    ModelAction("forget", N_("Take out of the list"), "close", "Del", facts.is_missing),
)  # fmt: skip


def actions_for(info: ModelInfo) -> list[ModelAction]:
    """Returns what makes sense for a model."""
    return [action for action in MODEL_ACTIONS if action.fits(info)]
