"""`quern embed`: vectors of texts, and how near the texts are to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from desktop.cli import output
from desktop.cli.commands import Command, ModelArgument, Option, json_option
from desktop.cli.layout import cut, harmless
from desktop.cli.loading import opened_embedder, wanted
from desktop.cli.options import setting_options
from desktop.cli.reading import read
from desktop.cli.texts import input_lines
from runtime.params import LoadParams
from runtime.reading import POOLINGS, Embedded, EmbedRequest, NothingToEmbed
from runtime.text import _

_SHOWN_NUMBERS = 6
_MOST_COMPARED = 12  # texts whose similarities fit side by side


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "embed",
        callback=embed,
        help="\n".join((
            _("Makes a vector of each text. Texts that say similar things have vectors that point the same way."),
            _("Embedding models such as BERT are made for this; of a model that writes text, the hidden states are "
              "pooled. “-” in place of the texts reads them from the input, one a line."),
            _("Without --json, the beginning of each vector is shown, and the cosine similarity of the texts."),
        )),
        examples=(
            'quern embed starter "A cat sleeps." "A kitten naps." "The stock market fell."',
            "quern embed ~/models/minilm.gguf - --json < sentences.txt",
        ),
        params=[
            ModelArgument(["model"], metavar="MODEL"),
            click.Argument(["texts"], metavar="TEXT...", nargs=-1, required=True),
            Option(
                "--pooling", type=click.Choice(POOLINGS, case_sensitive=False), default="auto",
                help=_("How tokens become one vector: their mean, the first one's (cls) or the last one's. “auto” is "
                       "what the model's file says, and the mean where it says nothing."),
            ),
            Option(
                "--normalize/--no-normalize", default=True,
                help=_("Gives each vector the length 1, which is the default; without it, vectors stay as they are."),
            ),
            Option(
                "--truncate", is_flag=True, default=False,
                help=_("Cuts texts that are too long at their end, and says so; without it they are refused."),
            ),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def embed(
    model: str, texts: tuple[str, ...], pooling: str, normalize: bool, truncate: bool, as_json: bool,
    **flags: Any,
) -> None:  # fmt: skip
    """Runs the command."""
    what = wanted(model, flags)
    given = tuple(line.rstrip("\r\n") for line in input_lines()) if texts == ("-",) else texts
    if not given:
        raise NothingToEmbed(1)
    request = EmbedRequest(
        texts=given, pooling=pooling, normalize=normalize, truncate=truncate  # type: ignore[arg-type]
    )
    with opened_embedder(what) as held:
        result = read(lambda stop: held.embed(request, stop))
    for note in result.notes:
        output.remark(note)
    if as_json:
        output.write_json({
            "embeddings": result.vectors, "tokens": result.tokens, "pooling": result.pooling, "normalized": normalize,
        })  # fmt: skip
    else:
        _show(given, result)


def _show(texts: Sequence[str], result: Embedded) -> None:
    for number, vector in enumerate(result.vectors, 1):
        beginning = " ".join(f"{value:8.4f}" for value in vector[:_SHOWN_NUMBERS])
        shown = _("{numbers} … ({count} numbers)").format(numbers=beginning, count=f"{len(vector):,}")
        output.write_line(f"{number:>4}  {shown}")
    if 2 <= len(texts) <= _MOST_COMPARED:
        output.write_line()
        output.write_line(_("Cosine similarity"))
        for number, (text, vector) in enumerate(zip(texts, result.vectors, strict=True), 1):
            row = " ".join(f"{cosine(vector, other):7.4f}" for other in result.vectors)
            output.write_line(f"{number:>4} {row}  {cut(harmless(text).replace(chr(10), ' '), 40)}")


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the cosine of the angle between two vectors, 0 where one of them has no length."""
    lengths = math.hypot(*first) * math.hypot(*second)
    return math.fsum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0
