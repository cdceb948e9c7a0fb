"""Where the libraries of llama.cpp lie. Loads none of them."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from runtime.errors import UserError
from runtime.installation import repair_advice
from runtime.text import _, sentences


class EngineLibraryMissing(UserError):
    """llama.cpp is not installed, or its library cannot be loaded on this machine."""

    code = "engine_library"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The llama.cpp engine cannot be loaded."),
            reason,
            sentences(repair_advice(), _("“quern doctor” shows what is missing.")),
        )


def library_folder() -> Path:
    """Returns the folder of the installed llama.cpp libraries. Raises `EngineLibraryMissing`."""
    override = os.environ.get("LLAMA_CPP_LIB_PATH")
    if override:
        return Path(override)
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise EngineLibraryMissing(_("The Python package llama-cpp-python is not installed."))
    return Path(next(iter(spec.submodule_search_locations))) / "lib"


def backend_files() -> list[Path]:
    """Returns the back ends that are files of their own, from our own folders only, never the current one."""
    suffix = {"win32": ".dll", "darwin": ".so"}.get(sys.platform, ".so")
    prefix = "" if sys.platform == "win32" else "lib"
    linked = {f"{prefix}ggml-base", f"{prefix}ggml-cpu", f"{prefix}ggml"}
    folders = [library_folder(), library_folder().parent.parent / "bin"]
    return sorted(
        file
        for folder in folders
        if folder.is_dir()
        for file in folder.glob(f"{prefix}ggml-*{suffix}")
        if file.name.removesuffix(suffix) not in linked
    )
