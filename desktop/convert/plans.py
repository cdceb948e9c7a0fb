"""What a source would become in each offered type: asked of a child that plans and writes nothing. Knows no widget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from convert.job_request import convert_command
from desktop.convert.conversion import request_line
from desktop.convert.types import OFFERED
from desktop.job import Job, Jobs, JobState


class Plans(QObject):
    """One source's plans, type by type, as they come."""

    planned = Signal(str, object)  # type, the plan as a dictionary
    failed = Signal(object)  # runtime.errors.ErrorInfo
    settled = Signal()

    def __init__(self, jobs: Jobs, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None

    def ask(self, source: Path) -> None:
        """Begins with a source; what was asked before no longer matters."""
        self.close()
        recipes = tuple(kind.name for kind in OFFERED)
        target = source.with_name(f"{source.name}.planned.gguf")
        line = request_line(source, target, recipes, dry_run=True)
        job = self._job = Job(convert_command(), line, name="")
        job.received.connect(self._receive)  # bound methods only: a job may outlive the page that asked
        job.ended.connect(self._end)
        self._jobs.run_beside(job)

    def close(self) -> None:
        """Ends the child, if one is at work."""
        if self._job is not None:
            job, self._job = self._job, None
            job.received.disconnect(self._receive)
            job.ended.disconnect(self._end)
            job.kill()

    def _receive(self, event: dict[str, Any]) -> None:
        if event["event"] == "planned":
            self.planned.emit(str(event.get("type", "")), event)

    def _end(self) -> None:
        job, self._job = self._job, None
        if job is not None and job.state is JobState.FAILED and job.error is not None:
            self.failed.emit(job.error)
        self.settled.emit()
