"""Which devices hold which part of a model: from the settings to llama.cpp's pointers. Loads no model."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

from runtime.errors import UserError
from runtime.llama import library as llama_library
from runtime.llama.library import Device
from runtime.params import LoadParams
from runtime.settings import field_of
from runtime.tensor_split import read_split
from runtime.text import _

AUTO = "auto"
_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}  # enum llama_split_mode
# The experts' matrices as llama.cpp names them: gate and up may be one, "ch" are experts that share a chunk
_EXPERTS = rb"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


class UnknownDevice(UserError):
    """A device that llama.cpp does not have here."""

    code = "unknown_device"

    def __init__(self, name: str, present: Sequence[Device]) -> None:
        listed = ", ".join(f"{device.name} ({device.description})" for device in present)
        super().__init__(
            _("There is no device “{name}”.").format(name=name[:60]),
            _("llama.cpp can compute on: {devices}.").format(devices=listed),
            _("Choose one of these, or “auto”."),
        )


class NoSuchCard(UserError):
    """The number of the main card is higher than there are cards."""

    code = "no_such_card"

    def __init__(self, number: int, count: int) -> None:
        super().__init__(
            _("There is no graphics card with the number {number}.").format(number=number),
            _("The cards in use have the numbers 0 to {last}.").format(last=count - 1),
            _("Choose another main card in the settings."),
        )


class _Override(ctypes.Structure):
    """struct llama_model_tensor_buft_override: weights whose name a pattern finds, and the kind of memory for them."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


class Placement:
    """Where one model goes. Owns the memory that llama.cpp's parameters point to while the model is loaded.

    Raises `UnknownDevice`, `NoSuchCard`.
    """

    def __init__(self, params: LoadParams, present: Sequence[Device]) -> None:
        self._params = params
        self._shares = read_split(params.tensor_split)
        self._chosen = _chosen(params.devices, present)
        self._cards = cards_for(params, present)
        if self._cards and params.split_mode != "layer" and params.main_gpu >= len(self._cards):
            raise NoSuchCard(params.main_gpu, len(self._cards))

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics card computes any layer."""
        return bool(self._cards) and self._params.gpu_layers != 0

    def apply(self, native: Any) -> None:
        """Fills in llama.cpp's parameters for loading; they point into this object."""
        native.split_mode = _SPLIT_MODES[self._params.split_mode]
        native.main_gpu = self._params.main_gpu
        if self._chosen is not None:
            handles = [device.handle for device in self._chosen]
            self._handles = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
            native.devices = ctypes.addressof(self._handles)
        if self._shares:
            count = llama_library.load_library().llama_max_devices()
            self._floats = (ctypes.c_float * count)(*self._shares)
            native.tensor_split = self._floats
        patterns = _expert_patterns(self._params.experts_on_cpu)
        if patterns:
            kind = llama_library.cpu_buffer_type()
            entries = [_Override(pattern, kind) for pattern in patterns]
            self._overrides = (_Override * (len(entries) + 1))(*entries, _Override(None, None))
            native.tensor_buft_overrides = ctypes.addressof(self._overrides)

    def notes(self) -> Iterator[str]:
        """Yields what the person should know: settings for graphics cards that have no effect."""
        asked = [_(field_of(LoadParams, name).setting.title) for name in _asked(self._params)]
        if asked and not self._cards:
            note = _("llama.cpp uses no graphics card here, so these settings have no effect: {names}.")
            yield note.format(names=", ".join(asked))
        elif len(self._shares) > len(self._cards):
            note = _("There are shares for {n} graphics cards and {count} in use; the rest have no effect.")
            yield note.format(n=len(self._shares), count=len(self._cards))


def cards_for(params: LoadParams, present: Sequence[Device]) -> list[Device]:
    """Returns the graphics cards that the settings put to use. Raises `UnknownDevice`."""
    chosen = _chosen(params.devices, present)
    return _usable_cards(present) if chosen is None else chosen


def _asked(params: LoadParams) -> Iterator[str]:
    """Yields the settings by which a person asked for graphics cards."""
    if params.gpu_layers > 0:
        yield "gpu_layers"
    for name in ("split_mode", "tensor_split", "main_gpu"):
        if getattr(params, name) != field_of(LoadParams, name).default:
            yield name


def _chosen(names: Sequence[str], present: Sequence[Device]) -> list[Device] | None:
    """Returns the graphics cards of these names; None where llama.cpp shall choose."""
    if all(name.lower() == AUTO for name in names):
        return None
    devices = [_named(name, present) for name in dict.fromkeys(names) if name.lower() != AUTO]
    return [device for device in devices if device.is_card]


def _named(name: str, present: Sequence[Device]) -> Device:
    found = [device for device in present if device.name.lower() == name.strip().lower()]
    if not found:
        raise UnknownDevice(name, present)
    return found[0]


def _usable_cards(present: Sequence[Device]) -> list[Device]:
    """Returns what llama.cpp takes by itself: all graphics cards, those within the processor only without others."""
    cards = [device for device in present if device.is_card]
    return [device for device in cards if not device.shares_memory] or cards


def _expert_patterns(layers: int) -> list[bytes]:
    """Returns the patterns for the experts of the first layers; one for all with -1."""
    return [_EXPERTS] if layers < 0 else [rb"blk\.%d" % layer + _EXPERTS for layer in range(layers)]
