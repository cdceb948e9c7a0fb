"""What a folder made for sentence-transformers says about its vectors: pooling, length, and steps behind the model.

These are modules.json, the pooling's config.json and sentence_bert_config.json. Knows no model.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from runtime.config_files import read_config
from runtime.model_errors import DamagedModel, UnsupportedModel
from runtime.reading import Pooling
from runtime.text import _

_POOLINGS: dict[str, Pooling] = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
_MODES = {"cls": "cls", "mean": "mean", "lasttoken": "last"}  # the newer spelling
_KNOWN = ("Transformer", "Pooling", "Normalize")
_MOST_BYTES = 1 << 16


class SentenceFiles(NamedTuple):
    """`pooling` is "auto" where nothing is said; `max_tokens` 0. `unknown` names what this version does not compute."""

    pooling: Pooling = "auto"
    max_tokens: int = 0
    unknown: str = ""

    def require_known(self, path: Path) -> None:
        """Raises `UnsupportedModel` where the vectors would not be what the folder says."""
        if self.unknown:
            what = _("Its vectors pass through “{step}”, which this version does not compute.")
            hint = _("Name a pooling (--pooling) to get vectors without that step, or choose another model.")
            raise UnsupportedModel(path, what.format(step=self.unknown), hint)


def read_sentence_files(folder: Path) -> SentenceFiles:
    """Returns what the folder says. Raises `DamagedModel` and `ModelUnreadable`."""
    length = read_config(folder / "sentence_bert_config.json").get("max_seq_length")
    max_tokens = length if isinstance(length, int) and length > 0 else 0
    pooling: Pooling = "auto"
    unknown = ""
    for kind, place in _modules(folder):
        if kind == "Pooling":
            said = _pooling(read_config(folder / place / "config.json"))
            pooling, unknown = (said, unknown) if said is not None else (pooling, unknown or kind)
        elif kind not in _KNOWN:
            unknown = unknown or kind
    return SentenceFiles(pooling, max_tokens, unknown)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Returns each step's kind and the folder inside that belongs to it."""
    path = folder / "modules.json"
    if not path.is_file():
        place = "1_Pooling"
        return [("Pooling", place)] if (folder / place / "config.json").is_file() else []
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES)
    try:
        steps = json.loads(text)
        found = [(str(step["type"]).rpartition(".")[2], str(step.get("path", ""))) for step in steps]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedModel(path, _("It is no sound JSON: {error}.").format(error=error)) from error
    if any(".." in PurePosixPath(place).parts or PurePosixPath(place).is_absolute() for _kind, place in found):
        raise DamagedModel(path, _("It names files outside of its folder."))
    return found


def _pooling(said: dict[str, Any]) -> Pooling | None:
    """Returns the pooling that a config names; None for one, or a combination, that is not computed here."""
    if isinstance(said.get("pooling_mode"), str):
        return _MODES.get(said["pooling_mode"])  # type: ignore[return-value]
    start = "pooling_mode_"
    on = [key.removeprefix(start) for key, value in said.items() if key.startswith(start) and value is True]
    return _POOLINGS.get(on[0]) if len(on) == 1 else None
