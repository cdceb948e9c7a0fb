"""What tests of the window share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_widgets_left() -> None:
    """Deletes what the test before has let go of: Qt itself waits for an event loop, and widgets would pile up."""
    if "PySide6.QtWidgets" in sys.modules:
        from PySide6.QtCore import QCoreApplication, QEvent

        if QCoreApplication.instance() is not None:
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
