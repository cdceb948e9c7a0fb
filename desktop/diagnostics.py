"""What helps to find a fault, as a text to read and to copy: versions, the model, the logs' ends. For threads.

No chat is read. Names of files in the person's folder are taken out, also of logs of earlier versions, and long lines
are cut.
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
from runtime.private_text import without_private
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
        (_("Changed settings"), list(changed) or [_("all as they are by default")]),
        (_("Network"), network.report(places.logs)),
        (_("Places"), [str(place) for place in (places.config, places.data, places.logs, places.models)]),
        *((path.name, _tail(path)) for path in sorted(places.logs.glob("*.log"))),
    ]
    text = "\n\n".join("\n".join([title, *(f"  {line[:_LONGEST]}" for line in lines)]) for title, lines in parts)
    return text.replace(str(Path.home()), "~") if len(str(Path.home())) > 1 else text


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
        f"{_name_of(path_of(engine.path))}  {engine.architecture}  {data_size(engine.size_bytes)}",
        f"{engine.engine} {engine.build}", f"{held}, devices {', '.join(engine.devices) or 'cpu'}",
        *map(without_private, (*engine.notes, *engine.backends)),
    ]  # fmt: skip


def _name_of(path: Path) -> str:
    """Returns a file's name, but only its ending where it lies in the person's folder."""
    return without_private(str(path)) if path.is_relative_to(Path.home()) else path.name


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise LogUnreadable(path, error.strerror or str(error)) from error
    return without_private("\n".join(text.splitlines()[-_LINES:])).splitlines()


class LogUnreadable(UserError):
    """A log that the system does not let be read."""

    code = "log_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The log “{name}” cannot be read.").format(name=path.name), reason,
            _("Look at the folder of the logs: the file may belong to another user."),
        )  # fmt: skip
