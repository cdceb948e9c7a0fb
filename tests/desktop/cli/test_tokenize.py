"""`quern tokenize`: the tokens of a text, with nothing but a vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

import tiny_bert
import tiny_gguf
from command_line import Opened, Run
from vocabularies import PUBLISHED, spm_tokens, write_vocabulary


def test_ids_and_pieces_come_as_json_and_no_engine_is_opened(run: Run, opened: Opened, tiny: Path):
    result = run("tokenize", str(tiny), "hé\n", "--json")
    assert json.loads(result.out) == {"ids": [104, 195, 169, 10], "pieces": ["h", "\ufffd", "\ufffd", "\n"]}
    assert opened.engine.requests == []
    assert not opened.engine.closed


def test_spaces_and_line_ends_are_visible(run: Run, tmp_path: Path):
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(["▁the", "▁mill"]))
    result = run("tokenize", str(path), "-", stdin="the mill\n")
    assert [line.split()[1] for line in result.out.splitlines()] == ["·the", "·mill", "␊"]


def test_control_tokens_in_the_text_are_text_unless_they_are_asked_for(run: Run, tiny: Path):
    plain = json.loads(run("tokenize", str(tiny), "<|im_end|>", "--json").out)
    special = json.loads(run("tokenize", str(tiny), "<|im_end|>", "--json", "--special").out)
    assert len(plain["ids"]) > 1
    assert special == {"ids": [tiny_gguf.IM_END], "pieces": ["<|im_end|>"]}


def test_a_model_that_cannot_write_has_tokens_too(run: Run, tmp_path: Path):
    bert = tiny_bert.write_tiny_bert(tmp_path / "bert.gguf")
    result = run("tokenize", str(bert.path), "The millers", "--json")
    assert json.loads(result.out)["pieces"] == [" the", " miller", "s"]


def test_a_file_with_nothing_but_a_vocabulary_will_do(run: Run):
    path = next(path for path in PUBLISHED if path.stem == "ggml-vocab-llama-spm")
    assert json.loads(run("tokenize", str(path), "Hello", "--json").out)["ids"] == [15043]


def test_a_file_without_a_vocabulary_is_refused(run: Run, tmp_path: Path):
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(["▁a"]), model="none")
    result = run("tokenize", str(path), "hi")
    assert (result.code, result.out) == (2, "")
    assert "no vocabulary" in result.err
