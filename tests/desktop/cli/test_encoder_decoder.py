"""An encoder-decoder and an encoder on the command line: what runs them, and what refuses them with which words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny_bert
import tiny_t5
from command_line import Run


@pytest.fixture
def t5(quern_home: Path) -> Path:
    folder = quern_home / "models"
    folder.mkdir(parents=True)
    return tiny_t5.write_tiny_t5(folder / "my-t5.gguf").path


def test_complete_turns_the_source_into_the_target(run: Run, t5: Path):
    arguments = ("complete", str(t5), "-p", "translate the miller", "--temperature", "0", "--max-tokens", "8", "--json")
    events = [json.loads(line) for line in run(*arguments).out.splitlines()]
    assert events[-1]["usage"]["generated_tokens"] == 8
    assert events[-1]["usage"]["prompt_tokens"] == 5  # three words, the end mark, and the token that begins the target


def test_chat_refuses_and_names_the_command_that_works(run: Run, t5: Path):
    result = run("chat", str(t5), "-p", "hi")
    assert (result.code, result.out) == (2, "")
    assert "holds no conversation" in result.err
    assert "quern complete" in result.err


def test_score_refuses_in_words(run: Run, t5: Path, tmp_path: Path):
    (tmp_path / "text.txt").write_text("the miller opened the water")
    result = run("score", str(t5), "--text", str(tmp_path / "text.txt"))
    assert (result.code, result.out) == (2, "")
    assert "given a source" in result.err


def test_models_says_what_it_is(run: Run, t5: Path):
    listed = run("models").out
    assert "turns a source text into another text" in listed
    assert "Cannot be run" not in listed.split("my-t5")[1]
    found = {model["name"]: model for model in json.loads(run("models", "--json").out)["models"]}
    assert found["my-t5"]["runnable"] is True
    assert found["my-t5"]["architecture"] == "t5"


def test_tokenize_reads_its_vocabulary(run: Run, t5: Path):
    assert json.loads(run("tokenize", "my-t5", "the miller", "--json").out)["pieces"] == [" the", " miller"]


def test_an_encoder_is_refused_with_the_command_that_runs_it(run: Run, tmp_path: Path):
    bert = str(tiny_bert.write_tiny_bert(tmp_path / "bert.gguf").path)
    for command in ("chat", "complete"):
        result = run(command, bert, "-p", "hi")
        assert (result.code, result.out) == (2, "")
        assert "quern embed" in result.err


def test_our_own_engine_turns_the_source_too_and_searches_with_beams(run: Run, t5: Path):
    exact = ("--dtype", "f32", "--kv-type-k", "f32", "--kv-type-v", "f32", "--flash-attention", "off")
    arguments = ("complete", str(t5), "-p", "translate the miller", "--temperature", "0", "--max-tokens", "8", *exact)
    search = ("--beams", "4", "--length-penalty", "10", "--early-stopping", "never")

    by_llama = run(*arguments)
    by_us = run(*arguments, "--engine", "native")
    wheel = ("complete", str(t5), "-p", "water turns the wheel", "--temperature", "0", "--max-tokens", "8", *exact)
    by_beams = run(*wheel, "--engine", "native", *search)

    assert (by_us.code, by_us.out) == (0, by_llama.out)
    assert by_beams.code == 0
    assert by_beams.out.strip()


def test_beams_are_refused_by_llama_cpps_engine_in_words(run: Run, t5: Path):
    result = run("complete", str(t5), "-p", "translate the miller", "--beams", "2")

    assert result.code == 2
    assert "--engine native" in result.err
