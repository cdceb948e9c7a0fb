"""What every engine does around making vectors of texts: cuts texts to the limit, checks and normalizes vectors."""

from __future__ import annotations

import math
from typing import Protocol

from runtime.logits import InvalidNumbers
from runtime.reading import EmbedRequest, NothingToEmbed, TextTooLong
from runtime.text import _

Vector = tuple[float, ...]


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    @property
    def has_end_mark(self) -> bool: ...

    def tokenize(self, text: str) -> list[int]: ...

    def tokenize_whole(self, text: str) -> list[int]: ...


def token_lists(vocabulary: Vocabulary, request: EmbedRequest, limit: int) -> tuple[list[list[int]], list[str]]:
    """Returns each text's ids with the model's marks, and a note for each text that was cut.

    Raises `NothingToEmbed`, and `TextTooLong` where cutting is not allowed.
    """
    texts, notes = [], []
    for number, text in enumerate(request.texts, 1):
        ids = vocabulary.tokenize_whole(text)
        if not vocabulary.tokenize(text):
            raise NothingToEmbed(number)
        if len(ids) > limit:
            if not request.truncate:
                raise TextTooLong(number, tokens=len(ids), limit=limit)
            note = _("Text {number} has {tokens} tokens and was cut to {limit}.")
            notes.append(note.format(number=number, tokens=f"{len(ids):,}", limit=f"{limit:,}"))
            ids = _cut(ids, limit, end_mark=vocabulary.has_end_mark)
        texts.append(ids)
    return texts, notes


def _cut(ids: list[int], limit: int, *, end_mark: bool) -> list[int]:
    return [*ids[: limit - 1], ids[-1]] if end_mark else ids[:limit]


def normalized(vector: Vector) -> Vector:
    """Returns the vector with length 1; one of zeros stays. Raises `InvalidNumbers`."""
    length = math.sqrt(math.fsum(value * value for value in checked(vector)))
    return tuple(value / length for value in vector) if length else vector


def checked(vector: Vector) -> Vector:
    """Returns the vector. Raises `InvalidNumbers` where it holds something else than numbers."""
    if not all(map(math.isfinite, vector)):
        raise InvalidNumbers
    return vector
