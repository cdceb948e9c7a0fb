"""Ends a pass through a model in its middle, since one over many tokens takes long. Knows no model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from runtime.engine import StopFlag
from runtime.evaluation import Stopped


@contextmanager
def stoppable(model: nn.Module, stop: StopFlag) -> Iterator[None]:
    """Meanwhile every part of the model looks at the flag before it computes, and raises `Stopped` where it is set."""

    def look(_module: nn.Module, _inputs: object) -> None:
        if stop.is_set():
            raise Stopped

    hooks = [part.register_forward_pre_hook(look) for part in model.modules() if not list(part.children())]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
