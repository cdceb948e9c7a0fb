"""What helps to find a fault, as a text to read and to copy: versions, the model, the logs' ends. For threads.

No chat is read. Whatever in a log names the person's folders is shortened, and so is every line.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import qVersion

from desktop.human import data_size
from runtime import network
from runtime.errors import UserError
from runtime.places import Places, path_of
from runtime.protocol import EngineInfo
from runtime.text import _, language

_LINES, _LONGEST, _TAIL_BYTES = 120, 300, 65_536
_PACKAGES = ("quern", "PySide6-Essentials", "llama-cpp-python", "torch", "msgspec", "tokenizers")


def report(places: Places, engine: EngineInfo | None, changed: Sequence[str]) -> str:
    """Returns the whole text. `changed` are the settings that differ from their defaults, as name=value."""
    parts = [
        (_("This computer"), _machine()),
        (_("Versions"), _versions()),
        (_("Model"), _model(engine)),
        (_("Changed settings"), list(changed)),
        (_("Network"), network.report(places.logs)),
        (_("Places"), [str(place) for place in (places.config, places.data, places.logs, places.models)]),
        *((path.name, _tail(path)) for path in sorted(places.logs.glob("*.log"))),
    ]
    text = "\n\n".join("\n".join([title, *(f"  {line[:_LONGEST]}" for line in lines)]) for title, lines in parts)
    return _without_home(text)


def _machine() -> list[str]:
    from runtime import devices, memory

    cores = _("{n} cores, {free} of {total} of memory are free").format(
        n=devices.usable_cores(), free=data_size(memory.free_memory()), total=data_size(memory.total_memory())
    )
    return [platform.platform(), platform.processor() or platform.machine(), cores, language()]


def _versions() -> list[str]:
    return [f"Python {platform.python_version()}", f"Qt {qVersion()}", *_packages()]


def _packages() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _model(engine: EngineInfo | None) -> list[str]:
    if engine is None:
        return [_("none is loaded")]
    held = f"context {engine.context_length}, cache {engine.kv_type_k}/{engine.kv_type_v}, threads {engine.threads}"
    return [
        f"{path_of(engine.path).name}  {engine.architecture}  {data_size(engine.size_bytes)}",
        f"{engine.engine} {engine.build}", f"{held}, devices {', '.join(engine.devices) or 'cpu'}", *engine.notes,
        *engine.backends,
    ]  # fmt: skip


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise LogUnreadable(path, error.strerror or str(error)) from error
    return text.splitlines()[-_LINES:]


def _without_home(text: str) -> str:
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


class LogUnreadable(UserError):
    """A log that the system does not let be read."""

    code = "log_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(_("The log “{name}” cannot be read.").format(name=path.name), reason)
