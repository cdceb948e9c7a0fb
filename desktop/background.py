"""Work that reads or moves files, done in a thread; what came of it arrives in the window's thread. Knows no work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from PySide6.QtCore import QCoreApplication, QObject, Signal, Slot
from shiboken6 import isValid

from runtime.errors import ErrorInfo, UserError

_T = TypeVar("_T")
_BROKEN = object()  # the error of work that raised what no person can act on; Python reports it


@dataclass(frozen=True, slots=True)
class _Errand:
    """What is to be done, for whom, and who takes what comes of it."""

    owner: Background
    work: Callable[[], Any]
    then: Callable[[Any], object] | None
    failed: Callable[[ErrorInfo], object] | None


class _Courier(QObject):
    """Holds what the threads are to do, and brings back what came of it. There is one, and the application owns it.

    A thread holds a number and the courier: were it the last to hold a widget or another object of Qt, that would be
    destroyed in the thread, while the window's thread may still be sending it something.
    """

    _done = Signal(int, object, object)  # number; the result; the UserError or _BROKEN, None where all went well

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._errands: dict[int, _Errand] = {}
        self._next = 0
        self._done.connect(self._deliver)

    @classmethod
    def of_the_application(cls) -> _Courier:
        """Returns the one of the application, made when it is first asked for."""
        application = QCoreApplication.instance()
        assert application is not None, "there is nobody to tell what came of it"
        return application.findChild(cls) or cls(application)

    def send(self, errand: _Errand) -> None:
        """Begins an errand in a daemon thread."""
        self._next += 1
        self._errands[self._next] = errand
        threading.Thread(target=self._go, args=(self._next,), name="background", daemon=True).start()

    def _go(self, number: int) -> None:
        result: Any = None
        error: Any = _BROKEN
        try:
            result, error = self._errands[number].work(), None
        except UserError as raised:
            error = raised
        finally:
            with contextlib.suppress(RuntimeError):  # the application is gone, and nobody is left to be told
                self._done.emit(number, result, error)

    @Slot(int, object, object)
    def _deliver(self, number: int, result: Any, error: Any) -> None:
        errand = self._errands.pop(number)
        if error is _BROKEN or not isValid(errand.owner):
            return
        if error is not None:
            (errand.failed or errand.owner.failed.emit)(error.info)
        elif errand.then is not None:
            errand.then(result)


class Background(QObject):
    """Runs functions in daemon threads: a slow disk must not hold up the end of the application.

    Give it a parent: what comes after the parent is gone is dropped.
    """

    failed = Signal(object)  # ErrorInfo, where a call named nobody who takes it

    def run(
        self,
        work: Callable[[], _T],
        then: Callable[[_T], object] | None = None,
        *,
        failed: Callable[[ErrorInfo], object] | None = None,
    ) -> None:
        """Does the work; then calls `then` with what it returned, or `failed` with the `UserError` it raised."""
        _Courier.of_the_application().send(_Errand(self, work, then, failed))
