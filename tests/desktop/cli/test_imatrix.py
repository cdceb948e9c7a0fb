"""`quern imatrix`: a matrix that `quern convert` then uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engines
import tiny_gguf
from command_line import Run
from convert.importance import read_importance


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf.write_tiny(tmp_path / "model.gguf", d_ff=256)


def test_a_matrix_makes_types_of_few_bits_possible(run: Run, model: Path, tmp_path: Path):
    matrix, target = tmp_path / "imatrix.gguf", tmp_path / "small.gguf"
    few = ("--type", "iq2_xs", "--no-verify", "--no-card")

    assert "needs an importance matrix" in run("convert", str(model), str(target), *few).err
    made = run("imatrix", str(model), "-o", str(matrix), "--chunks", "2", "--json")
    assert json.loads(made.out)["chunks"] == 2
    assert run("convert", str(model), str(target), "--imatrix", str(matrix), *few).code == 0
    assert target.stat().st_size < model.stat().st_size / 8
    assert engines.collect(engines.load(target), engines.raw("Hello", max_tokens=2)).deltas


def test_the_text_is_named_in_the_file(run: Run, model: Path, tmp_path: Path):
    text = tmp_path / "letters.txt"
    text.write_text("The miller opened the sluice and the stone began to turn. " * 3)

    result = run("imatrix", str(model), "-o", str(tmp_path / "imatrix.gguf"), "--text", str(text))

    assert result.code == 0
    assert read_importance(tmp_path / "imatrix.gguf").texts == ("letters.txt",)


def test_what_is_there_stays_and_a_short_text_is_refused(run: Run, model: Path, tmp_path: Path):
    (tmp_path / "short.txt").write_text("Hello")
    (tmp_path / "there").write_bytes(b"mine")

    short = run("imatrix", str(model), "-o", str(tmp_path / "new"), "--text", str(tmp_path / "short.txt"))

    assert (short.code, (tmp_path / "new").exists()) == (2, False)
    assert "too few" in short.err
    assert run("imatrix", str(model), "-o", str(tmp_path / "there")).code == 2
    assert run("imatrix", str(model), "-o", str(model), "--yes").code == 2
    text = tmp_path / "short.txt"
    assert run("imatrix", str(model), "-o", str(text), "--text", str(text), "--yes").code == 2
    assert text.read_text() == "Hello"
    assert (tmp_path / "there").read_bytes() == b"mine"
