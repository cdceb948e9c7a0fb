"""From what a person typed as MODEL to an engine that holds it, with progress on stderr. Knows no command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from desktop.cli import output
from desktop.cli.interrupt import Interrupts
from desktop.cli.layout import harmless
from desktop.cli.options import Settings
from runtime import engines
from runtime.engine import Embedder, Engine, Inspector
from runtime.params import LoadParams, SamplingParams
from runtime.text import _

Held = TypeVar("Held", Engine, Embedder, Inspector)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The model that a command is about, and the settings that apply to it."""

    name: str
    path: Path
    sampling: SamplingParams
    load: LoadParams


def wanted(model: str | None, values: Mapping[str, Any]) -> Wanted:
    """Returns the model that was named, or the saved one, with its settings.

    Raises `UserError` where there is no such model or the flags exclude each other.
    """
    from runtime.library import resolve

    settings = Settings.read(values)
    found = resolve(settings.app.model if model is None else model)
    return Wanted(found.name, found.path, settings.sampling(found.key), settings.load(found.key))


def opened(model: Wanted) -> contextlib.AbstractContextManager[Engine]:
    """Loads the model and frees it at the end. Ctrl-C while loading ends the command. Raises `UserError`."""
    return _held(model, engines.open_engine)


def opened_embedder(model: Wanted) -> contextlib.AbstractContextManager[Embedder]:
    """Does what `opened` does, to make vectors only: the model need not be able to write. Raises `UserError`."""
    return _held(model, engines.open_embedder)


def opened_inspector(model: Wanted) -> contextlib.AbstractContextManager[Inspector]:
    """Does what `opened` does, to look into the model. Raises `UserError`."""
    return _held(model, engines.open_inspector)


@contextlib.contextmanager
def _held(model: Wanted, load: Callable[..., Held]) -> Iterator[Held]:
    status, interrupts = output.StatusLine(), Interrupts()

    def progress(fraction: float) -> bool:
        status.show(_("Loading {name}: {percent} %").format(name=harmless(model.name), percent=int(100 * fraction)))
        return not interrupts.stop.is_set()

    with interrupts:
        status.show(_("Loading {name}").format(name=harmless(model.name)))
        try:
            held = load(model.path, model.load, listener=progress, stop=interrupts.stop)
        except Exception:
            if interrupts.stop.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            status.clear()
    try:
        yield held
    finally:
        held.close()
