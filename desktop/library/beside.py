"""The models that were opened from outside the library's folders, described for its list; for threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from desktop.library.facts import MISSING, OPENED
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo


def beside(found: Sequence[ModelInfo], paths: Sequence[Path]) -> Iterator[ModelInfo]:
    """Yields an entry for each path that is not among `found`; one for what is gone says so."""
    from runtime import describe
    from runtime.places import shown_path

    known = {_identity(info.path) for info in found}
    for path in paths:
        identity = _identity(path)
        if identity in known:
            continue
        known.add(identity)
        if os.path.isdir(path):
            continue  # a folder is remembered by the settings
        if os.path.exists(path):
            yield describe.gguf_file(path, source=OPENED)
        else:
            reason = _("The file is gone from {folder}.").format(folder=shown_path(path.parent))
            yield describe.ModelInfo(name=path.stem, path=path, kind="gguf", source=MISSING, reason=reason)


def _identity(path: Path) -> tuple[object, ...]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return (os.path.abspath(path),)
    return (status.st_dev, status.st_ino) if status.st_ino else (os.path.realpath(path),)
