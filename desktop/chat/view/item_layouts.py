"""The layouts of a conversation's messages, each made when it is first asked for. Knows no place on the screen.

A chat of thousands of messages is opened with the few that are looked at; of the others only the height is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from desktop.chat.view.item_layout import ItemLayout, guessed_heights
from desktop.chat.view.message_model import ChatItem
from desktop.chat.view.style import TextStyle


class ItemLayouts(Sequence[ItemLayout]):
    """Has as many entries as the conversation has messages. `make` makes the layout of one, told its row."""

    def __init__(self, make: Callable[[ChatItem, int], ItemLayout]) -> None:
        self._make = make
        self._items: list[ChatItem] = []
        self._guesses: list[float] = []
        self._made: list[ItemLayout | None] = []

    def reset(
        self, items: Sequence[ChatItem], style: TextStyle, width: float, *, unfolded: Collection[str] = ()
    ) -> None:  # fmt: skip
        """Takes other messages, none of them laid out; `unfolded` are those of which more than the answer is shown."""
        self._items, self._made = list(items), [None] * len(items)
        self._guess(style, width, unfolded)

    def relay(self, style: TextStyle, width: float, *, unfolded: Collection[str] = ()) -> None:
        """Lays out anew, for another style or width, what is laid out, and guesses the other heights again."""
        for layout in filter(None, self._made):
            layout.relay(style, width)
        self._guess(style, width, unfolded)

    def _guess(self, style: TextStyle, width: float, unfolded: Collection[str]) -> None:
        self._guesses = guessed_heights(self._items, style, width, unfolded=unfolded)
        for row, guess in enumerate(self._guesses):
            if guess < 0:  # what it takes is only known once it is made
                self[row]

    def heights(self, first: int) -> Iterator[float]:
        """Yields the heights of all messages from a row on."""
        for layout, guess in zip(self._made[first:], self._guesses[first:], strict=True):
            yield guess if layout is None else layout.height

    def insert(self, row: int, item: ChatItem) -> None:
        """Adds a message."""
        self._items.insert(row, item)
        self._guesses.insert(row, 0.0)
        self._made.insert(row, None)
        self[row]

    def remove_from(self, row: int) -> None:
        """Forgets a message and all that follow."""
        del self._items[row:], self._guesses[row:], self._made[row:]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, row: int) -> ItemLayout:  # type: ignore[override]
        made = self._made[row]
        if made is None:
            made = self._made[row] = self._make(self._items[row], row % len(self._items))
        return made
