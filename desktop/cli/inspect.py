"""`quern inspect`: where each token of a text attends, how likely it was, and what each layer would have said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from desktop.cli import output
from desktop.cli.attention_picture import as_png, as_svg, title_of, visible
from desktop.cli.commands import Command, FileName, ModelArgument, Option, json_option
from desktop.cli.interrupt import Interrupts
from desktop.cli.layout import cell_width, cut, harmless, shown_path
from desktop.cli.loading import opened_inspector, wanted
from desktop.cli.options import setting_options
from desktop.cli.texts import read_input
from runtime.inspection import KINDS, Guess, Inspection, InspectRequest
from runtime.params import LoadParams
from runtime.places import replace_file, require_replaceable
from runtime.text import _

_SHADES = " ·░▒▓█"
_LABEL = 12  # cells of a token's text
_STRONGEST = 3  # tokens that are named where a map is too wide


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "inspect",
        callback=inspect,
        help="\n".join((
            _("Shows what happens inside a model while it reads a text: where each token looks (attention), how likely "
              "it was, and what each layer would have said next (the logit lens)."),
            _("Layers and heads are counted from 0; without --layer or --head, their mean is shown. An encoder such as "
              "BERT guesses every token at its own place; [MASK] may be written in the text. An encoder-decoder such "
              "as T5 takes the text for its source, and its target's attention on that is shown."),
            _("The model runs in Quern's own engine, also where it is a GGUF file."),
        )),
        examples=(
            'quern inspect starter -p "The capital of France is"',
            'quern inspect starter -p "The capital of France is" --layer 12 --head 3 --png attention.png',
        ),
        params=[
            ModelArgument(["model"], metavar="MODEL"),
            Option("-p", "--prompt", metavar="TEXT", required=True, help=_("The text; “-” reads it from the input.")),
            Option("--layer", type=int, default=None, metavar="L", help=_("Shows the attention of this layer only.")),
            Option("--head", type=int, default=None, metavar="H", help=_("Shows the attention of this head only.")),
            Option(
                "--kind", type=click.Choice(KINDS, case_sensitive=False), default=None,
                help=_("Of an encoder-decoder: the attention of the encoder, of the target on itself (self), or of the "
                       "target on the source (cross), which is the default."),
            ),
            Option(
                "--target", metavar="TEXT", default=None,
                help=_("What an encoder-decoder is taken to write; without it, it writes by itself."),
            ),
            Option(
                "--alternatives", type=click.IntRange(1, 100), default=3, metavar="N",
                help=_("How many of the likeliest tokens are shown at each place. Default: 3."),
            ),
            Option(
                "--png", metavar="FILE", type=FileName(), default=None,
                help=_("Draws the attention into a file; one whose name ends in .svg is drawn as SVG."),
            ),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def inspect(
    model: str, prompt: str, layer: int | None, head: int | None, kind: str | None, target: str | None,
    alternatives: int, png: str | None, as_json: bool, **flags: Any,
) -> None:  # fmt: skip
    """Runs the command."""
    picture = Path(png).expanduser() if png is not None else None
    if picture is not None:
        require_replaceable(picture)
    what = wanted(model, flags)
    request = InspectRequest(
        text=read_input() if prompt == "-" else prompt, layer=layer, head=head, kind=kind,  # type: ignore[arg-type]
        target=target, alternatives=alternatives,
    )  # fmt: skip
    with opened_inspector(what) as held, Interrupts() as interrupts:
        seen = held.inspect(request, interrupts.stop)
    for note in seen.notes:
        output.remark(note)
    if picture is not None:
        _draw(picture, harmless(what.name), seen)
    if as_json:
        output.write_json(_as_json(seen))
    else:
        for line in _lines(seen, drawn=picture is not None):
            output.write_line(line)


def _draw(path: Path, name: str, seen: Inspection) -> None:
    title = title_of(name, seen.kind, seen.layer, seen.head)
    rows, columns = ([visible(harmless(label)) for label in labels] for labels in (seen.rows, seen.columns))
    draw = as_svg if path.suffix.lower() == ".svg" else as_png
    replace_file(path, draw(title, rows, columns, seen.weights))
    output.remark(_("The picture is in “{path}”.").format(path=shown_path(path)))


# --- for programs -----------------------------------------------------------------------------------------------


def _as_json(seen: Inspection) -> dict[str, Any]:
    return {
        "attention": {
            "kind": seen.kind, "layer": seen.layer, "head": seen.head, "rows": seen.rows, "columns": seen.columns,
            "weights": [[round(weight, 6) for weight in row] for row in seen.weights.tolist()],
        },
        "entropy": [[round(value, 6) for value in row] for row in seen.entropy.tolist()],
        "tokens": [
            {"id": place.id, "text": place.text, "probability": place.probability,
             "alternatives": [_guess(guess) for guess in place.alternatives]}
            for place in seen.places
        ],
        "lens": [
            {"layer": layer.layer, "places": [[_guess(guess) for guess in place] for place in layer.places]}
            for layer in seen.lens
        ],
    }  # fmt: skip


def _guess(guess: Guess) -> dict[str, Any]:
    return {"id": guess.id, "text": guess.text, "probability": guess.probability}


# --- for people -------------------------------------------------------------------------------------------------


def _lines(seen: Inspection, *, drawn: bool) -> Iterator[str]:
    yield from _tokens(seen)
    yield from _lens(seen)
    if not drawn:
        yield from _map(seen)
    yield from _entropies(seen)


def _tokens(seen: Inspection) -> Iterator[str]:
    is_scored = any(place.probability is not None for place in seen.places)
    yield _("Tokens, how likely each was, and what was likeliest there") if is_scored else _("Tokens")
    for at, place in enumerate(seen.places):
        likely = "      " if place.probability is None else _percent(place.probability)
        yield f"{at:>4}  {_label(place.text)} {likely}   {_guesses(place.alternatives)}".rstrip()


def _lens(seen: Inspection) -> Iterator[str]:
    """The lens at one place: the last, or where a hidden token is."""
    if not seen.lens:
        return
    at = _place_of_interest(seen)
    yield ""
    yield _("What each layer would say at place {place}, “{token}” (the logit lens)").format(
        place=at, token=visible(harmless(seen.places[at].text)))  # fmt: skip
    for layer in seen.lens:
        name = _("embedding") if layer.layer < 0 else _("layer {number}").format(number=layer.layer)
        yield f"  {name:<{_LABEL}}{_guesses(layer.places[at])}"


def _place_of_interest(seen: Inspection) -> int:
    if seen.kind != "encoder" or len(seen.lens[0].places) != len(seen.rows):
        return len(seen.places) - 1
    unlikely = [place.probability if place.probability is not None else 1.0 for place in seen.places]
    return unlikely.index(min(unlikely))


def _map(seen: Inspection) -> Iterator[str]:
    yield ""
    yield title_of(_("Attention"), seen.kind, seen.layer, seen.head)
    is_narrow = len(seen.columns) + _LABEL + 6 <= output.width()
    for at, (label, row) in enumerate(zip(seen.rows, seen.weights.tolist(), strict=True)):
        shown = "".join(map(_shade, row)) if is_narrow else _strongest(row, seen.columns)
        yield f"{at:>4}  {_label(label)} {shown}".rstrip()
    if is_narrow:
        key = "  ".join(f"{shade} {(at / len(_SHADES)) ** 2:.2f}+" for at, shade in enumerate(_SHADES) if at)
        yield " " * (_LABEL + 7) + key


def _shade(weight: float) -> str:
    """Returns a character as dark as the root of a weight: most weights are small."""
    return _SHADES[min(int(max(weight, 0.0) ** 0.5 * len(_SHADES)), len(_SHADES) - 1)]


def _strongest(row: Sequence[float], columns: Sequence[str]) -> str:
    best = sorted(range(len(row)), key=lambda at: -row[at])[:_STRONGEST]
    return "  ".join(f"{_percent(row[at])} {at}:{visible(harmless(columns[at]))}" for at in best)


def _entropies(seen: Inspection) -> Iterator[str]:
    yield ""
    yield _("How widely each layer's heads look: entropy in nats, 0 on one token only (mean, and from … to …)")
    for layer, heads in enumerate(seen.entropy):
        number = _("layer {number}").format(number=layer)
        yield f"  {number:<{_LABEL}}{heads.mean():6.2f}   {heads.min():.2f} … {heads.max():.2f}"


def _label(text: str) -> str:
    shown = cut(visible(harmless(text)), _LABEL)
    return shown + " " * (_LABEL - cell_width(shown))


def _percent(probability: float) -> str:
    return f"{100 * probability:5.1f}%"


def _guesses(guesses: Sequence[Guess]) -> str:
    return "  ".join(f"{visible(harmless(guess.text))} {100 * guess.probability:.1f}%" for guess in guesses)
