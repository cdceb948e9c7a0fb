"""`quern convert`: a model in another form: a folder becomes a GGUF file, a GGUF file gets another type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from desktop.cli import output
from desktop.cli.commands import Command, Option, UsageProblem, json_option
from desktop.cli.interrupt import Interrupts
from desktop.cli.layout import harmless
from runtime.errors import UserError
from runtime.text import _


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "convert",
        callback=convert,
        help="\n".join((
            _("Writes a model as a GGUF file, in a type of your choice. SOURCE is a Hugging Face folder, or a GGUF "
              "file that gets another type."),
            _("Q8_0 loses almost nothing at half of F16's size; Q4_K_M is the usual small one. Everything that can be "
              "refused is refused before a byte is written, and the result appears whole or not at all."),
        )),
        examples=(
            "quern convert ~/models/my-model my-model-q8_0.gguf --type q8_0",
            "quern convert my-model-f16.gguf my-model-q4_k_m.gguf --type q4_k_m --tensor-type ffn_down=Q6_K",
            "quern convert ~/models/my-model out.gguf --type q4_0 --dry-run",
        ),
        params=[
            click.Argument(["source"], metavar="SOURCE"),
            click.Argument(["target"], metavar="OUTPUT"),
            Option("--type", "recipe", metavar="TYPE", required=True, help=_(
                "What the numbers become: {types}.").format(types="F32, F16, BF16, Q8_0, Q6_K, Q4_K_M, Q4_0, …")),
            Option("--tensor-type", "tensor_types", metavar="REGEX=TYPE", multiple=True, help=_(
                "Gives tensors whose name the expression is found in a type of their own; the first one counts.")),
            Option("--output-type", default="", metavar="TYPE", help=_("The type of the output matrix.")),
            Option("--embedding-type", default="", metavar="TYPE", help=_("The type of the token embedding.")),
            Option("--pure", is_flag=True, default=False, help=_(
                "Gives every matrix the same type, without the mixture that keeps more of what matters.")),
            Option("--imatrix", "importance", default="", metavar="FILE", help=_(
                "An importance matrix, which types of few bits need and all others get better with.")),
            Option("--dry-run", is_flag=True, default=False, help=_("Says what would be written, and writes nothing.")),
            Option("--yes", "agreed", is_flag=True, default=False, help=_(
                "Agrees to replace a file that is there, and to quantize what is quantized already.")),
            json_option(),
        ],
    )  # fmt: skip


def convert(source: str, target: str, as_json: bool, **given: Any) -> None:
    """Runs the command."""
    from convert.options import ConvertOptions
    from convert.pipeline import Converted, Planned
    from convert.recipes import Wishes

    wishes = Wishes(
        tensor_types=tuple(map(_pattern, given.pop("tensor_types"))), output_type=given.pop("output_type").upper(),
        embedding_type=given.pop("embedding_type").upper(), pure=given.pop("pure"),
    )  # fmt: skip
    importance = given.pop("importance")
    options = ConvertOptions(
        source=_found(source), target=Path(target).expanduser(), wishes=wishes,
        importance=Path(importance).expanduser() if importance else None, **given,
    )  # fmt: skip
    planned: Planned | None = None
    for event in _run(options):
        if isinstance(event, Planned):
            planned = event
            if not as_json:
                _tell_plan(event)
        elif isinstance(event, Converted) and not as_json:
            output.say(_("Written: {path}, in {seconds:.1f} s.").format(
                path=harmless(event.target), seconds=event.seconds))  # fmt: skip
    if as_json:
        output.write_json({"written": not options.dry_run, "plan": planned})


def _run(options: Any) -> Iterator[Any]:
    from convert.pipeline import convert as conversion
    from convert.writing import WriteProgress

    status = output.StatusLine()
    with Interrupts() as interrupts:
        try:
            for event in conversion(options, interrupts.stop):
                if isinstance(event, WriteProgress):
                    words = _("Writing: {percent} %  {tensor}")
                    status.show(words.format(percent=100 * event.done // event.total, tensor=event.tensor))
                    continue
                status.clear()
                yield event
        except UserError:
            if interrupts.stop.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            status.clear()


def _found(source: str) -> Path:
    from runtime.library import resolve

    path = Path(source).expanduser()
    return path if path.is_dir() else resolve(source).path


def _pattern(text: str) -> tuple[str, str]:
    pattern, mark, kind = text.rpartition("=")
    if not mark or not pattern:
        raise UsageProblem(_("--tensor-type needs REGEX=TYPE, for example ffn_down=Q6_K."))
    return pattern, kind.upper()


def _tell_plan(planned: Any) -> None:
    types = ", ".join(f"{kind} {count}" for kind, count in planned.types.items())
    for title, words in (
        (_("Type"), planned.type),
        (_("Size"), _("{size:,.1f} MB, from {source:,.1f} MB").format(
            size=planned.size_bytes / 1e6, source=planned.source_bytes / 1e6)),
        (_("Bits per weight"), f"{planned.bits_per_weight:.2f}"),
        (_("Tensors"), types),
    ):  # fmt: skip
        output.write_line(_("{title}: {text}").format(title=title, text=words))
    for note in planned.notes:
        output.remark(note)
