"""Work that reads or moves files, done in a thread; what came of it arrives in the window's thread. Knows no work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal, Slot

from runtime.errors import ErrorInfo, UserError

_T = TypeVar("_T")


class _Mail(QObject):
    """What a thread signals through. It has no parent: a widget that goes away must not take it from the thread."""

    came = Signal(object, object)  # what to call, and with what


class Background(QObject):
    """Runs functions in daemon threads: a slow disk must not hold up the end of the application.

    Give it a parent: what comes after the parent is gone is dropped.
    """

    failed = Signal(object)  # ErrorInfo, where a call named nobody who takes it

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._mail = _Mail()
        self._mail.came.connect(self._deliver)

    def run(
        self,
        work: Callable[[], _T],
        then: Callable[[_T], object] | None = None,
        *,
        failed: Callable[[ErrorInfo], object] | None = None,
    ) -> None:
        """Does the work; then calls `then` with what it returned, or `failed` with the `UserError` it raised."""

        mail, otherwise = self._mail, failed or self.failed.emit

        def done() -> None:
            try:
                result: Any = work()
                callback: Any = then
            except UserError as error:
                result, callback = error.info, otherwise
            with contextlib.suppress(RuntimeError):  # the application is gone, and nobody is left to be told
                mail.came.emit(callback, result)

        threading.Thread(target=done, name="background", daemon=True).start()

    @Slot(object, object)
    def _deliver(self, callback: Callable[[Any], object] | None, result: Any) -> None:
        if callback is not None:
            callback(result)
