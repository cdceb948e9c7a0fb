"""From a rendered conversation to token ids, and to whose message each of them is part of. Evaluates nothing.

What a person writes in a message never becomes a control token: only the template's own marks do. An answer that the
model itself has written is read in the tokens that it drew, wherever the prompt holds it verbatim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from runtime.control_text import Segment
from runtime.known_answers import Answer, KnownAnswers
from runtime.memo import Memo
from runtime.messages import Message, Role
from runtime.render import Rendered

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

MARKS = -1  # the owner of what the template wrote
_BOUNDARY = 16  # characters behind an answer that show how the rest is tokenized
_WHITE_SPACE = " \t\n\v\f\r"  # what C's isspace() takes for it
_MOST_KEPT = 1 << 23  # characters of messages whose lengths are remembered


class Part(NamedTuple):
    """A piece of a rendered conversation: where it begins, its text, and its ids."""

    start: int
    text: str
    ids: Sequence[int]


class Run(NamedTuple):
    """Neighbouring tokens of one owner: the position of a message, or `MARKS`."""

    owner: int
    tokens: int


class Span(NamedTuple):
    """Where the text of a message stands in a rendered conversation."""

    start: int
    end: int
    owner: int


class PromptIds:
    """Tokenizes for one model. Safe to use from several threads."""

    def __init__(self, vocabulary: Tokenizer, known: KnownAnswers) -> None:
        self._vocabulary, self._known_answers = vocabulary, known
        self._lengths: Memo[int] = Memo(_MOST_KEPT)

    def ids(self, rendered: Rendered, turns: Sequence[Message]) -> list[int]:
        """Returns the ids of a rendered conversation of `turns`."""
        return [token for part in self._parts(rendered, turns) for token in part.ids]

    def runs(self, rendered: Rendered, turns: Sequence[Message]) -> list[Run]:
        """Returns whose the tokens are, in their order; a token on a border is the message's in which it ends."""
        spans = _spans(rendered.text, turns)
        found: list[Run] = []
        at = 0
        for part in self._parts(rendered, turns):
            while at < len(spans) and spans[at].end <= part.start:
                at += 1
            end = part.start + len(part.text)
            inside = [
                Span(max(span.start - part.start, 0), min(span.end, end) - part.start, span.owner)
                for span in _while_before(spans, at, end)
            ]
            found += self._runs_in(part, inside)
        return found

    def length(self, text: str) -> int:
        """Returns how many tokens a message's text has by itself, remembered by the text."""
        known = self._known_answers.find(text)
        if known is not None:
            return len(known.ids)
        return self._lengths.get(text, lambda: len(self._vocabulary.tokenize(text)), size=len(text) + 1)

    def _runs_in(self, part: Part, inside: list[Span]) -> Iterator[Run]:
        """Yields whose the tokens of a part are that these spans touch, by the place where each token's bytes end."""
        if not inside or (len(inside) == 1 and inside[0].end - inside[0].start == len(part.text)):
            yield Run(inside[0].owner if inside else MARKS, len(part.ids))
            return
        borders = _byte_borders(part.text, inside)
        sizes = [len(self._vocabulary.raw_piece(token)) for token in part.ids]
        at = len(part.text.encode("utf-8", "replace")) - sum(sizes)  # below 0 where a space was put before the text
        border = tokens = 0
        for size in sizes:
            at += size
            while border < len(borders) - 1 and at > borders[border][0]:
                if tokens:
                    yield Run(borders[border][1], tokens)
                border, tokens = border + 1, 0
            tokens += 1
        if tokens:
            yield Run(borders[border][1], tokens)

    # --- tokenizing ---------------------------------------------------------------------------------------------

    def _parts(self, rendered: Rendered, turns: Sequence[Message]) -> Iterator[Part]:
        segments = rendered.segments if rendered.guarded else (Segment(rendered.text),)
        answers = self._answers_in(rendered.text, turns)
        last, at, known = -1, 0, 0
        for segment in segments:
            control = self._vocabulary.control_tokens.get(segment.text) if segment.control else None
            end = at + len(segment.text)
            while known < len(answers) and answers[known][0] < at:
                known += 1
            inside = [pair for pair in _answers_before(answers, known, end)]
            if control is not None:
                yield Part(at, segment.text, (control,))
                last = control
            else:
                until = min((start - at for start, _answer in inside), default=len(segment.text))
                taken = self._taken_after(last, segment.text[:until])
                for part in self._text_parts(segment.text, at, taken, inside, guarded=rendered.guarded):
                    yield part
                    last = part.ids[-1] if part.ids else last
            at = end

    def _taken_after(self, mark: int, text: str) -> int:
        """Returns how much of the white space that begins `text` belongs to the mark before it, as in Phi-3."""
        if mark < 0 or not self._vocabulary.takes_space(mark):
            return 0
        return len(text) - len(text.lstrip(_WHITE_SPACE))

    def _text_parts(
        self, text: str, base: int, done: int, answers: list[tuple[int, Answer]], *, guarded: bool
    ) -> Iterator[Part]:
        """Yields a text that begins at `base`, from its character `done` on, with `answers` at these places."""
        tokenize, special = self._vocabulary.tokenize, not guarded
        for place, answer in answers:
            start = place - base
            rest = text[start + len(answer.text) :]
            if start < done or not text.startswith(answer.text, start) or not self._can_begin(rest):
                continue
            if start > done:
                yield Part(base + done, text[done:start], tokenize(text[done:start], special=special))
            yield Part(place, answer.text, answer.ids)
            done = start + len(answer.text)
        if done < len(text):
            yield Part(base + done, text[done:], tokenize(text[done:], special=special))

    def _answers_in(self, text: str, turns: Sequence[Message]) -> list[tuple[int, Answer]]:
        """Returns where known answers begin in a rendered conversation."""
        found, at = [], 0
        for turn in turns:
            answer = self._known_answers.find(turn.content) if turn.role is Role.ASSISTANT else None
            before = len(answer.lead) if answer is not None else 0
            start = text.find(answer.lead + answer.text if answer is not None else turn.content, at)
            if start >= 0:
                at = start + before + len(turn.content)
            if start >= 0 and answer is not None:
                found.append((start + before, answer))
        return found

    def _can_begin(self, text: str) -> bool:
        """Whether this text is tokenized alone as it would be behind an answer: some tokenizers add a space to it."""
        if not text or text.startswith(self._control_texts):
            return True
        first = text[:_BOUNDARY]
        pieces = map(self._vocabulary.raw_piece, self._vocabulary.tokenize(first))
        return b"".join(pieces) == first.encode("utf-8", "replace")

    @cached_property
    def _control_texts(self) -> tuple[str, ...]:
        return tuple(self._vocabulary.control_tokens)


