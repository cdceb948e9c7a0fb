"""Reads an answer that may begin with what the model thought. Knows the marks between the two, and no drawing.

The reasoning is one block, the line that unfolds it, and costs nothing more while it is folded. Unfolded, its own
blocks follow, each in a frame of its own. The answer is read after it as if it stood alone.
"""

from __future__ import annotations

from dataclasses import replace

from desktop.chat.view.blocks import Block, BlockKind, Frame, FrameKind
from desktop.chat.view.incremental import IncrementalParser
from runtime.reasoning import CLOSE, OPEN

_THOUGHT = (Frame(FrameKind.THOUGHT),)
_LABEL = 400  # characters of the newest line that anybody can see of it


class _Section:
    """One of the two texts, in blocks that stand where they do in the whole."""

    def __init__(self, start: int, frames: tuple[Frame, ...] = ()) -> None:
        self.blocks: list[Block] = []
        self._start, self._frames = start, frames
        self._parser = IncrementalParser()

    def feed(self, text: str) -> int:
        unchanged = self._parser.feed(text)
        self.blocks[unchanged:] = [self._moved(block) for block in self._parser.blocks[unchanged:]]
        return unchanged

    def _moved(self, block: Block) -> Block:
        if not self._start and not self._frames:
            return block
        start, end = block.start + self._start, block.end + self._start
        return replace(block, start=start, end=end, frames=self._frames + block.frames)


class AnswerReader:
    """Holds the blocks of a growing answer; the counterpart of `IncrementalParser`."""

    def __init__(self, *, folded: bool = True) -> None:
        """With `folded`, reasoning is one block and is not read."""
        self.blocks: list[Block] = []
        self._folded = folded
        self._beginning: str | None = ""  # while it may still become the opening mark
        self._thought: _Section | None = None
        self._answer = _Section(0)
        self._thinking = False
        self._length = 0  # of what was read as reasoning, marks included
        self._held = ""  # of the reasoning: what may still become the closing mark
        self._label = ""

    def feed(self, text: str) -> int:
        """Reads more text. Returns the number of leading blocks that it left as they were."""
        if self._beginning is not None:
            self._beginning += text
            if self._beginning.startswith(OPEN):
                text, self._beginning = self._beginning.removeprefix(OPEN), None
                self._open()
                self._think(text)
                return 0
            if not OPEN.startswith(self._beginning):
                self._beginning = None
        return self._think(text) if self._thinking else self._say(text)

    def _open(self) -> None:
        self._thinking, self._length = True, len(OPEN)
        self._answer = _Section(0)
        self._thought = None if self._folded else _Section(len(OPEN), _THOUGHT)
        self.blocks = [Block(BlockKind.REASONING, "", 0, len(OPEN), closed=False)]

    def _think(self, text: str) -> int:
        self._held += text
        thought, closing, rest = self._held.partition(CLOSE)
        kept = 0 if closing else _beginning_at_end(self._held)
        self._held = self._held[len(self._held) - kept :] if kept else ""
        thought = thought[: len(thought) - kept] if kept else thought
        unchanged = self._take_thought(thought)
        if not closing:
            return unchanged
        self._close()
        self._say(rest)
        return 0

    def _take_thought(self, text: str) -> int:
        self._length += len(text)
        if self._thought is not None:
            unchanged = 1 + self._thought.feed(text)
            self.blocks[unchanged:] = self._thought.blocks[unchanged - 1 :]
            return unchanged
        self._label = _last_line(self._label + text)
        self.blocks = [replace(self.blocks[0], end=self._length, label=self._label)]
        return 0

    def _close(self) -> None:
        self._thinking = False
        self._length += len(CLOSE)
        end = len(OPEN) if self._thought is not None else self._length
        self.blocks[0] = replace(self.blocks[0], end=end, label="", closed=True)
        self._answer = _Section(self._length)

    def _say(self, text: str) -> int:
        before = len(self.blocks) - len(self._answer.blocks)
        unchanged = self._answer.feed(text)
        self.blocks[before + unchanged :] = self._answer.blocks[unchanged:]
        return before + unchanged


def _beginning_at_end(text: str) -> int:
    longest = min(len(text), len(CLOSE) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(CLOSE[:length])), 0)


def _last_line(text: str) -> str:
    """Returns the newest line that says something; what is before it is no longer needed."""
    lines = [line for line in text[-4 * _LABEL :].split("\n") if line.strip()]
    return lines[-1][-_LABEL:] if lines else ""
