"""Finds the tokens that logit biases are for. Knows one vocabulary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from runtime.logit_bias import BadBias, Bias, read_bias
from runtime.text import _


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    size: int

    @property
    def control_tokens(self) -> Mapping[str, int]: ...

    def tokenize(self, text: str) -> list[int]: ...

    def piece(self, token: int) -> bytes: ...

    def label(self, token: int) -> str: ...


def resolved(written: Sequence[str], vocabulary: Vocabulary) -> dict[int, float]:
    """Returns what is added to the scores of which tokens; several biases of one token add up. Raises `BadBias`."""
    found: dict[int, float] = {}
    for text in written:
        bias = read_bias(text)
        token = _token_of(text, bias, vocabulary)
        found[token] = found.get(token, 0.0) + bias.amount
    if sum(amount == -math.inf for amount in found.values()) >= vocabulary.size:
        raise BadBias(written[0], _("Every token is forbidden."))
    return found


def _token_of(written: str, bias: Bias, vocabulary: Vocabulary) -> int:
    if bias.token is None:
        return _token_with(written, bias.text, vocabulary)
    if bias.token >= vocabulary.size:
        words = _("This model's vocabulary has the tokens 0 to {last}.")
        raise BadBias(written, words.format(last=vocabulary.size - 1))
    return bias.token


def _token_with(written: str, text: str, vocabulary: Vocabulary) -> int:
    """Returns the token with exactly this text: a control token by its name, else a piece of text."""
    if text in vocabulary.control_tokens:
        return vocabulary.control_tokens[text]
    ids, data = vocabulary.tokenize(text), text.encode("utf-8", "replace")
    if len(ids) == 1 and vocabulary.piece(ids[0]) == data:
        return ids[0]
    # Some tokenizers put a space before every text, and so never give the piece without one.
    whole = next((token for token in range(vocabulary.size) if vocabulary.piece(token) == data), None)
    if whole is None:
        words = _("The text is {n} tokens for this model; a bias is for one of them: {pieces}.")
        pieces = ", ".join(f"{token} “{vocabulary.label(token)}”" for token in ids[:8])
        raise BadBias(written, words.format(n=len(ids), pieces=pieces))
    return whole