def _answers_before(answers: list[tuple[int, Answer]], first: int, end: int) -> Iterator[tuple[int, Answer]]:
    while first < len(answers) and answers[first][0] < end:
        yield answers[first]
        first += 1


def _while_before(spans: list[Span], first: int, end: int) -> Iterator[Span]:
    while first < len(spans) and spans[first].start < end:
        yield spans[first]
        first += 1


def _spans(text: str, turns: Sequence[Message]) -> list[Span]:
    """Returns where the messages' texts stand in a rendered conversation, as far as they stand there verbatim."""
    found: list[Span] = []
    at = 0
    for number, turn in enumerate(turns):
        content = turn.content if text.find(turn.content, at) >= 0 else turn.content.strip()
        start = text.find(content, at)
        thought = turn.reasoning.strip()
        before = text.find(thought, at, start if start >= 0 else None) if thought else -1
        for place, piece in ((before, thought), (start, content)):
            if place >= at and piece:
                found.append(Span(place, place + len(piece), number))
                at = place + len(piece)
    return found


def _byte_borders(text: str, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Returns where owners end, in bytes of UTF-8, and who they are; the last one ends with the text or behind it."""
    borders: list[tuple[int, int]] = []
    done, at = 0, 0
    for span in spans:
        for place, owner in ((span.start, MARKS), (span.end, span.owner)):
            at += len(text[done:place].encode("utf-8", "replace"))
            borders.append((at, owner))
            done = place
    return [*borders, (at + len(text[done:].encode("utf-8", "replace")), MARKS)]
