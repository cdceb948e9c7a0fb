"""One conversion as the window follows it: a job that knows its plan and what came of it. Knows no widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal

from convert.job_request import ConvertRequest, convert_command, first_line
from desktop.job import Job, JobState
from runtime.places import spelled_path
from runtime.text import _, language


class Conversion(Job):
    """A model on its way to another type."""

    finished = Signal(str)  # path of the new file

    def __init__(
        self, source: Path, target: Path, recipe: str, *, agreed: bool = False, verify: bool = True, card: bool = True
    ) -> None:
        """With `verify` the result is held against its source, with `card` it is measured what was lost."""
        super().__init__(
            convert_command(), request_line(source, target, (recipe,), agreed=agreed, verify=verify, card=card),
            name=_("{name} to {type}").format(name=source.name, type=recipe),
        )  # fmt: skip
        self.source, self.target, self.recipe = source, target, recipe
        self.plan: dict[str, Any] = {}
        self.result: dict[str, Any] = {}
        self.received.connect(self._note)
        self.ended.connect(self._tell_finished)

    def _note(self, event: dict[str, Any]) -> None:
        if event["event"] == "planned":
            self.plan = event
        elif event["event"] == "converted":
            self.result = event
        self.changed.emit()

    def _tell_finished(self) -> None:
        if self.state is JobState.DONE:
            self.finished.emit(str(self.target))


def request_line(
    source: Path, target: Path, recipes: tuple[str, ...], *, dry_run: bool = False, agreed: bool = False,
    verify: bool = False, card: bool = False,
) -> bytes:  # fmt: skip
    """Returns what a conversion's process reads first."""
    request = ConvertRequest(
        source=spelled_path(source), target=spelled_path(target), recipes=recipes, agreed=agreed, dry_run=dry_run,
        verify=verify, card=card, language=language(),
    )  # fmt: skip
    return first_line(request)
