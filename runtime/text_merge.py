"""Joins pieces of an answer that follow each other quickly: a fast model need not wake its reader for each token.

The reader shares the processor with the threads that compute: waking it a hundred times a second costs a few percent of
the speed. Knows no engine and no process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from runtime.protocol import GenerationEvent, TextDelta

MERGE_SECONDS = 0.033  # the window shows new text thirty times a second


def merged(
    events: Iterable[GenerationEvent], *, seconds: float = MERGE_SECONDS, clock: Callable[[], float] = time.monotonic
) -> Iterator[GenerationEvent]:
    """Yields the events in their order; text that comes within `seconds` of the last one waits for the next event.

    The first text, and text of a model that is slower than that, goes out at once.
    """
    waiting = _Waiting()
    shown = float("-inf")
    try:
        for event in events:
            if not isinstance(event, TextDelta):
                yield from waiting.let_go()
                yield event
                continue
            if waiting.is_other(event):
                yield from waiting.let_go()
            waiting.add(event)
            now = clock()
            if now - shown >= seconds:
                shown = now
                yield from waiting.let_go()
    except Exception:
        yield from waiting.let_go()  # what was said before a fault stays valid
        raise
    yield from waiting.let_go()


class _Waiting:
    """The text that has not gone out yet."""

    def __init__(self) -> None:
        self._text: TextDelta | None = None

    def is_other(self, event: TextDelta) -> bool:
        """Whether what waits is reasoning and the new text is not, or the other way round."""
        return self._text is not None and self._text.reasoning != event.reasoning

    def add(self, event: TextDelta) -> None:
        older = "" if self._text is None else self._text.text
        self._text = msgspec.structs.replace(event, text=older + event.text)

    def let_go(self) -> Iterator[TextDelta]:
        text, self._text = self._text, None
        if text is not None:
            yield text
