"""`quern bench`: how fast a model reads and writes, measured through an engine process as the window uses it."""

from __future__ import annotations

from typing import Any

import click

from desktop.cli import output
from desktop.cli.answer import loaded_words
from desktop.cli.commands import Command, Option, json_option
from desktop.cli.loading import wanted
from desktop.cli.options import model_argument, setting_options
from runtime import bench as measuring
from runtime.params import LoadParams
from runtime.text import _


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "bench",
        callback=bench,
        help="\n".join((
            _("Measures how fast a model reads and writes."),
            _("After a warm-up, each repetition reads random tokens into an empty cache and then writes some with the "
              "default sampling. The median, the slowest and the fastest repetition are shown."),
        )),
        examples=("quern bench", "quern bench ~/models/model.gguf -p 256 -n 64 -r 3 --threads 4 --json"),
        params=[
            model_argument(),
            _number("-p", "--prompt", 512, 100_000, _("How many tokens are read.")),
            _number("-n", "--generate", 128, 100_000, _("How many tokens are written."), least=2),
            _number("-r", "--repetitions", 5, 1000, _("How often each is measured.")),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def _number(short: str, long: str, default: int, most: int, what: str, *, least: int = 1) -> Option:
    text = _("{what} Default: {default}.").format(what=what, default=default)
    return Option(short, long, type=click.IntRange(least, most), default=default, metavar="N", help=text)


def bench(
    model: str | None, prompt: int, generate: int, repetitions: int, as_json: bool, **flags: Any
) -> None:
    """Runs the command."""
    what = wanted(model, flags)
    status = output.StatusLine()

    def progress(done: int) -> None:
        status.show(_("Measuring: {done} of {total}").format(done=done, total=repetitions))

    progress(0)
    try:
        result = measuring.run(
            what.path, what.load, prompt=prompt, generate=generate, repetitions=repetitions, progress=progress
        )
    finally:
        status.clear()
    if as_json:
        output.write_json(result)
    else:
        _show(result)


def _show(result: measuring.BenchResult) -> None:
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
