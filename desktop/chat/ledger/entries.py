"""From an engine's measures to what is told of the context: entries, sums, sentences. Knows no widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from desktop.chat.conversation import Asked
from desktop.chat.plain_text import one_line
from desktop.human import whole_number
from desktop.store.records import MessageRecord
from runtime.errors import ErrorInfo
from runtime.messages import Role
from runtime.protocol import ContextMeasured
from runtime.text import N_, _, ngettext

_EXCERPT = 120  # characters in a row of the list
_PREVIEW = 600


class Kind(StrEnum):
    """What takes up the context."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DRAFT = "draft"
    MARKS = "marks"
    RESERVE = "reserve"
    FREE = "free"


KIND_WORDS = {
    Kind.SYSTEM: N_("System prompt"), Kind.USER: N_("Your messages"), Kind.ASSISTANT: N_("Answers"),
    Kind.TOOL: N_("Tools"), Kind.DRAFT: N_("What you are writing"), Kind.MARKS: N_("Marks of the chat template"),
    Kind.RESERVE: N_("Kept free for the answer"), Kind.FREE: N_("Free"),
}  # fmt: skip
_KINDS = {Role.SYSTEM: Kind.SYSTEM, Role.USER: Kind.USER, Role.ASSISTANT: Kind.ASSISTANT, Role.TOOL: Kind.TOOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message in the context, or left out of it. `id` is empty for what is no stored message."""

    kind: Kind
    author: str
    text: str
    tokens: int
    reused: int = 0
    id: str = ""
    pinned: bool = False
    held: bool = False  # it stays because another message of its exchange is pinned
    loose: bool = False  # it stays, and may yet roll out while an answer is written
    left_out: bool = False
    next: bool = False  # it goes when there is no more room
    missed: bool = False  # the last answer was written without it

    @property
    def excerpt(self) -> str:
        """The beginning of the text on one line."""
        return one_line(self.text[: 4 * _EXCERPT], limit=_EXCERPT)

    @property
    def preview(self) -> str:
        """The beginning of the text as it was written."""
        whole = self.text.strip()
        return whole if len(whole) <= _PREVIEW else whole[: _PREVIEW - 1] + "…"

    @property
    def standing(self) -> str:
        """What becomes of it, in words; empty where that is nothing special."""
        if self.left_out:
            return _("left out")
        if self.loose:
            return _("pinned, but it may roll out")
        if self.pinned:
            return _("pinned")
        if self.held:
            return _("stays with a pinned message")
        if self.next:
            return _("goes next")
        if self.kind is Kind.DRAFT:
            return _("not sent yet")
        return _("missing in the last prompt") if self.missed else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What fills the context, and what its policy does about it."""

    entries: tuple[Entry, ...] = ()
    marks: int = 0
    total: int = 0
    cached: int = 0
    reserve: int = 0
    context_length: int = 0
    policy: str = "drop_turns"
    error: ErrorInfo | None = None

    @property
    def free(self) -> int:
        """Tokens for further messages, the answer's share apart."""
        return max(self.context_length - self.total - self.reserve, 0)

    @property
    def left_out(self) -> int:
        """How many messages are left out of the next prompt."""
        return sum(entry.left_out for entry in self.entries)

    @property
    def sums(self) -> tuple[tuple[Kind, int], ...]:
        """Every kind that takes up something, in the order of the prompt, and its tokens."""
        found = dict.fromkeys((Kind.SYSTEM, Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.DRAFT), 0)
        for entry in self.entries:
            found[entry.kind] += 0 if entry.left_out else entry.tokens
        found |= {Kind.MARKS: self.marks, Kind.RESERVE: self.reserve, Kind.FREE: self.free}
        return tuple((kind, tokens) for kind, tokens in found.items() if tokens)


def ledger_of(
    measured: ContextMeasured, asked: Asked, branch: Sequence[MessageRecord], *, policy: str, drafted: bool = False
) -> Ledger:
    """Returns the ledger of a request that was measured; with `drafted`, its last message is not sent yet."""
    held, loose, gone, following = map(frozenset, (measured.held, measured.loose, measured.dropped, measured.next))
    missed = frozenset(missed_places(branch))
    names = {Role.USER: _("You"), Role.SYSTEM: _("System prompt"), Role.ASSISTANT: _("Model"), Role.TOOL: _("Tool")}
    entries = []
    for at, (message, places, tokens) in enumerate(zip(asked.messages, asked.sources, measured.tokens, strict=False)):
        records = [branch[place] for place in places]
        is_draft = drafted and at == len(asked.messages) - 1
        entries.append(Entry(
            kind=Kind.DRAFT if is_draft else _KINDS[message.role],
            author=(records[-1].model if records else "") or names[message.role],
            text=message.content, tokens=tokens, reused=measured.reused[at],
            id=records[-1].id if records else "", pinned=any(record.pinned for record in records),
            held=at in held, loose=at in loose, left_out=at in gone, next=at in following,
            missed=bool(places) and missed.issuperset(places),
        ))  # fmt: skip
    return Ledger(
        entries=tuple(entries), marks=measured.marks, total=measured.total, cached=measured.cached,
        reserve=measured.reserve, context_length=measured.context_length, policy=policy, error=measured.error,
    )  # fmt: skip


def missed_places(branch: Sequence[MessageRecord]) -> tuple[int, ...]:
    """Returns the places in a branch that the prompt of its last answer did not hold."""
    last = next((record.receipt for record in reversed(branch) if record.receipt is not None), None)
    return tuple(place for first, end in (last.left_out if last is not None else ()) for place in range(first, end))


def usage_sentence(ledger: Ledger) -> str:
    """Returns how full the context is."""
    sentence = _("{used} of {room} tokens")
    return sentence.format(used=whole_number(ledger.total), room=whole_number(ledger.context_length))


def reuse_sentence(ledger: Ledger) -> str:
    """Returns what of the prompt the model has read already, and what is left to read."""
    if not ledger.cached:
        return _("Nothing of it has been read yet.")
    sentence = _("{cached} are read already; {rest} will be read for the next answer.")
    return sentence.format(cached=whole_number(ledger.cached), rest=whole_number(ledger.total - ledger.cached))


def policy_sentences(ledger: Ledger) -> str:
    """Returns what happens when there is no more room, and what becomes of pinned messages then."""
    words = {
        "drop_turns": _("When it is full, the oldest turns are left out of the prompt. They stay in the chat."),
        "shift": _("When it is full, the oldest turns are left out of the prompt; while an answer is written, the "
                   "oldest tokens behind the system prompt roll out as well."),
        "stop": _("When it is full, nothing is left out: the next message is refused."),
    }  # fmt: skip
    parts = [words.get(ledger.policy, "")]
    if any(entry.loose for entry in ledger.entries):
        parts.append(_("Pinned messages with others before them can roll out while an answer is written; the next "
                       "prompt holds them again."))  # fmt: skip
    elif ledger.policy != "stop" and any(entry.pinned for entry in ledger.entries):
        parts.append(_("Pinned messages stay, each with its question and answer."))
    if missed := sum(entry.missed for entry in ledger.entries):
        left = ngettext("The last answer was written without {n} message.",
                        "The last answer was written without {n} messages.", missed)  # fmt: skip
        parts.append(left.format(n=whole_number(missed)))
    return " ".join(filter(None, parts))


def entry_sentence(entry: Entry) -> str:
    """Returns what is told of an entry beside its text."""
    tokens = ngettext("{n} token", "{n} tokens", entry.tokens).format(n=whole_number(entry.tokens))
    read = _("{n} read already").format(n=whole_number(entry.reused)) if entry.reused else ""
    return " · ".join(filter(None, (entry.author, tokens, read, entry.standing)))
