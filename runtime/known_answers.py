"""Remembers the token ids of answers by their text, so that a conversation is read as it was written.

A text has many spellings in tokens, and a model does not always draw the one its tokenizer would choose. Knows no
conversation and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

_MOST_TOKENS = 1 << 18  # remembered in all; the oldest answers go first


class Answer(msgspec.Struct, frozen=True):
    """An answer's text as it was shown, its token ids, and `lead`, the text between the last mark and its start.

    A text that ends with U+FFFD for an unfinished character stands for the ids that began the character.
    """

    text: str
    ids: tuple[int, ...]
    lead: str = ""


class KnownAnswers:
    """The last answers of one model. Looking up is safe from any thread while another one remembers."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._tokens = 0

    def __iter__(self) -> Iterator[Answer]:
        return iter(list(self._answers.values()))

    def remember(self, answer: Answer) -> None:
        """Keeps an answer; of two with the same text, the later one."""
        if not answer.text or not answer.ids:
            return
        self._forget(answer.text)
        self._answers[answer.text] = answer
        self._tokens += len(answer.ids)
        while self._tokens > _MOST_TOKENS and len(self._answers) > 1:
            self._forget(next(iter(self._answers)))

    def remember_all(self, answers: Iterable[Answer]) -> None:
        """Keeps several answers."""
        for answer in answers:
            self.remember(answer)

    def find(self, text: str) -> Answer | None:
        return self._answers.get(text)

    def _forget(self, text: str) -> None:
        old = self._answers.pop(text, None)
        self._tokens -= len(old.ids) if old is not None else 0


def ids_spelling(text: str, ids: list[int], pieces: list[bytes]) -> tuple[int, ...]:
    """Returns the first ids, as many as spell `text` with their `pieces`; none where it ends inside a piece."""
    wanted, length = text.encode("utf-8", "replace"), 0
    for at, piece in enumerate(pieces):
        length += len(piece)
        if length >= len(wanted):
            spelled = b"".join(pieces[: at + 1])
            return tuple(ids[: at + 1]) if spelled == wanted else ()
    return ()
