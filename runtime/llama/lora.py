"""Hands checked LoRA adapters to llama.cpp and puts them to work in a context. Reads no file itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runtime.errors import UserError
from runtime.llama import library as llama_library
from runtime.lora_files import LoraAdapter
from runtime.model_errors import clean_name
from runtime.places import shown_path
from runtime.text import _


class AdapterFailed(UserError):
    """llama.cpp refused an adapter although its header reads well."""

    code = "adapter_failed"

    def __init__(self, path: Path, log: str) -> None:
        super().__init__(
            _("The adapter “{name}” could not be loaded.").format(name=shown_path(Path(path.name))),
            llama_library.last_reason(log),
            _("Convert it again, or take it out of the settings."),
            details=log,
        )


class LoadedAdapters:
    """The adapters of one model, those with a scale of 0 left out. They are freed with the model.

    They have to be loaded before a context is made: llama.cpp reserves the room for their part of the graph then.
    """

    def __init__(self, library: Any, model: Any, adapters: Iterable[LoraAdapter]) -> None:
        self.active = tuple(adapter for adapter in adapters if adapter.scale)
        self._library = library
        self._handles = [self._loaded(model, adapter) for adapter in self.active]

    @property
    def words(self) -> tuple[str, ...]:
        """Each adapter with its scale, to be shown."""
        names = (clean_name(shown_path(Path(adapter.path.name))) for adapter in self.active)
        return tuple(f"{name} × {adapter.scale:g}" for name, adapter in zip(names, self.active, strict=True))

    def apply(self, context: Any) -> None:
        """Makes a context compute with the adapters."""
        count = len(self._handles)
        handles = (self._library.llama_adapter_lora_p_ctypes * count)(*self._handles)
        scales = (ctypes.c_float * count)(*(adapter.scale for adapter in self.active))
        self._library.llama_set_adapters_lora(context, handles, count, scales)

    def _loaded(self, model: Any, adapter: LoraAdapter) -> Any:
        handle = self._library.llama_adapter_lora_init(model, os.fsencode(adapter.path))
        if not handle:
            raise AdapterFailed(adapter.path, llama_library.log_tail(30))
        return handle
