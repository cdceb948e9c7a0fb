"""From stored messages to what the model is asked, and to what is shown. Pure functions; knows no store and no Qt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from desktop.chat.view.message_model import ChatItem, ItemState
from desktop.store.records import MessageRecord, MessageState, Receipt
from runtime.messages import Conversation, Message, Role
from runtime.protocol import EngineInfo, Finished, FinishReason, Usage

_TITLE_LENGTH = 60
_SHOWN_AS = {
    MessageState.DONE: ItemState.COMPLETE,
    MessageState.WRITING: ItemState.STREAMING,
    MessageState.STOPPED: ItemState.STOPPED,
    MessageState.INTERRUPTED: ItemState.STOPPED,
    MessageState.CUT_LENGTH: ItemState.CUT_LENGTH,
    MessageState.CUT_CONTEXT: ItemState.CUT_CONTEXT,
    MessageState.FAILED: ItemState.FAILED,
}
_ENDED_AS = {
    FinishReason.END: MessageState.DONE,
    FinishReason.STOP_TEXT: MessageState.DONE,
    FinishReason.LENGTH: MessageState.CUT_LENGTH,
    FinishReason.CONTEXT: MessageState.CUT_CONTEXT,
    FinishReason.STOPPED: MessageState.STOPPED,
    FinishReason.GRAMMAR: MessageState.DONE,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the model is asked, and of which places in the branch each message was made; none for the instructions."""

    messages: Conversation
    sources: tuple[tuple[int, ...], ...]
    pinned: tuple[int, ...] = ()

    def places(self, positions: Collection[int]) -> tuple[int, ...]:
        """Returns the places in the branch that messages of the request come from."""
        return tuple(place for at in sorted(positions) for place in self.sources[at])


def asked(system_prompt: str, branch: Sequence[MessageRecord]) -> Asked:
    """Returns what the model is asked: the instructions, then the branch without answers that stayed empty.

    Two questions in a row (the first was never answered) become one turn: many templates insist on taking turns.
    """
    turns: list[Message] = [Message(Role.SYSTEM, system_prompt)] if system_prompt.strip() else []
    sources: list[tuple[int, ...]] = [() for _turn in turns]
    for place, record in enumerate(branch):
        if not record.content:
            continue
        if turns and turns[-1].role is record.role:
            turns[-1] = Message(record.role, f"{turns[-1].content}\n\n{record.content}")
            sources[-1] = (*sources[-1], place)
        else:
            turns.append(Message(record.role, record.content))
            sources.append((place,))
    pinned = tuple(at for at, places in enumerate(sources) if any(branch[place].pinned for place in places))
    return Asked(tuple(turns), tuple(sources), pinned)


def ranges(places: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Returns numbers as ranges, each from its first to behind its last: that is short for what is left out."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return tuple(found)


def title_from(text: str) -> str:
    """Returns a title for a chat: the first line of its first message, cut at a word."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    if len(line) <= _TITLE_LENGTH:
        return line
    cut = line[: _TITLE_LENGTH - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut) + "…"


def state_of(reason: FinishReason) -> MessageState:
    """Returns how an answer is stored that ended for this reason."""
    return _ENDED_AS[reason]


def receipt_of(
    finished: Finished, info: EngineInfo | None, sampling: dict[str, object], *, dropped: int,
    left_out: Collection[int] = (),
) -> Receipt:  # fmt: skip
    """Returns how an answer was made; `left_out` are the places in its branch that its prompt did not hold."""
    return Receipt(
        reason=finished.reason.value,
        usage=msgspec.to_builtins(finished.usage),
        seed=finished.seed,
        sampling=sampling,
        engine=info.engine if info else "",
        build=info.build if info else "",
        model_path=info.path if info else "",
        dropped=dropped,
        left_out=ranges(left_out),
    )


def item_of(record: MessageRecord) -> ChatItem:
    """Returns a stored message as it is shown."""
    speed, seconds, thought = costs(record.receipt)
    return ChatItem(
        id=record.id,
        role=record.role,
        text=record.content,
        state=item_state(record.state),
        error=record.error,
        speed=speed,
        seconds=seconds,
        model_name=record.model,
        version=record.version,
        versions=record.versions,
        pinned=record.pinned,
        thought_seconds=thought,
    )


def item_state(state: MessageState) -> ItemState:
    """Returns how a stored state is shown."""
    return _SHOWN_AS[state]


def costs(receipt: Receipt | None) -> tuple[float, float, float]:
    """Returns an answer's tokens a second, its seconds, and those of them spent on thinking; 0 where not known."""
    usage = _usage(receipt)
    if usage is None:
        return 0.0, 0.0, 0.0
    speed = usage.generation_speed
    return speed, usage.prompt_seconds + usage.generation_seconds, usage.reasoning_tokens / speed if speed else 0.0


def _usage(receipt: Receipt | None) -> Usage | None:
    try:
        return msgspec.convert(receipt.usage, Usage) if receipt is not None and receipt.usage else None
    except msgspec.ValidationError:  # stored by another version
        return None
