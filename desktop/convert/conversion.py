"""One conversion as the window follows it: its job, what it was planned to be, what came of it. Knows no widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from convert.job_request import ConvertRequest, convert_command, first_line
from desktop.job import Job, JobState
from runtime.places import spelled_path
from runtime.text import _, language

_NO_RESULT = ("planned", "done", "failed")


class Conversion(QObject):
    """A model on its way to another type."""

    changed = Signal()
    finished = Signal(str)  # path of the new file

    def __init__(self, source: Path, target: Path, recipe: str, *, agreed: bool) -> None:
        super().__init__()
        self.source, self.target, self.recipe = source, target, recipe
        self.plan: dict[str, Any] = {}
        self.results: dict[str, dict[str, Any]] = {}  # the last event of each kind that told no progress
        self.job = Job(
            convert_command(), request_line(source, target, (recipe,), agreed=agreed),
            name=_("{name} to {type}").format(name=source.name, type=recipe),
        )  # fmt: skip
        self.job.received.connect(self._receive)
        self.job.changed.connect(self.changed)
        self.job.ended.connect(self._end)

    def _receive(self, event: dict[str, Any]) -> None:
        if event["event"] == "planned":
            self.plan = event
        elif "total" not in event and event["event"] not in _NO_RESULT:
            self.results[event["event"]] = {name: value for name, value in event.items() if name != "event"}
        self.changed.emit()

    def _end(self) -> None:
        if self.job.state is JobState.DONE:
            self.finished.emit(str(self.target))


def request_line(
    source: Path, target: Path, recipes: tuple[str, ...], *, agreed: bool = False, dry_run: bool = False
) -> bytes:
    """Returns what a conversion's process reads first."""
    request = ConvertRequest(
        source=spelled_path(source), target=spelled_path(target), recipes=recipes, agreed=agreed, dry_run=dry_run,
        language=language(),
    )  # fmt: skip
    return first_line(request)
