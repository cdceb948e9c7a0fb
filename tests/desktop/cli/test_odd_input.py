"""Values at the edge, files of a strange size and models of strange numbers: each comes to an answer or a sentence."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import hostile_gguf
from command_line import Run
from runtime.places import places


def hostile(tmp_path: Path, name: str) -> str:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(dict(hostile_gguf.handmade())[name])
    return str(path)


@pytest.mark.parametrize("flags", [
    ("--temperature", "1e-45"), ("--temperature", "0,7"), ("--top-p", "0"), ("--top-p", "1"), ("--top-k", "0"),
    ("--min-p", "1"), ("--typical-p", "0"), ("--batch", "1", "--kv-type-k", "q4_0", "--kv-type-v", "q4_0"),
    ("--batch", "1048576", "--micro-batch", "1048576"), ("--penalty-window", "-1", "--repeat-penalty", "2"),
], ids=" ".join)  # fmt: skip
def test_a_value_at_the_edge_gives_an_answer(run: Run, tiny: Path, flags: tuple[str, ...]):
    words = ("complete", str(tiny), "-p", "The old mill by the river", "--max-tokens", "4", "--threads", "1")
    result = run(*words, *flags, "--context-length", "256", "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out.splitlines()[-1])["usage"]["generated_tokens"] == 4


@pytest.mark.parametrize("flags", [
    ("--temperature", "inf"), ("--temperature", "-0.1"), ("--top-k", "-1"), ("--top-k", str(10**20)),
    ("--top-p", "1.5"), ("--top-p", "-1"), ("--min-p", "2"), ("--max-tokens", "1.5"), ("--max-tokens", "-2"),
    ("--penalty-window", "-2"), ("--context-length", str(2**31 - 1)), ("--context-length", "x"), ("--batch", "0"),
], ids=" ".join)  # fmt: skip
def test_a_value_beyond_it_is_refused_with_what_is_allowed(run: Run, tiny: Path, flags: tuple[str, ...]):
    result = run("complete", str(tiny), "-p", "hi", *flags)
    assert (result.code, result.out) == (2, "")
    assert "Allowed: " in result.err


@pytest.mark.parametrize("value", [-1, 2**31 - 1, 1.5, "x", None, [1], 1e300])
def test_nonsense_in_the_settings_file_stops_no_answer(run: Run, tiny: Path, value: object):
    file = places().settings_file
    file.parent.mkdir(parents=True, exist_ok=True)
    saved = {"load": {"context_length": value, "batch": value}, "sampling": {"max_tokens": value, "top_k": value}}
    file.write_text(json.dumps(saved), encoding="utf-8")
    result = run("complete", str(tiny), "-p", "hi", "--max-tokens", "2", "--context-length", "256", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out.splitlines()[-1])["usage"]["generated_tokens"] == 2


@pytest.mark.parametrize("words", [
    ("chat", "-p", "hi"), ("complete", "-p", "hi"), ("score", "--text", "-"), ("embed", "hi"),
], ids=lambda words: words[0])  # fmt: skip
def test_a_model_of_numbers_that_are_none_is_told_by_every_command(run: Run, tmp_path: Path, words: tuple[str, ...]):
    name, *rest = words
    result = run(name, hostile(tmp_path, "weights of NaN"), *rest, "--context-length", "128", stdin="Hello there\n")
    assert result.code == 2
    assert "not" in result.err
    assert "Traceback" not in result.err


def test_an_endless_template_is_refused_and_the_text_alone_still_goes_on(run: Run, tmp_path: Path):
    model = hostile(tmp_path, "a template with an endless loop")
    limits = ("--context-length", "128", "--max-tokens", "3")
    refused = run("chat", model, "-p", "hi", *limits)
    assert (refused.code, refused.out) == (2, "")
    assert "template" in refused.err
    assert run("chat", model, "-p", "hi", "--template", "raw", *limits).code == 0
    assert run("complete", model, "-p", "hi", *limits).code == 0


def test_a_vocabulary_that_needs_merges_and_has_none_is_damage(run: Run, tmp_path: Path):
    model = hostile(tmp_path, "no merges")
    for words in (("chat", model, "-p", "hi"), ("tokenize", model, "hi"), ("info", model)):
        result = run(*words)
        assert (result.code, result.out) == (2, "")
        assert "merges" in result.err


def test_a_text_of_any_bytes_is_tokenized(run: Run, tiny: Path):
    data = random.Random(1).randbytes(300_000)
    result = run("tokenize", str(tiny), "-", "--json", stdin=data)
    assert result.code == 0
    assert len(json.loads(result.out)["ids"]) > 10_000


@pytest.mark.skipif(os.name == "nt", reason="files with holes")
def test_a_giant_file_that_is_no_model_is_told_at_once(run: Run, tmp_path: Path):
    path = tmp_path / "giant.gguf"
    path.touch()
    os.truncate(path, 50 << 30)
    for words in (("info", str(path)), ("chat", str(path), "-p", "hi"), ("tokenize", str(path), "hi")):
        result = run(*words)
        assert (result.code, result.out) == (2, "")
        assert "giant.gguf" in result.err


@pytest.mark.parametrize("words", [
    ("convert", "MODEL", "", "--type", "q8_0"), ("imatrix", "MODEL", "-o", ""), ("replay", ""),
    ("score", "MODEL", "--text", ""), ("compare", "MODEL", "MODEL", "--text", ""),
    ("inspect", "MODEL", "-p", "hi", "--png", ""), ("chat", "MODEL", "-p", "hi", "--receipt", ""),
], ids=lambda words: words[0])  # fmt: skip
def test_an_empty_name_is_not_the_current_folder(run: Run, tiny: Path, words: tuple[str, ...]):
    result = run(*(str(tiny) if word == "MODEL" else word for word in words))
    assert (result.code, result.out) == (2, "")
    assert "The name of the file is empty." in result.err
