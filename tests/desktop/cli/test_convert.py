"""`quern convert`: what it says and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import engines
import tiny_gguf
from command_line import Run
from tiny_lora import write_lora

BARE = ("--no-verify", "--no-card")


def test_a_file_gets_another_type(run: Run, tiny: Path, tmp_path: Path):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), "--type", "q8_0", *BARE)

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


def test_a_dry_run_says_when_values_are_looked_at_and_looks_where_it_is_asked(run: Run, tiny: Path, tmp_path: Path):
    words = ("convert", str(tiny), str(tmp_path / "small.gguf"), "--type", "Q8_0", "--dry-run")

    assert "looked for while writing" in run(*words).err
    looked = run(*words, "--check-values")
    assert "Values: " in looked.out
    assert "which all fit their types" in looked.out
    assert looked.err == ""
    assert json.loads(run(*words, "--check-values", "--json").out)["values_checked"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_model_with_values_that_are_no_numbers_leaves_no_file(run: Run, tmp_path: Path):
    change = np.zeros((512, 256), np.float32)
    change[0, 0] = np.nan
    source = tiny_gguf.write_tiny(tmp_path / "odd.gguf", changes={"blk.0.ffn_up.weight": change})
    words = ("convert", str(source), str(tmp_path / "small.gguf"), "--type", "q8_0")

    written, looked = run(*words), run(*words, "--check-values")

    assert (written.code, looked.code) == (2, 2)
    assert "The model is damaged: “blk.0.ffn_up.weight”" in written.err
    assert "holds 1 value that is NaN or infinite" in looked.err
    assert [path.name for path in tmp_path.iterdir()] == ["odd.gguf"]


def test_an_adapters_file_is_refused_with_what_to_do(run: Run, tmp_path: Path):
    style = write_lora(tmp_path / "style.gguf").path
    for target in ("out.gguf", "folder"):
        refused = run("convert", str(style), str(tmp_path / target), "--type", "f16")
        assert refused.code == 2
        assert "It is a LoRA adapter, which only changes a model." in refused.err
        assert "--lora style.gguf" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["style.gguf"]


def test_one_tensor_is_spoken_of_as_one(run: Run, tmp_path: Path):
    narrow = tiny_gguf.write_tiny(tmp_path / "narrow.gguf", n_layers=1, d_model=64, d_ff=64)
    words = ("convert", str(narrow), str(tmp_path / "x.gguf"), "--dry-run", "--type", "q4_0", "--tensor-type")
    assert "1 tensor becomes Q5_0 instead of Q4_K" in run(*words, "ffn_up=Q4_K").err
    assert "2 tensors become Q5_0 instead of Q4_K" in run(*words, "ffn_(up|gate)=Q4_K").err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--type", "q9"), "There is no type"),
        (("--type", "q8_0", "--tensor-type", "ffn"), "REGEX=TYPE"),
        (("--type", "q8_0", "--tensor-type", "(=F16"), "no regular expression"),
        ((), "--type"),
        (("--auto",), "--max-kl or --max-size"),
        (("--auto", "--max-kl", "nan"), "above 0"),
        (("--auto", "--max-size", "many"), "is no size"),
        (("--type", "q8_0", "--max-size", "80MB"), "belong to --auto"),
        (("--type", "q8_0", "--text", "/nowhere"), "cannot be read"),
        (("--type", "q8_0", "--imatrix", "/nowhere"), "no importance matrix"),
        (("--type", "q8_0", "--split-max-size", "0"), "is no size"),
    ],
)
def test_what_is_wrong_is_said(run: Run, tiny: Path, tmp_path: Path, more: tuple[str, ...], said: str):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), *more)

    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_source_without_a_name_is_not_the_current_folder(run: Run, tmp_path: Path):
    result = run("convert", "", str(tmp_path / "small.gguf"), "--type", "q8_0")
    assert (result.code, "There is no model called “”" in result.err) == (2, True)


def test_a_folder_stands_for_the_split_model_in_it(run: Run, tmp_path: Path):
    folder = tmp_path / "split"
    folder.mkdir()
    tiny_gguf.write_tiny(folder / "tiny.gguf", tensors_per_file=6)
    result = run("convert", str(folder), str(tmp_path / "small.gguf"), "--type", "q8_0", "--dry-run", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["plan"]["types"]["Q8_0"] > 5


def test_a_file_that_is_there_stays_unless_agreed(run: Run, tiny: Path, tmp_path: Path):
    target = tmp_path / "there.gguf"
    target.write_bytes(b"mine")

    assert "already is a file" in run("convert", str(tiny), str(target), "--type", "f16").err
    assert target.read_bytes() == b"mine"
    assert run("convert", str(tiny), str(target), "--type", "f16", "--yes", *BARE).code == 0
    assert target.read_bytes()[:4] == b"GGUF"


def test_a_large_file_is_divided_as_llama_cpp_opens_it(run: Run, tiny: Path, tmp_path: Path):
    result = run("convert", str(tiny), str(tmp_path / "small.gguf"), "--type", "f16", "--split-max-size", "500K", *BARE)

    names = sorted(path.name for path in tmp_path.iterdir())
    assert result.code == 0
    assert f"Files: {len(names)}" in result.out
    assert names[0] == f"small-00001-of-{len(names):05}.gguf"
    assert all(path.stat().st_size <= 500_000 for path in tmp_path.iterdir())
    assert engines.collect(engines.load(tmp_path / names[0]), engines.raw("Hello", max_tokens=2)).deltas


def test_everything_is_done_where_nothing_is_left_out(run: Run, tiny: Path, tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("The miller opened the sluice and the stone began to turn. " * 4)
    target = tmp_path / "small.gguf"
    result = run("convert", str(tiny), str(target), "--type", "q4_0", "--text", str(text), "--json")
    told = json.loads(result.out)["result"]

    assert result.code == 0
    assert len(told["verified"]["tensors"]) == json.loads(result.out)["plan"]["n_tensors"]
    assert 0 < told["verified"]["logits"] < 0.9
    assert 0 < told["card"]["quality"]["kl"]["mean"] < 1
    info = json.loads(run("info", str(target), "--json").out)
    assert info["quality_card"] == told["card"]
    assert "KL divergence" in run("info", str(target)).out
    assert engines.collect(engines.load(target), engines.raw("Hello", max_tokens=2)).deltas


def test_the_smallest_type_that_is_good_enough_is_found_and_the_others_go(run: Run, tiny: Path, tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("The miller opened the sluice and the stone began to turn. " * 4)
    words = ("convert", str(tiny), str(tmp_path / "best.gguf"), "--auto", "--text", str(text), *BARE, "--json")

    told = json.loads(run(*words, "--max-kl", "0.5").out)
    tried = {each["type"]: each for each in told["tried"]}
    chosen = told["plan"]["type"]
    refused = run(*words, "--max-kl", "1e-9", "--yes")

    assert tried[chosen]["kl"] <= 0.5
    assert all(not each["fits"] for each in tried.values() if each["size_bytes"] < tried[chosen]["size_bytes"])
    assert 2 <= len(tried) <= 4
    assert (tmp_path / "best.gguf").stat().st_size == tried[chosen]["size_bytes"]
    assert (refused.code, "small and good enough" in refused.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.gguf", "text.txt"]
