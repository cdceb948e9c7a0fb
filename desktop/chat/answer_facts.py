"""What is told of an answer that was made: model, settings, seed, cost, in rows of words. Knows no widget."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from desktop.chat.plain_text import one_line
from desktop.human import duration, whole_number
from desktop.settings.widgets import shown_value
from desktop.store.records import MessageRecord, Receipt
from runtime.params import SamplingParams
from runtime.places import path_of
from runtime.protocol import Difference, Replayed, Usage
from runtime.settings import field_of
from runtime.text import _, ngettext

_LONGEST = 120


def rows_of(record: MessageRecord) -> list[tuple[str, str]]:
    """Returns what is known of an answer; nothing where it has no receipt."""
    receipt = record.receipt
    if receipt is None:
        return []
    usage = _usage(receipt)
    rows = [
        (_("Model"), record.model),
        (_("File"), _file(receipt.model_path)),
        (_("Engine"), " ".join(filter(None, (receipt.engine, receipt.build.split("·")[0].strip())))),
        (_("Seed"), str(receipt.seed)),
        (_("Settings"), "; ".join(_settings(receipt.sampling)) or _("all as they are by default")),
        *(_costs(usage) if usage is not None else []),
        (_("Left out"), _dropped(receipt.dropped) if receipt.dropped else ""),
    ]  # fmt: skip
    return [(title, one_line(text, limit=400)) for title, text in rows if text]


def as_text(rows: list[tuple[str, str]]) -> str:
    """Returns rows as lines to copy."""
    return "\n".join(_("{title}: {text}").format(title=title, text=text) for title, text in rows)


def comparison(replayed: Replayed) -> tuple[str, str]:
    """Returns what came of making an answer again, in a sentence, and the colour that it deserves."""
    if replayed.difference is None:
        words = ngettext("The same {n} token came out.", "The same {n} tokens came out.", replayed.tokens)
        return words.format(n=whole_number(replayed.tokens)), "good"
    return _departure(replayed.difference), "caution"


def _departure(difference: Difference) -> str:
    words = _("It departs after {n} equal tokens: then came “{found}” in place of “{expected}”.")
    return words.format(
        n=whole_number(difference.tokens), found=one_line(difference.found, limit=_LONGEST) or _("the end"),
        expected=one_line(difference.expected, limit=_LONGEST) or _("the end"),
    )  # fmt: skip


def _usage(receipt: Receipt) -> Usage | None:
    try:
        return msgspec.convert(receipt.usage, Usage) if receipt.usage else None
    except msgspec.ValidationError:  # stored by another version
        return None


def _file(spelled: str) -> str:
    return str(Path(path_of(spelled)).name) if spelled else ""


def _settings(sampling: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in sampling.items():
        try:
            declared = field_of(SamplingParams, name)
        except KeyError:  # another version's
            continue
        words.append(_("{title}: {text}").format(title=_(declared.setting.title), text=shown_value(declared, value)))
    return words


def _costs(usage: Usage) -> list[tuple[str, str]]:
    read = _("{n} tokens, {reused} of them known from before")
    written = _("{n} tokens at {speed} per second")
    return [
        (_("Prompt"), read.format(n=whole_number(usage.prompt_tokens), reused=whole_number(usage.cached_tokens))),
        (_("Read again because"), usage.reuse_note),
        (_("Answer"), written.format(n=whole_number(usage.generated_tokens), speed=f"{usage.generation_speed:.0f}")),
        (_("Time"), duration(usage.prompt_seconds + usage.generation_seconds)),
        (_("Context"), _("{used} of {length} tokens").format(
            used=whole_number(usage.context_used), length=whole_number(usage.context_length))),
    ]  # fmt: skip


def _dropped(count: int) -> str:
    words = ngettext("{n} message no longer fitted", "{n} messages no longer fitted", count)
    return words.format(n=whole_number(count))
