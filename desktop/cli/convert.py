"""`quern convert`: a model in another form: a folder becomes a GGUF file, a GGUF file gets another type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from desktop.cli import convert_report, output
from desktop.cli.commands import Command, FileArgument, FileName, ModelArgument, Option, UsageProblem, json_option
from desktop.cli.interrupt import Interrupts
from desktop.cli.texts import text_of
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.text import _


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "convert",
        callback=convert,
        help="\n".join((
            _("Writes a model as a GGUF file, in a type of your choice. SOURCE is a Hugging Face folder, or a GGUF "
              "file that gets another type. An OUTPUT that does not end in .gguf is a Hugging Face folder."),
            _("Q8_0 loses almost nothing at half of F16's size; Q4_K_M is the usual small one. Everything that can be "
              "refused is refused before a byte is written, and the result appears whole or not at all."),
        )),
        examples=(
            "quern convert ~/models/my-model my-model-q8_0.gguf --type q8_0",
            "quern convert my-model-f16.gguf my-model-q4_k_m.gguf --type q4_k_m --tensor-type ffn_down=Q6_K",
            "quern convert ~/models/my-model out.gguf --type q4_0 --dry-run",
            "quern convert my-model-f16.gguf my-model --type bf16",
            "quern convert ~/models/my-model styled.gguf --type q8_0 --lora ~/adapters/style",
            "quern convert ~/adapters/style style.gguf --base ~/models/my-model --type f16",
        ),
        params=[
            ModelArgument(["source"], metavar="SOURCE"),
            FileArgument(["target"], metavar="OUTPUT", type=FileName()),
            Option("--type", "recipe", metavar="TYPE", default="", help=_(
                "What the numbers become: {types}.").format(types="F32, F16, BF16, Q8_0, Q6_K, Q4_K_M, Q4_0, …")),
            Option("--auto", is_flag=True, default=False, help=_(
                "Tries types and keeps the best one for --max-kl or --max-size.")),
            Option("--max-kl", type=float, default=None, metavar="X", help=_(
                "With --auto: the smallest file whose mean KL divergence from the source is at most this, say 0.02.")),
            Option("--max-size", default="", metavar="SIZE", help=_(
                "With --auto: the best file of at most this size, say 80MB.")),
            Option("--tensor-type", "tensor_types", metavar="REGEX=TYPE", multiple=True, help=_(
                "Gives tensors whose name the expression is found in a type of their own; the first one counts.")),
            Option("--lora", "lora", metavar="ADAPTER", multiple=True, help=_(
                "Merges an adapter into the weights; style=0.5 takes half of its change. An adapter of a folder for a "
                "model in a folder, a GGUF adapter for a GGUF file.")),
            Option("--base", default="", metavar="MODEL", help=_(
                "The model that an adapter was made for, where SOURCE is an adapter's folder: it becomes a GGUF "
                "adapter.")),
            Option("--output-type", default="", metavar="TYPE", help=_("The type of the output matrix.")),
            Option("--embedding-type", default="", metavar="TYPE", help=_("The type of the token embedding.")),
            Option("--pure", is_flag=True, default=False, help=_(
                "Gives every matrix the same type, without the mixture that keeps more of what matters.")),
            Option("--imatrix", "importance", default="", metavar="FILE", help=_(
                "An importance matrix, which types of few bits need and all others get better with.")),
            Option("--split-max-size", default="", metavar="SIZE", help=_(
                "Divides a larger file into parts of this size, say 2G; programs open the first.")),
            Option("--threads", type=click.IntRange(1, 1024), default=None, metavar="N", help=_(
                "How many threads pack. Default: one for each usable core.")),
            Option("--no-verify", is_flag=True, default=False, help=_(
                "Leaves out holding the result against its source.")),
            Option("--no-card", is_flag=True, default=False, help=_(
                "Leaves out measuring what a quantization cost.")),
            Option("--text", metavar="FILE", default="", help=_(
                "The text to measure on. Without it, a text of Quern's own: English, Chinese and code.")),
            Option("--dry-run", is_flag=True, default=False, help=_("Says what would be written, and writes nothing.")),
            Option("--check-values", is_flag=True, default=False, help=_(
                "Reads every weight before anything is written, and names the tensors with NaN, infinite or too large "
                "values. Without it they are found while writing, which then leaves no file.")),
            Option("--yes", "agreed", is_flag=True, default=False, help=_(
                "Agrees to replace a file that is there, and to quantize what is quantized already.")),
            json_option(),
        ],
    )  # fmt: skip


def convert(source: str, target: str, as_json: bool, **given: Any) -> None:
    """Runs the command."""
    from convert.auto import Tried, choose
    from convert.pipeline import Converted, convert
    from convert.preflight import Planned
    from convert.values import ValuesChecked

    auto, max_kl, max_size = given.pop("auto"), given.pop("max_kl"), given.pop("max_size")
    options = _options(source, target, given)
    start: Callable[[StopFlag], Iterator[Any]]
    if auto:
        goal = _goal(max_kl, max_size)
        start = partial(choose, options, goal)
    else:
        _require_type(options.recipe, max_kl, max_size)
        start = partial(convert, options)
    found: dict[str, Any] = {"plan": None, "values_checked": False, "result": None, "tried": []}
    for event in _run(start, options.target):
        if isinstance(event, Tried):
            found["tried"].append(event)
        elif isinstance(event, ValuesChecked):
            found["values_checked"] = True
        else:
            found["plan" if isinstance(event, Planned) else "result"] = event
        if not as_json:
            convert_report.tell(event)
    if as_json:
        output.write_json({"written": isinstance(found["result"], Converted), **found})
    elif options.dry_run and not options.check_values:
        output.remark(_("NaN, infinite and too large values are looked for while writing; --check-values does it now."))


def _options(source: str, target: str, given: dict[str, Any]) -> Any:
    from convert.options import ConvertOptions
    from convert.recipes import Wishes
    from convert.splitting import size_of

    wishes = Wishes(
        tensor_types=tuple(map(_pattern, given["tensor_types"])), output_type=given["output_type"].upper(),
        embedding_type=given["embedding_type"].upper(), pure=given["pure"],
    )  # fmt: skip
    if given["text"]:
        text_of(given["text"])  # refused now, not when everything is written
    return ConvertOptions(
        source=_found(source), target=_path(target), recipe=given["recipe"], wishes=wishes,
        lora=given["lora"], base=_found(given["base"]) if given["base"] else None,
        importance=_path(given["importance"]) if given["importance"] else None,
        split_max_size=size_of(given["split_max_size"]) if given["split_max_size"] else 0,
        agreed=given["agreed"], dry_run=given["dry_run"], check_values=given["check_values"],
        verify=not given["no_verify"], card=not given["no_card"],
        text=_path(given["text"]) if given["text"] else None, threads=given["threads"] or 0,
    )  # fmt: skip


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()  # a phase's process may live in another folder


def _require_type(recipe: str, max_kl: float | None, max_size: str) -> None:
    if max_kl is not None or max_size:
        raise UsageProblem(_("--max-kl and --max-size belong to --auto."))
    if not recipe:
        raise UsageProblem(
            _("{command} needs {name}.").format(command="quern convert", name="--type"), "",
            _("Q8_0 loses almost nothing, Q4_K_M is the usual small one; --auto tries."),
        )  # fmt: skip


def _goal(max_kl: float | None, max_size: str) -> Any:
    from convert.auto import Goal
    from convert.splitting import size_of

    if max_kl is None and not max_size:
        raise UsageProblem(_("--auto needs --max-kl or --max-size."))
    if max_kl is not None and not 0 < max_kl < math.inf:
        raise UsageProblem(_("--max-kl needs a number above 0."))
    return Goal(max_kl=max_kl, max_size=size_of(max_size) if max_size else 0)


def _run(start: Callable[[StopFlag], Iterator[Any]], target: Path) -> Iterator[Any]:
    from convert.measuring import MeasureProgress
    from convert.safe_file import end_soon
    from convert.values import CheckProgress
    from convert.verification import VerifyProgress
    from convert.writing import WriteProgress

    words: dict[Any, str] = {
        CheckProgress: _("Looking at the values: {percent} %"),
        WriteProgress: _("Writing: {percent} %  {tensor}"),
        VerifyProgress: _("Verifying: {percent} %"),
        MeasureProgress: _("Measuring the quality: {percent} %"),
    }
    status = output.StatusLine()
    with Interrupts(end_soon=lambda number: end_soon(target, code=128 + number)) as interrupts:
        try:
            for event in start(interrupts.stop):
                if type(event) in words:
                    percent = 100 * event.done // max(event.total, 1)
                    status.show(words[type(event)].format(percent=percent, tensor=getattr(event, "tensor", "")))
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
    """Returns the folder or file that was named; a folder of GGUF files alone stands for the model in it."""
    from runtime.library import resolve

    path = Path(source).expanduser()
    return path if source and path.is_dir() and not _holds_gguf_alone(path) else resolve(source).path


def _holds_gguf_alone(folder: Path) -> bool:
    return not (folder / "config.json").exists() and any(folder.glob("*.gguf"))


def _pattern(text: str) -> tuple[str, str]:
    pattern, mark, kind = text.rpartition("=")
    if not mark or not pattern:
        raise UsageProblem(_("--tensor-type needs REGEX=TYPE, for example ffn_down=Q6_K."))
    return pattern, kind.upper()
