"""Looks at the scores in llama.cpp's memory: are they numbers at all. Knows no sampler."""

from __future__ import annotations

import math
from typing import Any

from runtime.logits import InvalidNumbers


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
