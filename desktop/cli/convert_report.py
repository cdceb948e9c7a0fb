"""What `quern convert` says of its events: the plan, the trials, the result and the quality card. Runs nothing."""

from __future__ import annotations

from typing import Any

from desktop.cli import output
from desktop.cli.layout import harmless
from runtime.text import _, ngettext


def tell(event: Any) -> None:
    """Writes what an event says."""
    from convert.auto import Tried
    from convert.preflight import Planned
    from convert.values import ValuesChecked

    if isinstance(event, Planned):
        _tell_plan(event)
    elif isinstance(event, ValuesChecked):
        _tell_values(event)
    elif isinstance(event, Tried):
        _tell_trial(event)
    else:
        _tell_result(event)


def _tell_plan(planned: Any) -> None:
    types = ", ".join(f"{kind} {count}" for kind, count in planned.types.items())
    rows = (
        (_("Type"), planned.type),
        (_("Size"), _("{size:,.1f} MB, from {source:,.1f} MB").format(
            size=planned.size_bytes / 1e6, source=planned.source_bytes / 1e6)),
        (_("Files"), str(planned.files) if planned.files > 1 else ""),
        (_("Bits per weight"), f"{planned.bits_per_weight:.2f}"),
        (_("Architecture"), planned.architecture),
        (_("Tokenizer"), planned.tokenizer),
        (_("Chat template"), _("yes") if planned.chat_template else _("none")),
        (_("Tensors"), _("{count} ({types})").format(count=planned.n_tensors, types=types)),
        (_("Disk"), _free_words(planned.disk_needed, planned.disk_free)),
        (_("Memory"), _free_words(planned.memory_needed, planned.memory_free)),
    )  # fmt: skip
    for title, words in rows:
        if words:
            output.write_line(_("{title}: {text}").format(title=title, text=harmless(words)))
    for note in planned.notes:
        output.remark(note)


def _tell_values(checked: Any) -> None:
    words = ngettext(
        "{count} number, which fits its type", "{count} numbers, which all fit their types", checked.values
    ).format(count=f"{checked.values:,}")
    output.write_line(_("{title}: {text}").format(title=_("Values"), text=words))


def _free_words(needed: int, free: int) -> str:
    return _("{needed:,.0f} MB needed, {free:,.0f} MB free").format(needed=needed / 1e6, free=free / 1e6)


def _tell_trial(tried: Any) -> None:
    line = _("{type}: {size:,.1f} MB, mean KL divergence {kl:.5f}, same likeliest token {percent:.1f} %")
    output.write_line(line.format(
        type=tried.type, size=tried.size_bytes / 1e6, kl=tried.kl, percent=100 * tried.top1_agreement))  # fmt: skip


def _tell_result(converted: Any) -> None:
    if converted.verified is not None:
        _tell_verified(converted.verified)
    if converted.card is not None:
        for title, words in card_rows(converted.card):
            output.write_line(_("{title}: {text}").format(title=title, text=words))
    for note in converted.notes:
        output.remark(note)
    output.write_line(_("Written: {path}, in {seconds:.1f} s.").format(
        path=harmless(converted.target), seconds=converted.seconds))  # fmt: skip


def _tell_verified(verified: Any) -> None:
    worst = verified.worst
    words = ngettext(
        "{count} tensor; furthest from the source is {name}, by {percent:.2g} % of its size",
        "all {count} tensors; furthest from the source is {name}, by {percent:.2g} % of its size",
        len(verified.tensors),
    )
    text = words.format(count=len(verified.tensors), name=harmless(worst.name), percent=100 * worst.share)
    output.write_line(_("{title}: {text}").format(title=_("Verified"), text=text))
    if verified.logits is not None:
        words = _("llama.cpp's differ from our own engine's on the source by {percent:.2g} % of their spread")
        text = words.format(percent=100 * verified.logits)
        output.write_line(_("{title}: {text}").format(title=_("Predictions"), text=text))


def card_rows(card: Any) -> list[tuple[str, str]]:
    """Returns a quality card's figures as (title, words)."""
    quality = card.quality
    against = ngettext("{name}, over {count} token", "{name}, over {count} tokens", quality.tokens)
    return [
        (_("Quality against"), against.format(name=harmless(card.reference), count=f"{quality.tokens:,}")),
        (_("KL divergence"), _("mean {mean:.5f}, median {median:.5f}, 99 % below {p99:.4f}, at most {max:.3f}").format(
            mean=quality.kl.mean, median=quality.kl.median, p99=quality.kl.p99, max=quality.kl.max)),
        (_("Same likeliest token"), _("{percent:.2f} %").format(percent=100 * quality.top1_agreement)),
        (_("Perplexity"), _("{candidate:.4f} instead of {reference:.4f} ({change:+.2f} %)").format(
            candidate=quality.perplexity.candidate, reference=quality.perplexity.reference,
            change=100 * (quality.perplexity.ratio - 1))),
        (_("Speed where it was made"), _("reads {reading:,.0f} and writes {writing:,.0f} tokens a second").format(
            reading=card.prompt_tokens_per_second, writing=card.generation_tokens_per_second)),
    ]  # fmt: skip
