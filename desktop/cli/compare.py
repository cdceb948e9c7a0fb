"""`quern compare`: how far a model strays from another one that it was made from."""

from __future__ import annotations

from typing import Any

import click

import resources
from desktop.cli import output
from desktop.cli.commands import Command, FileName, ModelArgument, Option, json_option
from desktop.cli.layout import harmless, one_line
from desktop.cli.loading import Wanted, opened, wanted
from desktop.cli.options import engine_option, setting_options
from desktop.cli.reading import read
from desktop.cli.texts import text_of
from runtime.params import LoadParams
from runtime.text import _

_CONTEXT = 512  # tokens that a chunk of the text takes


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "compare",
        callback=compare,
        help="\n".join((
            _("Shows what a quantization cost: how far CANDIDATE's predictions lie from REFERENCE's over a text."),
            _("KL divergence says how different the predictions are: below 0.01 hardly anybody notices, above 0.1 the "
              "model is another one. The text is read in pieces of 512 tokens; the second half of each is scored."),
        )),
        examples=(
            "quern compare model-f16.gguf model-q4_k_m.gguf",
            "quern compare model-f16.gguf model-q4_k_m.gguf --text - --json < letters.txt",
        ),
        params=[
            ModelArgument(["reference"], metavar="REFERENCE"),
            ModelArgument(["candidate"], metavar="CANDIDATE"),
            Option("--text", metavar="FILE", type=FileName(), help=_(
                "The text file; “-” reads the input. Without it, a text of Quern's own: English, Chinese and code.")),
            engine_option("reference", help=_("The engine for REFERENCE, where it is another than --engine says.")),
            engine_option("candidate", help=_("The engine for CANDIDATE, where it is another than --engine says.")),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def compare(
    reference: str, candidate: str, text: str | None, as_json: bool,
    reference_engine: str | None, candidate_engine: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Runs the command."""
    from convert import compare as comparing

    flags["loadparams__context_length"] = flags.get("loadparams__context_length") or _CONTEXT
    models = _side(reference, reference_engine, flags), _side(candidate, candidate_engine, flags)
    content = text_of(text) if text is not None else resources.read_text("evaluation", "text.txt")
    with opened(models[0]) as ours, opened(models[1]) as theirs:
        result = read(lambda stop: comparing.compare(ours, theirs, content, stop))
    if as_json:
        output.write_json(_as_json(result))
    else:
        _show(result)


def _side(model: str, engine: str | None, flags: dict[str, Any]) -> Wanted:
    return wanted(model, flags if engine is None else flags | {"loadparams__engine": engine})


def _as_json(result: Any) -> dict[str, Any]:
    quality = result.quality
    return {
        "kl": quality.kl, "top1_agreement": quality.top1_agreement, "perplexity": quality.perplexity,
        "probability_rms": quality.probability_rms, "tokens": quality.tokens, "chunks": result.chunks,
        "worst": quality.worst, "reference": result.reference, "candidate": result.candidate,
    }  # fmt: skip


def _show(result: Any) -> None:
    quality = result.quality
    for title, words in (
        (_("Reference"), _side_words(result.reference)),
        (_("Candidate"), _side_words(result.candidate)),
        (_("KL divergence"), _("mean {mean:.5f}, median {median:.5f}, 99 % below {p99:.4f}, at most {max:.3f}").format(
            mean=quality.kl.mean, median=quality.kl.median, p99=quality.kl.p99, max=quality.kl.max)),
        (_("Same likeliest token"), _("{percent:.2f} %").format(percent=100 * quality.top1_agreement)),
        (_("Change of the true token's probability"), _("{percent:.2f} % (root mean square)").format(
            percent=100 * quality.probability_rms)),
        (_("Perplexity"), _("{candidate:.4f} instead of {reference:.4f} ({change:+.2f} %)").format(
            candidate=quality.perplexity.candidate, reference=quality.perplexity.reference,
            change=100 * (quality.perplexity.ratio - 1))),
    ):  # fmt: skip
        output.write_line(_("{title}: {text}").format(title=title, text=words))
    output.write_line()
    output.write_line(_("Where they differ most:"))
    for worst in quality.worst:
        line = _("…{before}[{token}]  the reference expects “{reference}”, the candidate “{candidate}” ({kl:.2f})")
        parts = {name: getattr(worst, name) for name in ("before", "token", "reference", "candidate")}
        shown = {name: one_line(part, line_end="↵") for name, part in parts.items()}
        output.write_line(line.format(kl=worst.kl, **shown))


def _side_words(side: Any) -> str:
    return _("{name}, {megabytes:,.1f} MB, {bits:.2f} bits per weight").format(
        name=harmless(side.name), megabytes=side.size_bytes / 1e6, bits=side.bits_per_weight
    )
