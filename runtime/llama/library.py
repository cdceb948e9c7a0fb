"""Loads llama.cpp and its back ends, once for the process. The only file that imports `llama_cpp`.

Two kinds of build work: back ends linked into the library, and back ends that are files of their own
(`GGML_BACKEND_DL`), among which `backends.py` chooses; each is loaded by its full path.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import logging
import os
import re
import sys
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runtime.errors import UserError
from runtime.llama.backends import AUTO, BackendReport, Backends, registering
from runtime.llama.deaths import Deaths
from runtime.llama.files import EngineLibraryMissing, backend_files, library_folder
from runtime.llama.verdicts import Verdicts
from runtime.params import LoadParams
from runtime.places import places
from runtime.spinning import bound_spinning
from runtime.text import _

_LOG_LINES = 200
_GPU, _INTEGRATED_GPU = 1, 2  # enum ggml_backend_dev_type
_DEBUG_LEVEL = 1  # GGML_LOG_LEVEL_DEBUG
_logger = logging.getLogger(__name__)
_log: deque[str] = deque(maxlen=_LOG_LINES)


def load_library(variant: str = AUTO, *, cards: bool | None = None) -> Any:
    """Returns the module of llama.cpp's C functions, with back ends registered.

    `variant` names the processor code to use where there are several builds of it; only the first call decides. With
    `cards` off, no driver of a graphics card is touched until a call asks for one; unsaid, the first call does. Raises
    `EngineLibraryMissing`, and what `Backends.use` raises.
    """
    library = _functions()
    if (backends := _own_backends()) is not None:
        backends.use(variant, cards=cards)
    return library


def load_library_for(params: LoadParams) -> Any:
    """Returns what `load_library` does, with what a model is to be loaded with."""
    return load_library(params.cpu_variant, cards=any(name.strip().lower() != "cpu" for name in params.devices))


def load_library_again() -> Any:
    """Does what `load_library` does in a new process, and gives another chance to back ends that failed before."""
    _functions()
    if (backends := _own_backends()) is not None:
        backends.use(again=True)
    return load_library()


def load_for_trial(file: Path, *, with_processor: bool = False) -> Any:
    """Returns the functions with this one back end registered, untried; with one for the processor where asked."""
    library, backends = _functions(), _own_backends()
    if backends is not None:
        if with_processor:
            backends.use_processor()
        backends.use_only(file)
    return library


@cache
def _functions() -> Any:
    bound_spinning()
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # at an abort, ggml would wait for a debugger and bury its reason
    library = _import_functions()
    library.llama_log_set(_log_callback(library), ctypes.c_void_p(0))
    library.llama_backend_init()
    return library


def variant_notes(wanted: str) -> list[str]:
    """Returns what a person should know who named other processor code than what is in use."""
    used = backend_report().variant
    if wanted.lower() in (AUTO, used):
        return []
    if not used:
        return [_("This build of llama.cpp holds one processor code; “{name}” has no effect.").format(name=wanted[:60])]
    note = _("The engine runs on the processor code “{used}”; “{name}” is used when it starts again.")
    return [note.format(used=used, name=wanted[:60])]


def log_tail(lines: int = 20) -> str:
    """Returns the last lines that llama.cpp logged, for the details of an error."""
    return "".join(list(_log)[-lines:]).strip()


def clear_log() -> None:
    """Forgets what was logged, so that `log_tail` tells of what comes next."""
    _log.clear()


def log_lines() -> tuple[str, ...]:
    """Returns the kept log lines, oldest first."""
    return tuple(_log)


def last_reason(log: str) -> str:
    """Returns the log's most telling line, without the names of functions before it."""
    lines = [re.sub(r"^(?:[\w:~<>]+: )+", "", line.strip()) for line in log.splitlines() if line.strip()]
    for pattern in (r"^error ", r"\berror\b|\bfailed\b|\bunable\b", r"\binvalid|\bunknown|\bunsupported|\bmissing"):
        telling = [line for line in lines if re.search(pattern, line, re.IGNORECASE)]
        if telling:
            return telling[0]
    return lines[-1] if lines else ""


