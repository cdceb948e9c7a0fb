"""Writes the receipts of answers to a file. Knows no command and not how an answer is shown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from desktop.cli import output
from desktop.cli.answer import AnswerView
from desktop.cli.commands import FileName, Option
from desktop.cli.interrupt import Interrupts
from runtime.model_files import Stamps, stamps_of
from runtime.model_hash import HashingStopped, ModelHashes
from runtime.places import path_of, replace_file, require_replaceable
from runtime.protocol import EngineInfo, Finished, GenerationEvent
from runtime.receipt import Receipt, written
from runtime.text import _


def receipt_option() -> click.Parameter:
    """Returns `--receipt`."""
    return Option(
        "--receipt", metavar="FILE", type=FileName(), default=None,
        help=_("Writes to FILE what made the last answer; “quern replay FILE” makes it again and compares."),
    )  # fmt: skip


@dataclass
class ReceiptView:
    """Shows answers through another view, and leaves the receipt of the last one in a file."""

    view: AnswerView
    file: Path
    _stamps: Stamps = ()  # of the model, when it was loaded

    def loaded(self, info: EngineInfo) -> None:
        """Shows what was loaded."""
        self._stamps = stamps_of(path_of(info.path))
        self.view.loaded(info)

    def show(self, events: Iterable[GenerationEvent]) -> Finished | None:
        """Shows the answer and writes its receipt. Raises `UserError` where the file cannot be written."""
        finished = self.view.show(events)
        if finished is not None and finished.receipt is not None:
            replace_file(self.file, written(identified(finished.receipt, self._stamps)))
        elif finished is not None:
            output.remark(_("This answer has no receipt: it cannot be made again exactly."))
        return finished


def with_receipts(view: AnswerView, file: str | None) -> AnswerView:
    """Returns the view, made to leave receipts where a file was named for them. Raises `UnwritableFile`."""
    if file is None:
        return view
    path = Path(os.path.expanduser(file))
    require_replaceable(path)
    return ReceiptView(view, path)


def identified(receipt: Receipt, stamps: Stamps) -> Receipt:
    """Returns a receipt that names its model by content; without, where the person does not wait for that.

    And without where the files are others than those that were loaded, which had these stamps.
    """
    path = path_of(receipt.model_path)
    if receipt.model_sha256 or stamps_of(path) != stamps:
        return receipt
    status = output.StatusLine()

    def progress(fraction: float) -> None:
        status.show(_("Reading the model to identify it: {percent} %").format(percent=int(100 * fraction)))

    with Interrupts() as interrupts:
        try:
            found = ModelHashes().of(path, stop=interrupts.stop, progress=progress)
        except HashingStopped as stopped:
            output.remark(stopped.info.title)
            return receipt
        finally:
            status.clear()
    return msgspec.structs.replace(receipt, model_sha256=found)
