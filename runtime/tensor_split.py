"""Reads how a model is shared among graphics cards, as people write it: `3/1`. Knows no card."""

from __future__ import annotations

import math
import re

from runtime.errors import UserError
from runtime.text import _

MAX_CARDS = 16  # llama.cpp's own limit


class BadSplit(UserError):
    """Shares that cannot be read."""

    code = "bad_tensor_split"

    def __init__(self, written: str) -> None:
        super().__init__(
            _("The shares “{written}” cannot be used.").format(written=written[:60]),
            _("There has to be a number for each graphics card, at most {limit}, and one above 0.").format(
                limit=MAX_CARDS),
            _("Write them with a slash between, as in 3/1 for three quarters on the first card."),
        )  # fmt: skip


def read_split(written: str) -> tuple[float, ...]:
    """Returns the shares of the cards, in their order; nothing for an empty text. Raises `BadSplit`."""
    if not written.strip():
        return ()
    try:
        shares = tuple(float(part) for part in re.split("[/,:]", written))
    except ValueError as error:
        raise BadSplit(written) from error
    if len(shares) > MAX_CARDS or not all(0 <= share < math.inf for share in shares) or not any(shares):
        raise BadSplit(written)
    return shares
