"""Which messages may be left out when a conversation outgrows its context. Knows no tokens and no templates.

A conversation is cut at a message of the person, so that question and answer alternate behind the cut as before it.
Pinned messages before the cut stay, each with its whole exchange: the question, and all that was said until the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from runtime.messages import Message, Role


def possible_cuts(turns: Sequence[Message]) -> list[int]:
    """Returns where a conversation may begin: at its start, or at any message of the person, the last one included."""
    return [0, *(at for at, turn in enumerate(turns) if at and turn.role is Role.USER)]


def held_by_pins(turns: Sequence[Message], pinned: Collection[int]) -> frozenset[int]:
    """Returns the positions that stay because they, or others of their exchange, are pinned."""
    if not pinned:
        return frozenset()
    held: set[int] = set()
    for start, end in pairwise([*possible_cuts(turns), len(turns)]):
        if any(at in pinned for at in range(start, end)):
            held.update(at for at in range(start, end) if turns[at].role is not Role.SYSTEM)
    return frozenset(held)


def left_out(turns: Sequence[Message], upto: int, held: Collection[int], *, first: int = 0) -> tuple[int, ...]:
    """Returns what a cut at `upto` leaves out, from `first` on: whatever is neither a system prompt nor held."""
    return tuple(at for at in range(first, upto) if turns[at].role is not Role.SYSTEM and at not in held)


def leading(turns: Sequence[Message], kept: Sequence[int], held: Collection[int]) -> tuple[int, ...]:
    """Returns the kept positions at the beginning of a prompt that have to stay: system prompts, then held turns."""
    found = []
    for at in kept:
        if turns[at].role is not Role.SYSTEM and at not in held:
            break
        found.append(at)
    return tuple(found)
