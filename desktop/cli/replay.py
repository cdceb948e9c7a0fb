"""`quern replay`: makes an answer again from its receipt and says whether it comes out the same."""

from __future__ import annotations

from pathlib import Path

import click

from desktop.cli import output
from desktop.cli.commands import Command, FileArgument, FileName, ModelArgument, Option, json_option
from desktop.cli.interrupt import Interrupts
from desktop.cli.loading import Wanted, opened
from desktop.cli.options import engine_option
from runtime.engine import Engine
from runtime.errors import UserError
from runtime.library import resolve
from runtime.places import path_of
from runtime.protocol import Difference, PromptProgress, Replayed
from runtime.receipt import Receipt, read_receipt
from runtime.text import _, ngettext


class ReplayDiffers(UserError):
    """The answer came out otherwise."""

    code = "replay_differs"

    def __init__(self, difference: Difference) -> None:
        place = ngettext(
            "The first {count} token is equal; the difference begins at character {character}.",
            "The first {count} tokens are equal; the difference begins at character {character}.",
            difference.tokens,
        )
        super().__init__(
            _("The answer came out otherwise."),
            place.format(count=f"{difference.tokens:,}", character=f"{difference.character + 1:,}"),
            _("The receipt has {expected} there, and now it is {found}.").format(
                expected=_shown(difference.expected), found=_shown(difference.found)
            ),
        )


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "replay",
        callback=replay,
        help="\n".join((
            _("Makes an answer again from the receipt that “quern chat --receipt FILE” wrote, and compares the text."),
            _("The same model, build and settings give the same text. Where one of them is another, this says so and "
              "does nothing; --anyway tries all the same. The exit code is 0 where the text is equal, else 2."),
        )),
        examples=("quern replay answer.json", "quern replay answer.json ~/models/model.gguf --anyway"),
        params=[
            FileArgument(["file"], metavar="FILE", type=FileName()),
            ModelArgument(["model"], required=False, metavar="[MODEL]"),
            Option("--anyway", is_flag=True, default=False,
                   help=_("Tries it also with another model, build or settings than the answer was made with.")),
            engine_option(),
            json_option(),
        ],
    )  # fmt: skip


def replay(file: str, model: str | None, anyway: bool, engine: str | None, as_json: bool) -> int:
    """Runs the command and returns the exit code."""
    receipt = read_receipt(Path(file).expanduser())
    with opened(_wanted(receipt, model, engine)) as held:
        result = _replayed(held, receipt, anyway=anyway)
    if as_json:
        output.write_json({
            "equal": result.difference is None, "tokens": result.tokens, "text": result.text,
            "difference": result.difference,
        })  # fmt: skip
        return 0 if result.difference is None else 2
    if result.difference is not None:
        raise ReplayDiffers(result.difference)
    words = ngettext("Equal: {count} token.", "Equal: {count} tokens.", result.tokens)
    output.write_line(words.format(count=f"{result.tokens:,}"))
    return 0


def _wanted(receipt: Receipt, model: str | None, engine: str | None) -> Wanted:
    """Returns the model that wrote the answer, or the one that was named, to be loaded as it was then."""
    found = resolve(model if model is not None else str(path_of(receipt.model_path)))
    load = receipt.load_params
    load = load.replace(engine=engine) if engine else load
    return Wanted(found.name, found.path, receipt.sampling_params, load)


def _replayed(engine: Engine, receipt: Receipt, *, anyway: bool) -> Replayed:
    status = output.StatusLine()
    with Interrupts() as interrupts:
        try:
            for event in engine.replay(receipt, interrupts.stop, anyway=anyway):
                if isinstance(event, PromptProgress):
                    status.show(_("Reading: {done} of {total} tokens").format(done=event.done, total=event.total))
                else:
                    return event
        except UserError:
            if interrupts.stop.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            status.clear()
    raise AssertionError("a replay ends with a result")


def _shown(text: str) -> str:
    return _("“{text}”").format(text=text.replace("\n", "␊")) if text else _("the end")
