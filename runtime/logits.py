"""Looks whether a model's scores are numbers at all. Knows no engine."""

from __future__ import annotations

import math
from typing import Any

from runtime.errors import UserError
from runtime.text import _


class InvalidNumbers(UserError):
    """A model whose scores are not numbers: damaged weights, or values too large for 16 bits."""

    code = "invalid_numbers"

    def __init__(self) -> None:
        super().__init__(
            _("The model produced invalid numbers."),
            _("The scores of the next token are not finite: a damaged file, or values too large for 16 bits."),
            _("Get the file anew, try it as BF16 or F32, or set the cache types to f32 and flash attention off."),
        )


def require_numbers(logits: Any) -> None:
    """Raises `InvalidNumbers` unless an array of scores (V,) can be drawn from.

    Minus infinity means "never" and is allowed, but not for every token.
    """
    if not math.isfinite(float(logits.max())):  # NaN where any is NaN
        raise InvalidNumbers
