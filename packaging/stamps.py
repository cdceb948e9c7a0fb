"""Remembers which steps of the set-up are done, so that the next run skips them. Knows nothing about the steps.

A stamp is a small file that holds a hash of everything its step depends on. It lies in the environment it speaks of, so
that both go away together, and is written only after the step has succeeded.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def fingerprint(*inputs: object) -> str:
    """Returns a short hash of `inputs` (anything JSON can hold)."""
    text = json.dumps(inputs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Stamps:
    """The stamps kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_done(self, step: str, key: str) -> bool:
        """Says whether `step` was finished with just these inputs."""
        try:
            return self._path(step).read_text(encoding="ascii") == key
        except OSError:
            return False

    def mark(self, step: str, key: str) -> None:
        """Records that `step` is finished."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._path(step).with_suffix(".part")
        part.write_text(key, encoding="ascii")
        part.replace(self._path(step))

    def forget(self, step: str) -> None:
        """Drops the record of `step`, before something is done that would make it untrue."""
        self._path(step).unlink(missing_ok=True)

    def _path(self, step: str) -> Path:
        return self._folder / f"quern-{step}.stamp"


@contextmanager
def only_one(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the file `lock` while the block runs; calls `waiting` once when another set-up holds it, then waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        if not _try_lock(file.fileno()):
            waiting()
            while not _try_lock(file.fileno()):
                time.sleep(0.5)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        with suppress(OSError):
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return True
        return False

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
