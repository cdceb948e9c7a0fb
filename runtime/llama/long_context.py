"""What to tell a person whose context is longer than the model was trained for. Changes nothing itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runtime.text import _

if TYPE_CHECKING:
    from runtime.llama.model import LlamaModel

_STEP = 0.5  # the advised factor is rounded up to it


def notes(model: LlamaModel) -> Iterator[str]:
    """Yields notes about settings of positions that have no effect, and about a context that nothing stretches."""
    if not model.turns_positions:
        if _asks_for_rope(model):
            yield _("This model does not know positions by RoPE, so the settings for longer contexts have no effect.")
    elif model.params.rope_scaling in ("linear", "yarn") and _factor(model) <= 1:
        yield _("RoPE scaling has no effect: neither the settings nor the file names a factor.")
    if _too_long(model):
        yield _beyond_training(model)


def takes_long_factors(model: LlamaModel) -> bool:
    """Whether a model that has a second set of position factors, for long contexts, takes that one."""
    stretched_by_file = model.original_context != model.trained_context
    return stretched_by_file and model.native_context_length > model.original_context


def _asks_for_rope(model: LlamaModel) -> bool:
    params = model.params
    return params.rope_scaling != "file" or params.rope_factor > 0 or params.rope_base > 0


def _factor(model: LlamaModel) -> float:
    return model.params.rope_factor or model.rope_factor


def _too_long(model: LlamaModel) -> bool:
    if not model.trained_context or model.remembers_states or model.params.rope_base:
        return False
    return model.context_length > _reach(model)


def _reach(model: LlamaModel) -> float:
    """Returns how many tokens the model is good for with these settings."""
    params = model.params
    if not model.turns_positions or (params.rope_scaling == "file" and not params.rope_factor):
        return model.trained_context
    before = params.yarn_original_context or model.original_context
    if params.rope_scaling == "none":
        return before
    if not params.rope_factor:
        return max(model.trained_context, before * _factor(model))
    return before * params.rope_factor


def _beyond_training(model: LlamaModel) -> str:
    words = {"n": f"{model.context_length:,}", "reach": f"{int(_reach(model)):,}"}
    if not model.turns_positions:
        note = _("The context of {n} tokens is longer than the {reach} that the model is good for.")
        return note.format(**words)
    before = model.params.yarn_original_context or model.original_context
    factor = math.ceil(model.context_length / before / _STEP) * _STEP
    note = _(
        "The context of {n} tokens is longer than the {reach} that the model is good for; beyond them its answers get "
        "worse. RoPE scaling “YaRN” with a factor of {factor:g} stretches it."
    )
    return note.format(factor=factor, **words)
