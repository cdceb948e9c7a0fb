"""A model's name for people: the file's name without its number format and its dashes. Knows no file."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from desktop.chat.plain_text import one_line
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_STARTER = "starter"


def shown_name(info: ModelInfo) -> str:
    """Returns “SmolLM2 135M Instruct” for SmolLM2-135M-Instruct.Q4_1.gguf; the library's name where nothing is left."""
    name = info.path.stem if info.name == _STARTER else info.name
    return _worded(name, info.quantization) or one_line(info.name) or _("Unnamed model")


@lru_cache(maxsize=8192)
def _worded(name: str, quantization: str) -> str:
    """Lists ask for each name many times."""
    if quantization:
        name = re.sub(rf"[-._: ]*{re.escape(quantization)}\b", "", name, flags=re.IGNORECASE)
    return one_line(re.sub(r"[-_ ]+", " ", name)).strip(". ")
