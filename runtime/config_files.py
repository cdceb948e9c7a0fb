"""Reads the JSON files that belong to a model in a folder. They were written by others and may hold anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runtime.model_errors import DamagedModel, ModelUnreadable
from runtime.text import _

_MAX_JSON = 1 << 26


def read_config(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file, {} where there is no file. Raises like `read_object`."""
    return read_object(path) if path.exists() else {}


def read_object(path: Path, *, limit: int = _MAX_JSON) -> dict[str, Any]:
    """Returns the object in a JSON file; `Infinity` and `NaN` are read. Raises `ModelUnreadable`, `DamagedModel`."""
    if not path.is_file():
        raise ModelUnreadable(path, _("It is no ordinary file."))
    with path.open("rb") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise DamagedModel(path, _("It is larger than {n} bytes.").format(n=f"{limit:,}"))
    try:
        read = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DamagedModel(path, _("It is no sound JSON: {error}.").format(error=error)) from error
    if not isinstance(read, dict):
        raise DamagedModel(path, _("It is no JSON object."))
    return read
