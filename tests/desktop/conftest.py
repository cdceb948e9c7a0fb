"""What tests of the window share."""

from __future__ import annotations

import gc
import sys

import pytest

_MANY = 5_000  # objects made since the last collection; a whole one takes a twentieth of a second


@pytest.fixture(autouse=True)
def _no_widgets_left() -> None:
    """Deletes what the test before has let go of, in this thread.

    Qt waits for an event loop to do it, and Python might do it in a thread that writes a file: it stays disabled.
    """
    gc.disable()
    if "PySide6.QtWidgets" in sys.modules:
        from PySide6.QtCore import QCoreApplication, QEvent

        if QCoreApplication.instance() is not None:
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
            if gc.get_count()[0] > _MANY:
                gc.collect()
