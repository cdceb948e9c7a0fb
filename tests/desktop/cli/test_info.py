"""What a model file says about itself is shown as it is, and can neither drive a terminal nor break JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import tiny_gguf
from command_line import Run


def told(run: Run, tmp_path: Path, *flags: str, **metadata: object) -> str:
    file = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata=metadata)
    return run("info", str(file), *flags).out


def test_control_characters_in_the_name_of_a_key_are_made_visible(run: Run, tmp_path: Path):
    shown = told(run, tmp_path, **{"general.\x1b[31m\nkey": 1})
    assert "general.␛[31m␊key" in shown
    assert "\x1b" not in shown


def test_numbers_that_json_does_not_have_are_null(run: Run, tmp_path: Path):
    odd = {"general.a": math.nan, "general.b": math.inf, "general.c": [1.5, -math.inf]}
    found = json.loads(told(run, tmp_path, "--json", **odd), parse_constant=refuse)
    assert found["metadata"]["general.a"] is None
    assert found["metadata"]["general.b"] is None
    assert found["metadata"]["general.c"] == [1.5, None]


def test_numbers_are_shown_as_people_write_them(run: Run, tmp_path: Path):
    lines = [line.split() for line in told(run, tmp_path).splitlines()]
    assert ["llama.attention.layer_norm_rms_epsilon", "1e-05"] in lines
    assert ["llama.rope.freq_base", "10000"] in lines


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
