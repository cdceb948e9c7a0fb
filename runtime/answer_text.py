"""From the tokens of an answer to its text: whole characters, before a stop text, reasoning apart. Draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from runtime.known_answers import Answer, ids_spelling
from runtime.messages import Message, Role
from runtime.prompt import Prompt
from runtime.protocol import TextDelta
from runtime.reasoning import JoinedText, Piece, ReasoningSplitter, separated
from runtime.stop import StopMatcher
from runtime.stream import StreamDecoder

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer


class AnswerText:
    """One answer's text as it comes. `before` is the text of the answer that is continued, its reasoning joined."""

    def __init__(self, vocabulary: Tokenizer, prompt: Prompt, *, stop: Sequence[str], before: str) -> None:
        self.ids = list(prompt.continued)
        self.stop_text = ""
        self.generated = self.reasoning_tokens = 0
        self._speller = Speller(vocabulary, prompt.named)
        self._decoder = StreamDecoder()
        self._decoder.feed(b"".join(map(self._speller.spell, prompt.continued)))
        self._resumed = self._replaces = int(self._decoder.unfinished)
        self._matcher = StopMatcher(stop)
        silent = map(vocabulary.label, prompt.named)
        self._splitter = ReasoningSplitter(prompt.families, inside=prompt.inside, silent=silent)
        self._joined = JoinedText(before)
        self._before = before
        self._lead = prompt.lead
        self._raw: list[str] = []
        self._parts: list[str] = []  # as `runtime.reasoning.joined` writes reasoning and answer

    @property
    def raw(self) -> str:
        """What the tokens say, the marks of reasoning included."""
        return "".join(self._raw)

    def add(self, token: int) -> Iterator[TextDelta]:
        """Takes the next token and yields what can be shown; `stop_text` tells when a stop text ended the answer."""
        self.generated += 1
        self.ids.append(token)
        self.reasoning_tokens += self._splitter.reasoning
        text, stop_text = self._matcher.feed(self._decoder.feed(self._speller.spell(token)))
        self.stop_text = stop_text or ""
        self._raw.append(text)
        yield from self._shown(self._splitter.feed(text))

    def release(self) -> Iterator[TextDelta]:
        """Yields what was held back and comes no longer; nothing the second time."""
        text = "" if self.stop_text else self._rest()
        self._raw.append(text)
        yield from self._shown([*self._splitter.feed(text), *self._splitter.finish()])

    def answers(self) -> Iterator[Answer]:
        """Yields the whole answer once it has ended, and without its reasoning where it has some."""
        text = self._before[: len(self._before) - (self._resumed - self._replaces)] + "".join(self._parts)
        content = separated(Message(Role.ASSISTANT, text)).content
        spelled = list(map(self._speller.spell, self.ids))
        whole = not self.stop_text or content == text
        if whole:  # the last tokens may hold what was not shown
            yield Answer(text, ids_spelling(text, self.ids, spelled) if self.stop_text else tuple(self.ids), self._lead)
        if content and content != text:
            yield Answer(content, _ids_at_end(content, self.ids, spelled))

    def _rest(self) -> str:
        """Text held back for a character or a stop text that did not come."""
        text, stop_text = self._matcher.feed(self._decoder.finish())
        return text if stop_text is not None else text + self._matcher.finish()

    def _shown(self, pieces: Sequence[Piece]) -> Iterator[TextDelta]:
        for text, reasoning in pieces:
            self._parts.append(self._joined.feed(text, reasoning=reasoning))
            replaces, self._replaces = self._replaces, 0
            yield TextDelta(id=0, text=text, n_tokens=self.generated, replaces=replaces, reasoning=reasoning)


class Speller:
    """Spells tokens: control tokens as nothing, except those that are `named`, which are marks of reasoning."""

    def __init__(self, vocabulary: Tokenizer, named: Sequence[int]) -> None:
        self._vocabulary = vocabulary
        self._named = frozenset(named)

    def spell(self, token: int) -> bytes:
        """Returns a token's bytes."""
        return self._vocabulary.raw_piece(token) if token in self._named else self._vocabulary.piece(token)


def _ids_at_end(text: str, ids: Sequence[int], spelled: Sequence[bytes]) -> tuple[int, ...]:
    """Returns the last ids, as many as spell `text`; none where it begins inside a token."""
    wanted, length = text.encode("utf-8", "replace"), 0
    for count, piece in enumerate(reversed(spelled), start=1):
        length += len(piece)
        if length >= len(wanted):
            return tuple(ids[-count:]) if b"".join(spelled[-count:]) == wanted else ()
    return ()
