"""Renames, removes and brings back model files; for threads. Knows no widget and asks nobody."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QFile

from runtime.errors import UserError
from runtime.places import shown_path, write_reason
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_SET = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]')
_LONGEST = 255  # bytes of one name


class NotMoved(UserError):
    """A model's file that could not be renamed or removed."""

    code = "model_not_moved"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{name}” was left as it is.").format(name=shown_path(Path(path.name))),
            _("The reason: {reason}.").format(reason=reason),
            _("Close programs that use it, or do it in the file manager."),
        )


class UnusableName(UserError):
    """A name that a file cannot have."""

    code = "unusable_name"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(_("“{name}” cannot be a file's name.").format(name=name), reason, _("Write another name."))


def parts_of(info: ModelInfo) -> list[Path]:
    """Returns all files of a model, or its folder."""
    from runtime.gguf_header import split_parts

    if info.kind != "gguf":
        return [info.path]
    return [part for part in split_parts(info.path) if os.path.lexists(part)]


def stem_of(path: Path) -> str:
    """Returns the part of a file's name that a person would change."""
    if _SET.search(path.name):
        return _SET.sub("", path.name)
    return path.stem if path.suffix.lower() == ".gguf" else path.name


def rename(info: ModelInfo, name: str) -> Path:
    """Gives a model another name in the same folder and returns its new path. Raises `UnusableName` and `NotMoved`."""
    name = name.strip().removesuffix(".gguf")
    parts = parts_of(info)
    moves = [(part, part.with_name(_new_name(part, info.path, name))) for part in parts]
    for _old, new in moves:
        _check(new)
    done: list[tuple[Path, Path]] = []
    try:
        for old, new in moves:
            os.rename(old, new)
            done.append((old, new))
    except OSError as error:
        for old, new in reversed(done):
            os.rename(new, old)
        raise NotMoved(info.path, write_reason(error)) from error
    return moves[0][1]


def _new_name(part: Path, first: Path, name: str) -> str:
    if not name or name in (".", "..") or _FORBIDDEN.search(name):
        raise UnusableName(name, _("It is empty or holds a character that file systems do not allow."))
    return name + part.name[len(stem_of(first)) :]


def _check(new: Path) -> None:
    if len(os.fsencode(new.name)) > _LONGEST:
        raise UnusableName(new.name, _("It is longer than {n} bytes.").format(n=_LONGEST))
    if os.path.lexists(new):
        raise UnusableName(new.name, _("A file of that name lies there already."))


def trash(info: ModelInfo) -> list[tuple[Path, Path]]:
    """Moves a model to the trash; returns for each file where it was and where it is now. Raises `NotMoved`."""
    moved: list[tuple[Path, Path]] = []
    for part in parts_of(info):
        file = QFile(str(part))
        if not file.moveToTrash():
            restore(moved)
            raise NotMoved(part, file.errorString() or _("there is no trash on this disk"))
        moved.append((part, Path(file.fileName())))
    return moved


def restore(moved: list[tuple[Path, Path]]) -> None:
    """Brings back what `trash` moved. Raises `NotMoved`."""
    for before, now in reversed(moved):
        try:
            if os.path.lexists(before):
                raise NotMoved(before, _("a file of that name lies there already"))
            before.parent.mkdir(parents=True, exist_ok=True)
            os.rename(now, before)
            # The freedesktop trash notes beside its files where they came from.
            (now.parent.parent / "info" / f"{now.name}.trashinfo").unlink(missing_ok=True)
        except OSError as error:
            raise NotMoved(before, write_reason(error)) from error
