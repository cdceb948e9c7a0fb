"""`quern score`: what it prints, what it remarks and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from command_line import Run
from fake_engine import FakeEngine

TEXT = "The miller opened the sluice and the stone began to turn. "


def test_the_perplexity_of_a_file_is_told_with_the_number_of_tokens(run: Run, tmp_path: Path, engine: FakeEngine):
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    result = run("score", "starter", "--text", str(tmp_path / "a.txt"))

    assert (result.code, result.out) == (0, f"Perplexity: {math.e:.4f} over 5 tokens\n")
    assert result.err == ""
    assert engine.closed


def test_json_holds_a_number_for_each_token(run: Run, tiny: Path):
    result = run("score", str(tiny), "--text", "-", "--json", stdin=TEXT)
    told = json.loads(result.out)

    assert result.code == 0
    assert told["tokens"] == len(told["logprobs"]) == len(told["ids"]) > 10
    assert told["perplexity"] == pytest.approx(math.exp(-sum(told["logprobs"]) / told["tokens"]))
    assert all(value <= 0 for value in told["logprobs"])


def test_what_was_left_out_and_cut_into_windows_is_said(run: Run, tiny: Path):
    result = run("score", str(tiny), "--text", "-", "--context-length", "32", "--threads", "1", stdin=TEXT * 10)

    assert result.code == 0
    assert "The first token is not counted" in result.err
    assert "32 tokens" in result.err
    assert "at least 16 tokens of text" in result.err


@pytest.mark.parametrize(("content", "said"), [(None, "The system says"), (b"abc\xffdef", "byte 3 does not fit")])
def test_a_file_that_is_no_text_is_refused(run: Run, tmp_path: Path, engine: object, content: bytes | None, said: str):
    file = tmp_path / "a.txt"
    if content is not None:
        file.write_bytes(content)
    result = run("score", "starter", "--text", str(file))

    assert (result.code, result.out) == (2, "")
    assert "a.txt" in result.err
    assert said in result.err


def test_a_text_file_without_its_name_is_asked_for(run: Run, engine: object):
    assert "quern score needs --text" in run("score", "starter").err


def test_an_empty_text_is_refused(run: Run, tiny: Path):
    result = run("score", str(tiny), "--text", "-")
    assert (result.code, result.out) == (2, "")
    assert "nothing to score" in result.err
