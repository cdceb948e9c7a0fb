"""`quern chat --receipt` writes what made an answer, and `quern replay` makes it again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny_gguf
from command_line import Run
from fake_engine import FakeEngine


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", type="Q8_0")


@pytest.fixture
def receipt(quantized: Path, tmp_path: Path, run: Run) -> Path:
    file = tmp_path / "receipt.json"
    given = ("--max-tokens", "12", "--context-length", "256", "--threads", "1", "--receipt", str(file))
    done = run("chat", str(quantized), *given, stdin="Tell me of mills.\nAnd of querns?\n")
    assert done.code == 0, done.err
    return file


def test_an_answer_is_made_again_and_is_equal(receipt: Path, run: Run) -> None:
    done = run("replay", str(receipt))
    assert (done.code, done.out) == (0, "Equal: 12 tokens.\n")
    told = json.loads(run("replay", str(receipt), "--json").out)
    assert told["equal"] is True
    assert told["text"] == json.loads(receipt.read_text())["text"]


def test_an_altered_answer_is_told_apart_with_its_place(receipt: Path, run: Run) -> None:
    content = json.loads(receipt.read_text())
    content["text"] = "#" + content["text"][1:]
    receipt.write_text(json.dumps(content))
    done = run("replay", str(receipt))
    assert done.code == 2
    assert "came out otherwise" in done.err
    assert "character 1." in done.err
    done = run("replay", str(receipt), "--json")
    assert (done.code, json.loads(done.out)["difference"]["character"]) == (2, 0)


def test_another_model_is_refused_unless_asked_for(receipt: Path, tmp_path: Path, run: Run) -> None:
    other = tiny_gguf.write_tiny(tmp_path / "other.gguf", type="Q8_0", seed=3)
    done = run("replay", str(receipt), str(other))
    assert done.code == 2
    assert "not the one that wrote the answer" in done.err
    done = run("replay", str(receipt), str(other), "--anyway")
    assert done.code == 2
    assert "came out otherwise" in done.err


def test_a_model_that_is_gone_and_a_file_that_is_no_receipt_are_named(
    receipt: Path, quantized: Path, tmp_path: Path, run: Run
) -> None:
    content = json.loads(receipt.read_text())
    receipt.write_text(json.dumps({**content, "model_path": str(tmp_path / "gone.gguf")}))
    done = run("replay", str(receipt))
    assert (done.code, "gone.gguf" in done.err) == (2, True)
    (tmp_path / "no.json").write_text("{}")
    done = run("replay", str(tmp_path / "no.json"))
    assert (done.code, "not a receipt" in done.err) == (2, True)


def test_an_answer_without_a_receipt_says_so_and_leaves_no_file(engine: FakeEngine, tmp_path: Path, run: Run) -> None:
    done = run("chat", "starter", "-p", "hi", "--receipt", str(tmp_path / "r.json"))
    assert (done.code, "has no receipt" in done.err, (tmp_path / "r.json").exists()) == (0, True, False)
    assert engine.requests[0].receipt


def test_a_receipt_that_cannot_be_written_is_refused_before_the_answer(
    engine: FakeEngine, tmp_path: Path, run: Run
) -> None:
    for file, reason in ((tmp_path / "no" / "r.json", "no such folder"), (tmp_path, "no ordinary file")):
        for command in ("chat", "complete"):
            done = run(command, "starter", "-p", "hi", "--receipt", str(file))
            assert (done.code, done.out, reason in done.err) == (2, "", True)
    assert engine.requests == []
    assert not (tmp_path / "no").exists()


def test_json_brings_the_receipt_with_the_end_of_the_answer(quantized: Path, tmp_path: Path, run: Run) -> None:
    given = ("-p", "Once", "--max-tokens", "4", "--json", "--receipt", str(tmp_path / "r.json"))
    done = run("complete", str(quantized), *given)
    last = json.loads(done.out.splitlines()[-1])
    assert last["receipt"]["ids"] == json.loads((tmp_path / "r.json").read_text())["ids"]
    assert run("replay", str(tmp_path / "r.json")).code == 0


def test_a_receipt_that_is_not_there_or_a_folder_is_named_in_words(tmp_path: Path, run: Run) -> None:
    missing = run("replay", str(tmp_path / "none.json"))
    assert (missing.code, missing.out) == (2, "")
    assert f"Nothing is at {tmp_path / 'none.json'}." in missing.err
    assert "It is a folder" in run("replay", str(tmp_path)).err
    assert "Errno" not in missing.err
