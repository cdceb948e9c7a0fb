"""Starts the window: the one place where the objects meet. Loads nothing before the first paint that it does not need.

Order of a start: can a window open at all, is Quern running already, settings and language, the window, and only
after it was painted the chats, the models and the engine. Order of an end: chats, engine, store, settings.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from desktop.platform_check import check_platform
from runtime.errors import UserError
from runtime.text import set_language

if TYPE_CHECKING:
    from desktop.application import Application

_log = logging.getLogger(__name__)


def main(words: list[str] | None = None) -> int:
    """Opens the window, with the model file that `words` may name, and returns the exit code when it is closed."""
    arguments = sys.argv[1:] if words is None else words
    set_language()
    try:
        check_platform()
        application = _application(arguments)
    except UserError as error:
        _say(str(error))
        return 2
    return application.run() if application is not None else 0


def _application(arguments: list[str]) -> Application | None:
    from desktop.application import Application

    path = str(Path(arguments[0]).absolute()) if arguments else ""
    return Application.started(path)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")
