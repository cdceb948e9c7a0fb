"""Tells from torch's errors when memory has run out. Knows no model."""

from __future__ import annotations

from typing import NoReturn

import torch

from runtime.errors import UserError
from runtime.text import _

_SAYS_SO = ("can't allocate memory", "not enough memory", "out of memory")


class MemoryFull(UserError):
    """The system or the graphics card gave no more memory."""

    code = "memory_full"

    def __init__(self, details: str) -> None:
        super().__init__(
            _("There is not enough memory to go on."),
            _("The text so far is kept."),
            _("Choose a shorter context length, a smaller number format or a smaller model, and load it again."),
            details=details,
        )


def raise_for_memory(error: RuntimeError) -> NoReturn:
    """Raises `MemoryFull` where torch says that memory has run out, and the error itself otherwise."""
    if isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in _SAYS_SO):
        raise MemoryFull(str(error)) from error
    raise error
