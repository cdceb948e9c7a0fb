"""`quern bench`: how fast a model reads and writes, measured through an engine process as the window uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from desktop.cli import output
from desktop.cli.answer import loaded_words
from desktop.cli.commands import Command, Option, UsageProblem, json_option
from desktop.cli.layout import columns
from desktop.cli.options import Settings, combinations, compared_options, model_argument, shown_value
from runtime import bench as measuring
from runtime.bench import BenchResult, Comparison, NotMeasured, Spread, Variant
from runtime.errors import UserError
from runtime.params import LoadParams
from runtime.settings import field_of
from runtime.text import _, sentences

_MOST = 64  # combinations in one run


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "bench",
        callback=bench,
        help="\n".join((
            _("Measures how fast a model reads and writes."),
            _("After a warm-up, each repetition reads random tokens into an empty cache and then writes some with the "
              "default sampling. The median, the slowest and the fastest repetition are shown."),
            _("Settings of loading may have several values with commas between; on-off flags may be given both ways. "
              "Then every combination is measured in turn, and compared with the first."),
        )),
        examples=(
            "quern bench", "quern bench ~/models/model.gguf -p 256 -n 64 -r 3 --threads 4 --json",
            "quern bench starter --kv-type-k q8_0,f16 --flash-attention on,off", "quern bench starter --mmap on,off",
        ),
        params=[
            model_argument(),
            _number("-p", "--prompt", 512, 100_000, _("How many tokens are read.")),
            _number("-n", "--generate", 128, 100_000, _("How many tokens are written."), least=2),
            _number("-r", "--repetitions", 5, 1000, _("How often each is measured.")),
            json_option(),
            *compared_options(LoadParams),
        ],
    )  # fmt: skip


def _number(short: str, long: str, default: int, most: int, what: str, *, least: int = 1) -> Option:
    text = _("{what} Default: {default}.").format(what=what, default=default)
    return Option(short, long, type=click.IntRange(least, most), default=default, metavar="N", help=text)


def bench(
    model: str | None, prompt: int, generate: int, repetitions: int, as_json: bool, **flags: Any
) -> None:
    """Runs the command."""
    from runtime.library import resolve

    chosen = combinations(LoadParams, flags)
    if len(chosen) > _MOST:
        raise UsageProblem(_("These are {n} combinations of settings; at most {most} can be compared.").format(
            n=len(chosen), most=_MOST), "", _("Leave some values out."))  # fmt: skip
    settings = Settings.read()
    found = resolve(settings.app.model if model is None else model)
    status = output.StatusLine()
    total = repetitions * len(chosen)

    def progress(done: int) -> None:
        status.show(_("Measuring: {done} of {total}").format(done=done, total=total))

    amounts: dict[str, Any] = {
        "prompt": prompt, "generate": generate, "repetitions": repetitions, "progress": progress
    }  # fmt: skip
    progress(0)
    try:
        if len(chosen) == 1:
            result: BenchResult | Comparison = measuring.run(
                found.path, settings.load(found.key, chosen[0]), **amounts)  # fmt: skip
        else:
            result = _compared(found, settings, chosen, amounts)
    finally:
        status.clear()
    if as_json:
        output.write_json(result)
    elif isinstance(result, Comparison):
        _show_comparison(result)
    else:
        _show(result)


def _compared(found: Any, settings: Settings, chosen: Sequence[dict[str, Any]], amounts: dict[str, Any]) -> Comparison:
    """Measures what the rules between settings allow; what they exclude is among what was not measured.

    Raises the first reason where nothing could be measured.
    """
    varying = [name for name in chosen[0] if len({each[name] for each in chosen}) > 1]
    variants, excluded = [], []
    for each in chosen:
        differing = {name: each[name] for name in varying}
        try:
            variants.append(Variant(differing, settings.load(found.key, each)))
        except UserError as error:
            excluded.append(NotMeasured(settings=differing, reason=error.info))
    result = measuring.compare(found.path, variants, **amounts)
    result = measuring.with_excluded(result, excluded)
    if not result.compared:
        raise UserError.from_info(result.not_measured[0].reason)
    return result


def _show(result: BenchResult) -> None:
    output.say(loaded_words(result.model))
    for label, spread in (
        (_("Reading {count} tokens").format(count=result.prompt_tokens), result.prompt_tokens_per_second),
        (_("Writing {count} tokens").format(count=result.generated_tokens), result.generation_tokens_per_second),
    ):
        numbers = _("{median:.1f} tokens/s (slowest {min:.1f}, fastest {max:.1f})")
        spread_words = numbers.format(median=spread.median, min=spread.min, max=spread.max)
        output.write_line(_("{title}: {text}").format(title=label, text=spread_words))
    if result.model.speculation != "off":
        words = _("Speculation: {accepted} of {drafted} guesses came true, in {count} tokens")
        total = result.generated_tokens * result.repetitions
        output.write_line(words.format(
            accepted=f"{result.accepted_tokens:,}", drafted=f"{result.drafted_tokens:,}", count=f"{total:,}"
        ))  # fmt: skip


def _show_comparison(result: Comparison) -> None:
    names = list(result.compared[0].settings)
    reading = _("Reading {count} tokens").format(count=result.prompt_tokens)
    writing = _("Writing {count} tokens").format(count=result.generated_tokens)
    rows = [[*(field_of(LoadParams, name).flag for name in names), reading, "×", writing, "×"]]
    for each in result.compared:
        rows.append([
            *_values(each.settings),
            _speed(each.prompt_tokens_per_second), f"{each.prompt_ratio:.2f}",
            _speed(each.generation_tokens_per_second), f"{each.generation_ratio:.2f}",
        ])  # fmt: skip
    for line in columns(rows, right=range(len(names), len(names) + 4)):
        output.write_line(line)
    output.say(_("Tokens per second: the median, with the slowest and the fastest repetition; × compares with the "
                 "first line, round by round."))  # fmt: skip
    for each in result.compared:
        for note in each.model.notes:
            output.say(_("{title}: {text}").format(title=_typed(each.settings), text=note))
    for missing in result.not_measured:
        reason = sentences(missing.reason.title, missing.reason.message)
        output.say(_("Not measured: {settings}. {reason}").format(settings=_typed(missing.settings), reason=reason))


def _values(settings: dict[str, Any]) -> list[str]:
    return [shown_value(field_of(LoadParams, name), value) for name, value in settings.items()]


def _typed(settings: dict[str, Any]) -> str:
    """Returns settings as they would be typed."""
    values = zip(settings, _values(settings), strict=True)
    return " ".join(f"{field_of(LoadParams, name).flag} {value}" for name, value in values)


def _speed(spread: Spread) -> str:
    return f"{spread.median:.1f} ({spread.min:.1f}–{spread.max:.1f})"
