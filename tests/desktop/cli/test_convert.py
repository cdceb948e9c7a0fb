"""`quern convert`: what it says and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run


def test_a_file_gets_another_type(run: Run, tiny: Path, tmp_path: Path):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), "--type", "q8_0")

    assert result.code == 0
    assert "Type: Q8_0" in result.out
    assert "Written: " in result.out
    assert (tmp_path / "small.gguf").stat().st_size < tiny.stat().st_size / 2


def test_a_dry_run_tells_the_plan_as_json(run: Run, tiny: Path, tmp_path: Path):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), "--type", "Q4_0", "--dry-run", "--json")
    told = json.loads(result.out)

    assert result.code == 0
    assert told["written"] is False
    assert told["plan"]["types"]["Q4_0"] > 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--type", "q9"), "There is no type"),
        (("--type", "q8_0", "--tensor-type", "ffn"), "REGEX=TYPE"),
        (("--type", "q8_0", "--tensor-type", "(=F16"), "no regular expression"),
        ((), "--type"),
    ],
)
def test_what_is_wrong_is_said(run: Run, tiny: Path, tmp_path: Path, more: tuple[str, ...], said: str):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), *more)

    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_unless_agreed(run: Run, tiny: Path, tmp_path: Path):
    target = tmp_path / "there.gguf"
    target.write_bytes(b"mine")

    assert "already is a file" in run("convert", str(tiny), str(target), "--type", "f16").err
    assert target.read_bytes() == b"mine"
    assert run("convert", str(tiny), str(target), "--type", "f16", "--yes").code == 0
    assert target.read_bytes()[:4] == b"GGUF"
