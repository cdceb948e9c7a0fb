"""What can be wrong with a model's file, each with its own words. Reads no file."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import UserError
from runtime.places import shown_path
from runtime.text import _

_SHOWN_NAME_LENGTH = 120


def clean_name(text: str) -> str:
    """Returns a name from inside a file so that it can be shown: one line, no invisible signs, not too long."""
    if text.isascii() and text.isprintable() and len(text) <= _SHOWN_NAME_LENGTH:
        return " ".join(text.split())
    visible = (" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text[: 8 * _SHOWN_NAME_LENGTH])
    line = " ".join("".join(visible).split())
    return line if len(line) <= _SHOWN_NAME_LENGTH else line[: _SHOWN_NAME_LENGTH - 1] + "…"


def why_unreadable(error: OSError) -> str:
    """Returns the sentence for what the system answered."""
    if isinstance(error, PermissionError):
        return _("Quern has no permission to read it.")
    return _("The system says: {error}.").format(error=error.strerror or str(error))


class ModelMissing(UserError):
    """Nothing is at the path."""

    code = "model_missing"

    def __init__(self, path: Path) -> None:
        super().__init__(
            _("The model “{name}” is missing.").format(name=shown_path(Path(path.name))),
            _("Nothing is at {path}.").format(path=shown_path(path)),
            _("It may have been moved or deleted, or its drive is not connected."),
        )
        self.path = path


class PartMissing(UserError):
    """A split model lacks some of its files."""

    code = "model_part_missing"

    def __init__(self, path: Path, missing: Sequence[str], count: int) -> None:
        super().__init__(
            _("The model “{name}” is incomplete.").format(name=shown_path(Path(path.name))),
            _("It consists of {count} files; missing: {names}.").format(
                count=count, names=", ".join(shown_path(Path(name)) for name in missing)
            ),
            _("Put the missing files into the folder {folder}.").format(folder=shown_path(path.parent)),
        )
        self.path = path
        self.missing = tuple(missing)


class ModelUnreadable(UserError):
    """The file is there, and the system does not let it be read."""

    code = "model_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The model “{name}” cannot be read.").format(name=shown_path(Path(path.name))),
            reason,
            _("Check the file and its permissions: {path}").format(path=shown_path(path)),
        )
        self.path = path


class NotAModel(UserError):
    """The file is something else than a GGUF model. `what_it_is` is a sentence."""

    code = "not_a_model"

    def __init__(self, path: Path, what_it_is: str, hint: str = "") -> None:
        super().__init__(
            _("“{name}” is not a GGUF model.").format(name=shown_path(Path(path.name))),
            what_it_is,
            hint or _("Choose a file in the GGUF format."),
            details=shown_path(path),
        )
        self.path = path


class DamagedModel(UserError):
    """A GGUF file whose content contradicts itself or its size. `reason` is a sentence."""

    code = "damaged_model"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The model “{name}” is damaged.").format(name=shown_path(Path(path.name))),
            reason,
            _("Download or convert it again."),
            details=shown_path(path),
        )
        self.path = path
        self.reason = reason


class UnsupportedModel(UserError):
    """A sound file that this version cannot run. `what` is a sentence."""

    code = "unsupported_model"

    def __init__(self, path: Path, what: str, hint: str = "") -> None:
        super().__init__(
            _("This version of Quern cannot run “{name}”.").format(name=shown_path(Path(path.name))),
            what,
            hint or _("Choose another model, or update Quern."),
            details=shown_path(path),
        )
        self.path = path
        self.what = what


class LoadStopped(UserError):
    """The person ended the load."""

    code = "load_stopped"

    def __init__(self, path: Path) -> None:
        super().__init__(_("Loading “{name}” was stopped.").format(name=shown_path(Path(path.name))))


class OutOfMemory(UserError):
    """The system had no more memory to give."""

    code = "out_of_memory"

    def __init__(self) -> None:
        super().__init__(
            _("There is not enough memory."), _("The model and its context take more than is free."),
            _("Choose a smaller model or a shorter context."),
        )  # fmt: skip
