"""What was loaded, as far as it decides what an answer will be: model, settings, adapters. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.adapters import ChosenAdapter, read_adapter
from runtime.engine import StopFlag
from runtime.model_files import Stamps, stamps_of
from runtime.model_hash import ModelHashes
from runtime.params import LoadParams
from runtime.receipt import deciding


@dataclass(frozen=True, slots=True)
class Conditions:
    """`settings` are those that decide and differ from the defaults.

    `adapters` holds the hashes of the files of each adapter in use, `stamps` what the model's files were when it was
    loaded: a path tells nothing of what lies there later.
    """

    model: Path
    settings: dict[str, Any]
    stamps: Stamps
    adapters: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, model: Path, params: LoadParams, *, stamps: Stamps, stop: StopFlag | None = None) -> Conditions:
        """Reads adapters whose hashes are not known. Raises `HashingStopped` and what opening files raises."""
        hashes = ModelHashes()
        adapters = tuple(hashes.of(adapter.path, stop=stop) for adapter in in_use(params.lora))
        return cls(model, deciding(params), stamps, adapters)

    @property
    def still_there(self) -> bool:
        """Whether the model's files are those that were loaded."""
        return self.stamps == stamps_of(self.model) != ()


def in_use(written: Iterable[str]) -> list[ChosenAdapter]:
    """Returns the adapters of a setting but those that are turned off."""
    return [adapter for adapter in map(read_adapter, written) if adapter.scale]


def differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that are not the same; adapters may lie elsewhere by now."""
    names = sorted(name for name in then.keys() | now.keys() if name != "lora" and then.get(name) != now.get(name))
    return names if _scales(then) == _scales(now) else [*names, "lora"]


def _scales(settings: Mapping[str, Any]) -> list[float]:
    return [adapter.scale for adapter in in_use(settings.get("lora", ()))]
