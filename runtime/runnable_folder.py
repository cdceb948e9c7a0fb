"""Tells what Quern's own engine can do with a Hugging Face folder, from its config.json alone. Reads no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from runtime.architectures import reading
from runtime.config import ModelForm
from runtime.errors import UserError
from runtime.text import _


class Fitness(NamedTuple):
    """`reason` says, in a sentence, why a model cannot write text; "" where it can. `form` is None where unknown."""

    reason: str
    form: ModelForm | None = None


def fitness(config: Mapping[str, Any]) -> Fitness:
    """Returns whether the model that config.json describes can write text. Raises nothing."""
    raw = reading.text_part(config)
    try:
        named = raw.get("architectures")
        classes = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
        architecture = reading.by_hf_type(str(raw.get("model_type") or ""), classes)
        form = reading.from_hf(architecture, raw).form
    except UserError as error:
        return Fitness(error.info.title if isinstance(error, reading.UnknownArchitecture) else error.info.message)
    if form == "encoder":
        reason = _("It makes vectors out of texts (“{architecture}”) and writes none.")
        return Fitness(reason.format(architecture=architecture.name), form)
    return Fitness("", form)
