"""What a conversation takes of the context, message by message. Pure functions; knows no template and no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from runtime.messages import Message
from runtime.prompt_ids import MARKS, Run
from runtime.protocol import ContextMeasured, GenerationRequest
from runtime.trimming import held_by_pins, leading, left_out, possible_cuts


def kept_of(turns: Sequence[Message], dropped: Sequence[int]) -> list[int]:
    """Returns the positions that are not left out."""
    gone = frozenset(dropped)
    return [at for at in range(len(turns)) if at not in gone]


def measured(
    request: GenerationRequest, runs: Sequence[Run], dropped: tuple[int, ...], *, cached: int,
    length_of: Callable[[str], int], context_length: int, reserve: int,
) -> ContextMeasured:  # fmt: skip
    """Returns the measures of a prompt whose tokens are these `runs`, counted over the messages that are kept.

    The first `cached` of them need not be read again; `length_of` counts the tokens of a text that is left out.
    """
    turns = request.messages
    kept = kept_of(turns, dropped)
    tokens, reused, marks = _shares(runs, kept, cached)
    tokens |= {at: length_of(turns[at].content) for at in dropped}
    held = held_by_pins(turns, request.pinned)
    total = sum(run.tokens for run in runs)
    leaves_out = request.sampling.context_policy != "stop"
    shifts = request.sampling.context_policy == "shift"
    return ContextMeasured(
        id=0, tokens=tuple(tokens.get(at, 0) for at in range(len(turns))),
        reused=tuple(reused.get(at, 0) for at in range(len(turns))), marks=marks, total=total, cached=cached,
        reserve=reserve, context_length=context_length, dropped=dropped,
        next=_next_out(turns, held, dropped, tokens, over=total - context_length // 2) if leaves_out else (),
        held=tuple(sorted(held)), loose=tuple(sorted(held.difference(leading(turns, kept, held)))) if shifts else (),
    )  # fmt: skip


def _next_out(
    turns: Sequence[Message], held: Collection[int], dropped: Sequence[int], tokens: Mapping[int, int], *, over: int
) -> tuple[int, ...]:
    """Returns what goes when the conversation next outgrows its room: `over` tokens, and at least one exchange."""
    gone = frozenset(dropped)
    found: list[int] = []
    freed = 0
    for start, end in pairwise(possible_cuts(turns)):
        free = [at for at in left_out(turns, end, held, first=start) if at not in gone]
        found += free
        freed += sum(tokens.get(at, 0) for at in free)
        if found and freed >= over:
            break
    return tuple(found)


def _shares(runs: Sequence[Run], kept: Sequence[int], cached: int) -> tuple[dict[int, int], dict[int, int], int]:
    """Returns the tokens of each kept message, those of them among the first `cached`, and the template's tokens."""
    tokens: dict[int, int] = {}
    reused: dict[int, int] = {}
    marks = at = 0
    for run in runs:
        if run.owner == MARKS:
            marks += run.tokens
        else:
            position = kept[run.owner]
            tokens[position] = tokens.get(position, 0) + run.tokens
            reused[position] = reused.get(position, 0) + max(min(cached - at, run.tokens), 0)
        at += run.tokens
    return tokens, reused, marks
