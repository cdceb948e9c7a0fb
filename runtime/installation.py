"""How this copy of Quern came here: from source or as a package, with torch or without, portable or not.

A package has `resources/build.json`, and where it is portable, a file called `portable` beside its program. Imports
neither torch nor Qt.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

import resources
from runtime.errors import UserError
from runtime.text import _

PORTABLE_MARK = "portable"
_LIBRARY_PATH = "LD_LIBRARY_PATH"


class FullEditionNeeded(UserError):
    """Something needs torch, and this is the edition without it."""

    code = "full_edition_needed"

    def __init__(self, what: str) -> None:
        super().__init__(
            _("{what} needs the full edition of Quern.").format(what=what),
            _("This is the light edition: it runs GGUF files with llama.cpp, and has no torch."),
            _("Install the full edition; it finds the same chats, settings and models."),
        )


class TorchMissing(UserError):
    """Something needs torch, which is not in this environment."""

    code = "torch_missing"

    def __init__(self, what: str) -> None:
        super().__init__(
            _("{what} needs torch, which is not installed.").format(what=what),
            _("Parts of the installation are missing."),
            _("Run the set-up again (“make run”)."),
        )


class Build(msgspec.Struct, frozen=True):
    """What a package was built from: the version, the commit and its day (2026-11-29)."""

    version: str = ""
    commit: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """Facts about this copy. `program` is the folder of the executable."""

    is_package: bool
    program: Path
    has_torch: bool
    build: Build

    @property
    def portable_home(self) -> Path | None:
        """Where a portable copy keeps everything; None for any other."""
        marked = self.is_package and (self.program / PORTABLE_MARK).is_file()
        return self.program / "data" if marked else None

    @property
    def edition(self) -> str:
        """The edition in words; "" for a copy from source."""
        if not self.is_package:
            return ""
        return _("full edition") if self.has_torch else _("light edition, without torch")


@cache
def installation() -> Installation:
    """Returns the facts about this copy; they cannot change while it runs."""
    return Installation(
        is_package=bool(getattr(sys, "frozen", False)),
        program=Path(sys.executable).resolve().parent,
        has_torch=importlib.util.find_spec("torch") is not None,
        build=_build(),
    )


def _build() -> Build:
    try:
        return msgspec.json.decode(resources.path("build.json").read_bytes(), type=Build)
    except (OSError, msgspec.DecodeError):
        return Build()


def full_version() -> str:
    """Returns the version, and for a package its build and edition: "0.1.0 (1a2b3c4d5e, 2026-11-29, full edition)"."""
    here = installation()
    told = ", ".join(part for part in (here.build.commit, here.build.date, here.edition) if part)
    return f"{_version()} ({told})" if told else _version()


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("quern")
    except metadata.PackageNotFoundError:
        return _("(not installed)")


def require_torch(what: str) -> None:
    """Raises `FullEditionNeeded` or `TorchMissing` where torch is not here. `what` begins the sentence."""
    here = installation()
    if not here.has_torch:
        raise FullEditionNeeded(what) if here.is_package else TorchMissing(what)


def repair_advice() -> str:
    """Returns how a copy whose parts are missing or damaged is put right."""
    if installation().is_package:
        return _("Install Quern again: a part of it is missing or damaged.")
    return _("Run the set-up again (“make run”).")


def restore_library_path() -> None:
    """Takes the package's own folder out of the loader's search path again, for the programs that Quern starts.

    The package's starter put it there for this process, which has read it; a browser that inherits it would load our
    libraries in place of its own.
    """
    if not getattr(sys, "frozen", False) or _LIBRARY_PATH not in os.environ:
        return
    before = os.environ.pop(f"{_LIBRARY_PATH}_ORIG", None)
    if before is None:
        del os.environ[_LIBRARY_PATH]
    else:
        os.environ[_LIBRARY_PATH] = before
