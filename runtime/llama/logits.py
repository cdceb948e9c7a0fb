"""Looks whether a model's scores are numbers at all. Knows no sampler."""

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


def check_scores(pointer: Any, n_vocab: int) -> None:
    """Raises `InvalidNumbers` unless the scores at `pointer` (`float *`, V) can be drawn from.

    Minus infinity means "never" and is allowed, but not for every token. One pass in plain Python, without numpy:
    meant for once an answer.
    """
    scores = pointer[:n_vocab]
    total = sum(scores)  # NaN where any is NaN, or where both infinities are
    if math.isfinite(total) or (total == -math.inf and max(scores) > -math.inf):
        return
    raise InvalidNumbers


def check_score(pointer: Any, token: int) -> None:
    """Raises `InvalidNumbers` where the score of a token that was drawn is no finite number."""
    if not math.isfinite(pointer[token]):
        raise InvalidNumbers


def require_numbers(logits: Any) -> None:
    """Raises `InvalidNumbers` unless an array of scores (V,) can be drawn from: the sum tells, without a copy."""
    highest = float(logits.max())  # NaN where any is NaN
    if not math.isfinite(highest):
        raise InvalidNumbers
