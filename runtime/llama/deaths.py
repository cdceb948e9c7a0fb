"""Notices that processor code which passed its trial has ended a process all the same.

A trial cannot reach every instruction. Python's fault handler writes into a file that is kept for each library, and
whoever starts next reads it. Knows nothing about what is then used instead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import re
from pathlib import Path
from typing import BinaryIO

from runtime.places import UnwritablePlace, make_folder

_ILLEGAL = re.compile(rb"illegal instruction|0xc000001d", re.IGNORECASE)  # as Unix and Windows are told
_LARGEST = 1 << 16
_log = logging.getLogger(__name__)


class Deaths:
    """The files in one folder; without a folder nothing is noticed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._open: BinaryIO | None = None  # the fault handler knows its number only

    def watch(self, library: Path) -> None:
        """From now on, an illegal instruction that ends this process is held against the library.

        A fault handler that somebody else has set up stays as it is.
        """
        if self._folder is None or faulthandler.is_enabled():
            return
        try:
            self._open = (make_folder(self._folder) / library.name).open("ab", buffering=0)
            faulthandler.enable(self._open, all_threads=False)
        except (OSError, UnwritablePlace) as error:
            _log.warning("an end by %s would not be noticed: %s", library.name, error)

    def of(self, library: Path) -> bool:
        """Says whether the library has ended a process since this was asked last."""
        if self._folder is None:
            return False
        file = self._folder / library.name
        with contextlib.suppress(OSError):
            if file.stat().st_size:
                told = file.read_bytes()[:_LARGEST]
                file.write_bytes(b"")
                return _ILLEGAL.search(told) is not None
        return False
