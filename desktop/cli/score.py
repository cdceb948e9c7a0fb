"""`quern score`: how likely a model finds a text, token by token."""

from __future__ import annotations

from typing import Any

import click

from desktop.cli import output
from desktop.cli.commands import Command, FileName, ModelArgument, Option, json_option
from desktop.cli.loading import opened, wanted
from desktop.cli.options import setting_options
from desktop.cli.reading import read
from desktop.cli.texts import text_of
from runtime.params import LoadParams
from runtime.reading import Scored
from runtime.text import _, ngettext


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "score",
        callback=score,
        help="\n".join((
            _("Shows how likely a model finds a text: its perplexity, and with --json the natural logarithm of each "
              "token's probability given the text before it."),
            _("The first token is scored only where the model puts a begin mark before a text. A text longer than the "
              "context is read in overlapping windows, each token with at least half a context of text before it."),
        )),
        examples=(
            "quern score starter --text letter.txt",
            "quern score ~/models/model.gguf --text - --json --context-length 2048 < letter.txt",
        ),
        params=[
            ModelArgument(["model"], metavar="MODEL"),
            Option("--text", metavar="FILE", type=FileName(), required=True,
                   help=_("The text file; “-” reads the input.")),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def score(model: str, text: str, as_json: bool, **flags: Any) -> None:
    """Runs the command."""
    what = wanted(model, flags)
    content = text_of(text)
    with opened(what) as held:
        result = read(lambda stop: held.score(content, stop))
        context_length = held.info.context_length
    if as_json:
        output.write_json(_as_json(result))
    else:
        _show(result, context_length)


def _as_json(result: Scored) -> dict[str, Any]:
    return {
        "perplexity": result.perplexity, "tokens": result.tokens, "logprobs": result.logprobs, "ids": result.ids,
        "begin_mark": result.begin_mark, "windows": result.windows, "stride": result.stride,
    }  # fmt: skip


def _show(result: Scored, context_length: int) -> None:
    tokens = ngettext("{count} token", "{count} tokens", result.tokens).format(count=f"{result.tokens:,}")
    words = _("Perplexity: {perplexity:.4f} over {tokens}")
    output.write_line(words.format(perplexity=result.perplexity, tokens=tokens))
    if not result.begin_mark:
        output.remark(_("The first token is not counted: this model puts no begin mark before a text."))
    if result.windows > 1:
        output.remark(
            _("The text is longer than the context of {length} tokens and was read in {count} windows; after the first "
              "one, each token had at least {stride} tokens of text before it.").format(
                length=f"{context_length:,}", count=f"{result.windows:,}", stride=f"{result.stride:,}")
        )  # fmt: skip
