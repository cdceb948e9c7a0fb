"""`quern complete`: a model goes on with a text, without a chat template."""

from __future__ import annotations

from typing import Any

import click

from desktop.cli.answer import JsonView, TextView
from desktop.cli.commands import Command, Option, UsageProblem
from desktop.cli.interrupt import Interrupts
from desktop.cli.loading import opened, wanted
from desktop.cli.options import alternatives_wanted, answer_options, given, model_argument, setting_options
from desktop.cli.receipts import receipt_option, with_receipts
from desktop.cli.texts import read_input
from runtime.beams import BeamParams
from runtime.protocol import GenerationRequest
from runtime.settings import layered
from runtime.text import _


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "complete",
        callback=complete,
        help="\n".join((
            _("Lets a model go on with a text, without a chat template. What it adds is printed, not the text itself."),
            _("A model may go on for long: --max-tokens and --stop end it, and so does Ctrl-C."),
            _("An encoder-decoder such as T5 takes the text for its source, and prints the target that it writes."),
        )),
        examples=(
            'quern complete -p "Once upon a time" --max-tokens 64',
            "quern complete starter -p - --temperature 0 < beginning.txt",
        ),
        params=[
            model_argument(),
            Option("-p", "--prompt", metavar="TEXT", required=True, help=_("The text; “-” reads it from the input.")),
            receipt_option(),
            *setting_options(BeamParams),
            *answer_options(),
        ],
    )  # fmt: skip


def complete(
    model: str | None, prompt: str, verbose: bool, as_json: bool, alternatives: int | None,
    receipt: str | None, **flags: Any,
) -> int:  # fmt: skip
    """Runs the command and returns the exit code."""
    shown = alternatives_wanted(alternatives, as_json=as_json)
    text = read_input() if prompt == "-" else prompt
    if not text:
        raise UsageProblem(_("The text is empty."), "", _('Example: quern complete -p "Once upon a time"'))
    what = wanted(model, flags)
    view = with_receipts(JsonView() if as_json else TextView(verbose=verbose), receipt)
    request = GenerationRequest(
        prompt=text, sampling=what.sampling, alternatives=shown, receipt=receipt is not None,
        beams=layered(BeamParams, given(BeamParams, flags)),
    )
    with opened(what) as held:
        view.loaded(held.info)
        with Interrupts() as interrupts:
            view.show(held.generate(request, interrupts.stop))
    return 130 if interrupts.stop.is_set() else 0
