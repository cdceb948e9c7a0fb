"""What tests of the command line share: a command's outcome, and the stand-in for opening an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_engine import FakeEngine
from runtime.params import LoadParams


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


class Opened:
    """Stands in for `open_engine`: hands out a fake engine and remembers how it was asked for."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.path = Path()
        self.params = LoadParams()

    def __call__(self, path: Path, params: LoadParams, **_options: Any) -> FakeEngine:
        self.path, self.params = path, params
        return self.engine
