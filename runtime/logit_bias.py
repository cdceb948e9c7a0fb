"""Reads logit biases as people write them: `15043=-2`, `" word"=+5`, `never=-inf`. Knows no vocabulary."""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

from runtime.errors import UserError
from runtime.text import _

MAX_BIAS = 1000.0
MAX_BIASES = 10_000


class Bias(NamedTuple):
    """What is added to the score of one token, given by its id or by its text. Minus infinity forbids it."""

    token: int | None
    text: str
    amount: float


class BadBias(UserError):
    """A logit bias that cannot be read, or that names no token."""

    code = "bad_logit_bias"

    def __init__(self, written: str, reason: str) -> None:
        super().__init__(
            _("The logit bias “{written}” cannot be used.").format(written=_short(written)),
            reason,
            _('Write a token’s id or its text, “=” and a number, as in 15043=-2 or " word"=+5.'),
        )


def read_bias(written: str) -> Bias:
    """Returns a bias. A text may stand in double quotes, with JSON's escapes. Raises `BadBias`."""
    name, sign, number = written.rpartition("=")
    if not sign or not name.strip():
        raise BadBias(written, _("It needs a token, “=” and a number."))
    amount = _amount(written, number.strip())
    name = name.strip() if name.strip().startswith('"') else name
    if re.fullmatch(r"\s*[+-]?\d+\s*", name):
        return Bias(_token(written, name), "", amount)
    return Bias(None, _unquoted(written, name), amount)


def check_biases(biases: tuple[str, ...]) -> None:
    """Raises `BadBias` where one cannot be read, or there are too many."""
    if len(biases) > MAX_BIASES:
        words = _("There are {n:,} of them; {limit:,} are allowed.")
        raise BadBias("…", words.format(n=len(biases), limit=MAX_BIASES))
    for written in biases:
        read_bias(written)


def _amount(written: str, number: str) -> float:
    try:
        amount = float(number.replace(",", ".") if "." not in number else number)
    except ValueError:
        amount = math.nan
    if amount != -math.inf and not abs(amount) <= MAX_BIAS:
        words = _("“{number}” is no number from {low:g} to {high:g}; -inf forbids a token.")
        raise BadBias(written, words.format(number=_short(number), low=-MAX_BIAS, high=MAX_BIAS))
    return amount


def _token(written: str, name: str) -> int:
    token = int(name) if len(name) < 20 else 2**31
    if not 0 <= token < 2**31:
        raise BadBias(written, _("There is no token {token}.").format(token=_short(name.strip())))
    return token


def _unquoted(written: str, name: str) -> str:
    if not name.startswith('"'):
        return name
    try:
        text = json.loads(name)
    except ValueError:
        text = ""
    if not isinstance(text, str) or not text:
        raise BadBias(written, _("The text in quotes cannot be read."))
    return text


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
