"""Ends a text before the first of some stop texts, as the text comes in. Knows nothing about tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from runtime.errors import UserError
from runtime.text import _

MOST_CHARACTERS = 100_000  # of all stop texts together; each takes some 400 bytes while an answer is written


class StopTextsTooLong(UserError):
    """More stop texts than can be looked for without wasting memory."""

    code = "stop_texts_too_long"

    def __init__(self, length: int) -> None:
        super().__init__(
            _("The stop texts are too long: {length} characters together.").format(length=f"{length:,}"),
            _("At most {limit} characters are looked for.").format(limit=f"{MOST_CHARACTERS:,}"),
            _("Leave some stop texts out, or shorten them."),
        )


def check_stop_texts(texts: Iterable[str]) -> None:
    """Raises `StopTextsTooLong`."""
    length = sum(map(len, texts))
    if length > MOST_CHARACTERS:
        raise StopTextsTooLong(length)


class StopMatcher:
    """Looks for stop texts in a text that arrives in pieces; a stop may be spread over any number of them.

    The stop that is complete first wins, and of those that are complete together the longest: what is shown never
    depends on how the text was cut, and no token is generated in the hope of another stop. Held back is the longest
    end of the text that may still become a stop, and nothing else. The cost of a character does not depend on how
    many stops there are (Aho and Corasick, "Efficient string matching", 1975).
    """

    def __init__(self, stop_texts: Iterable[str]) -> None:
        self._root = _automaton(stop_texts)
        self._node = self._root
        self._held = ""
        self._stopped: str | None = None

    def feed(self, text: str) -> tuple[str, str | None]:
        """Returns the text that may be shown now, and the stop text that was found, or None.

        The stop text and what follows it are never shown; once stopped, nothing more comes out.
        """
        if self._stopped is not None:
            return "", self._stopped
        for position, char in enumerate(text):
            self._node = self._step(char)
            if self._node.stop:
                return self._end_before(self._node.stop, self._held + text[: position + 1])
        return self._release(self._held + text)

    def finish(self) -> str:
        """Returns what was held back, because no more text comes."""
        text, self._held = self._held, ""
        self._node = self._root
        return text

    def _step(self, char: str) -> _Node:
        node = self._node
        while char not in node.next and node is not self._root:
            node = node.shorter
        return node.next.get(char, self._root)

    def _end_before(self, stop: str, text: str) -> tuple[str, str]:
        self._held, self._stopped = "", stop
        return text[: -len(stop)], stop

    def _release(self, text: str) -> tuple[str, None]:
        shown = len(text) - self._node.depth
        self._held = text[shown:]
        return text[:shown], None


class _Node:
    """A beginning of some stop text, `depth` characters long.

    `shorter` is the longest proper end of it that begins a stop text too; `stop` the longest stop text it ends with.
    """

    __slots__ = ("depth", "next", "shorter", "stop")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.next: dict[str, _Node] = {}
        self.shorter: _Node = self
        self.stop = ""


def _automaton(stops: Iterable[str]) -> _Node:
    """Returns the node of the empty beginning, with all others linked below it."""
    root = _Node(0)
    for stop in stops:
        _insert(root, stop)
    waiting = deque([root])
    while waiting:
        parent = waiting.popleft()
        for char, node in parent.next.items():
            node.shorter = _shorter(parent, char, root)
            node.stop = node.stop or node.shorter.stop
            waiting.append(node)
    return root


def _insert(root: _Node, stop: str) -> None:
    node = root
    for char in stop:
        node = node.next.setdefault(char, _Node(node.depth + 1))
    node.stop = stop


def _shorter(parent: _Node, char: str, root: _Node) -> _Node:
    if parent is root:
        return root
    node = parent.shorter
    while char not in node.next and node is not root:
        node = node.shorter
    return node.next.get(char, root)