def _import_functions() -> Any:
    """Imports `llama_cpp.llama_cpp` without the package around it.

    The package's `__init__` imports its high-level classes, and with them numpy, Jinja and a disk cache: 150 ms and
    30 MB that this engine has no use for.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.submodule_search_locations is None:
        raise EngineLibraryMissing(_("The Python package llama-cpp-python is not installed."))
    sys.modules.setdefault("llama_cpp", importlib.util.module_from_spec(spec))
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    except (OSError, RuntimeError, FileNotFoundError, AttributeError) as error:
        raise EngineLibraryMissing(str(error)) from error


@cache
def _log_callback(library: Any) -> Any:
    def keep(level: int, text: bytes, _data: object) -> None:
        line = text.decode("utf-8", "replace")
        if level != _DEBUG_LEVEL:  # a line for each node of the graph would push out the rest
            _log.append(line)
        _logger.debug("%s", line.rstrip())

    return library.llama_log_callback(keep)


# --- back ends --------------------------------------------------------------------------------------------------


@cache
def _own_backends() -> Backends | None:
    """Returns what chooses among the back ends; None where they are linked into the library."""
    ggml = _ggml()
    if ggml.ggml_backend_reg_count() > 0:
        return None
    verdicts, deaths = Verdicts(_kept("backends.json")), Deaths(_kept("backends-in-use"))
    return Backends(backend_files(), registering(ggml), verdicts=verdicts, deaths=deaths)


def _kept(name: str) -> Path | None:
    try:
        return places().cache / name
    except UserError:  # no home: it is found out anew each time
        return None


def backend_report() -> BackendReport:
    """Returns which back ends were chosen and which were left out. Loads the library."""
    load_library()
    backends = _own_backends()
    if backends is None:
        return BackendReport()
    return BackendReport(
        variant=backends.variant, others=tuple(backends.others), cards=tuple(backends.cards),
        left_out=tuple(backends.left_out),
    )  # fmt: skip


@cache
def _ggml() -> Any:
    """Returns libggml as libllama has it: `libggml.so` beside `libggml.so.0` is a second copy with its own registry."""
    folder = library_folder()
    names = {"win32": ["ggml.dll"], "darwin": ["libggml.0.dylib", "libggml.dylib"]}
    for name in names.get(sys.platform, ["libggml.so.0", "libggml.so"]):
        if (folder / name).exists():
            ggml = ctypes.CDLL(str(folder / name))
            ggml.ggml_backend_reg_count.restype = ctypes.c_size_t
            ggml.ggml_backend_load.argtypes = [ctypes.c_char_p]
            ggml.ggml_backend_load.restype = ctypes.c_void_p
            ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
            ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
            ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
            return ggml
    raise EngineLibraryMissing(_("The library {name} is missing.").format(name=str(folder / "libggml")))


@cache
def load_ggml_base() -> Any:
    """Returns libggml-base: types and their conversions, devices. Loads nothing else; raises `EngineLibraryMissing`."""
    file = _base_file(library_folder())
    try:
        base = ctypes.CDLL(str(file))
    except OSError as error:
        raise EngineLibraryMissing(str(error)) from error
    base.ggml_blck_size.argtypes = base.ggml_type_size.argtypes = [ctypes.c_int]
    base.ggml_blck_size.restype = ctypes.c_int64
    base.ggml_type_size.restype = ctypes.c_size_t
    base.ggml_quantize_requires_imatrix.argtypes = [ctypes.c_int]
    base.ggml_quantize_requires_imatrix.restype = ctypes.c_bool
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    base.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, number, number, number, pointer]
    base.ggml_quantize_chunk.restype = ctypes.c_size_t
    base.ggml_backend_dev_memory.argtypes = [pointer, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)]
    base.ggml_backend_dev_memory.restype = None
    for function in (base.ggml_backend_dev_name, base.ggml_backend_dev_description, base.ggml_backend_dev_type):
        function.argtypes = [pointer]
    base.ggml_backend_dev_name.restype = base.ggml_backend_dev_description.restype = ctypes.c_char_p
    base.ggml_backend_dev_type.restype = ctypes.c_int
    base.ggml_backend_cpu_buffer_type.restype = pointer
    return base


def _base_file(folder: Path) -> Path:
    names = {"win32": ["ggml-base.dll"], "darwin": ["libggml-base.0.dylib", "libggml-base.dylib"]}
    for name in names.get(sys.platform, ["libggml-base.so.0", "libggml-base.so"]):
        if (folder / name).exists():
            return folder / name
    raise EngineLibraryMissing(_("The library {name} is missing.").format(name=str(folder / "libggml-base")))


@dataclass(frozen=True, slots=True)
class Device:
    """Something that llama.cpp can compute on. `kind` is its `ggml_backend_dev_type`, `handle` its pointer."""

    name: str
    description: str
    kind: int
    handle: int

    @property
    def is_card(self) -> bool:
        """Whether it is a graphics card, or another computer that acts as one."""
        return self.kind in (_GPU, _INTEGRATED_GPU)

    @property
    def shares_memory(self) -> bool:
        """Whether it is a graphics card within the processor."""
        return self.kind == _INTEGRATED_GPU


def devices() -> tuple[Device, ...]:
    """Returns what llama.cpp can compute on, in its order. Loads the library."""
    load_library()
    ggml, base = _ggml(), load_ggml_base()
    handles = [ggml.ggml_backend_dev_get(index) for index in range(ggml.ggml_backend_dev_count())]
    return tuple(
        Device(
            base.ggml_backend_dev_name(handle).decode("utf-8", "replace"),
            base.ggml_backend_dev_description(handle).decode("utf-8", "replace").strip(),
            base.ggml_backend_dev_type(handle),
            handle,
        )
        for handle in handles
    )


def device_memory(device: Device) -> tuple[int, int]:
    """Returns the free and the whole memory of a device, in bytes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    load_ggml_base().ggml_backend_dev_memory(device.handle, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def device_names() -> tuple[str, ...]:
    """Returns what llama.cpp can compute on, such as "CPU: Intel Xeon". Loads the library."""
    return tuple(f"{device.name}: {device.description}" for device in devices())


def cpu_buffer_type() -> int:
    """Returns the pointer that stands for the processor's own memory."""
    load_library()
    return int(load_ggml_base().ggml_backend_cpu_buffer_type())


def build_description() -> str:
    """Returns llama.cpp's version and the processor features it was built with, on one line."""
    library = load_library()
    features = library.llama_print_system_info().decode("utf-8", "replace").strip()
    version = library._lib.llama_version
    version.restype = ctypes.c_char_p
    variant = backend_report().variant
    return " · ".join(part for part in (f"llama.cpp {version().decode()}", variant, features) if part)
