"""`quern imatrix`: measures which weights of a model matter, for types of few bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import resources
from desktop.cli import output
from desktop.cli.commands import Command, FileName, ModelArgument, Option, json_option
from desktop.cli.layout import harmless
from desktop.cli.loading import wanted
from desktop.cli.options import setting_options
from desktop.cli.reading import read
from desktop.cli.texts import text_of
from runtime.gguf_header import split_parts
from runtime.params import LoadParams
from runtime.text import _, ngettext

_CONTEXT = 512  # tokens that a chunk of the text takes


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "imatrix",
        callback=imatrix,
        help="\n".join((
            _("Measures how much each column of a model's weights matters, and writes that as an importance matrix. "
              "“quern convert --imatrix” makes better small files with it; the types of one to three bits need it."),
            _("Quern's own engine reads a text with the model; use the model as it was before any quantization. The "
              "file has llama.cpp's format."),
        )),
        examples=(
            "quern imatrix ~/models/my-model -o my-model-imatrix.gguf",
            "quern imatrix model-f16.gguf --text letters.txt -o imatrix.gguf",
        ),
        params=[
            ModelArgument(["model"], metavar="MODEL"),
            Option("-o", "--output", "target", metavar="FILE", type=FileName(), required=True,
                   help=_("The file to write.")),
            Option("--text", metavar="FILE", type=FileName(), help=_(
                "The text file; “-” reads the input. Without it, a text of Quern's own: English, Chinese and code.")),
            Option("--chunks", type=click.IntRange(1, 1 << 20), default=None, metavar="N", help=_(
                "Reads at most so many pieces of 512 tokens. Default: the whole text.")),
            Option("--yes", "agreed", is_flag=True, default=False, help=_("Agrees to replace a file that is there.")),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def imatrix(
    model: str, target: str, text: str | None, chunks: int | None, agreed: bool, as_json: bool, **flags: Any
) -> None:
    """Runs the command."""
    from convert import calibration
    from convert.importance import write_importance
    from convert.safe_file import require_target

    flags["loadparams__context_length"] = flags.get("loadparams__context_length") or _CONTEXT
    what, place = wanted(model, flags), Path(target).expanduser()
    texts = [Path(text).expanduser()] if text and text != "-" else []
    require_target(place, sources=[*split_parts(what.path), *texts], replace=agreed)
    content = text_of(text) if text is not None else resources.read_text("calibration", "text.txt")
    params = what.load.replace(dtype="f32") if what.load.dtype == "auto" else what.load
    name = Path(text).name if text is not None else "quern"
    found = read(lambda stop: calibration.measure(
        what.path, content, stop, name=name, params=params, most_chunks=chunks or 0))  # fmt: skip
    write_importance(found, place)
    if as_json:
        output.write_json({
            "path": str(place), "tensors": len(found.tensors), "chunks": found.n_chunks, "chunk_size": found.chunk_size,
        })  # fmt: skip
        return
    matrices = ngettext("{count} tensor", "{count} tensors", len(found.tensors)).format(count=len(found.tensors))
    n_tokens = found.n_chunks * found.chunk_size
    words = ngettext(
        "Written: {path}, {tensors}, measured on {count} token.",
        "Written: {path}, {tensors}, measured on {count} tokens.", n_tokens,
    )  # fmt: skip
    output.say(words.format(path=harmless(str(place)), tensors=matrices, count=f"{n_tokens:,}"))
