"""`quern compare`: what it prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from command_line import Run
from runtime import engines
from runtime.engine import Engine
from runtime.engines import open_engine
from runtime.params import LoadParams

TEXT = "The miller opened the sluice and the stone began to turn. " * 20


def test_the_figures_are_shown_and_the_worst_places_named(run: Run, tiny: Path, tmp_path: Path):
    small = tiny_gguf.write_tiny(tmp_path / "small.gguf", type="Q4_0")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    result = run("compare", str(tiny), str(small), "--text", str(tmp_path / "text.txt"))

    assert result.code == 0
    assert "KL divergence: mean 0." in result.out
    assert "bits per weight" in result.out
    assert result.out.count("the reference expects") == 5


def test_json_holds_the_figures_of_the_contract(run: Run, tiny: Path):
    result = run("compare", str(tiny), str(tiny), "--text", "-", "--json", stdin=TEXT)
    told = json.loads(result.out)

    assert result.code == 0
    assert set(told["kl"]) == {"mean", "median", "p99", "max"}
    assert told["top1_agreement"] == 1
    assert told["perplexity"]["ratio"] == 1
    assert told["candidate"]["size_bytes"] > 0


def test_models_with_other_vocabularies_are_refused(run: Run, tiny: Path, tmp_path: Path):
    other = tmp_path / "scripted.gguf"
    tiny_gguf.write_scripted(other, [b"ok"])
    result = run("compare", str(tiny), str(other), "--text", "-", stdin=TEXT)

    assert (result.code, result.out) == (2, "")
    assert "cannot be compared" in result.err


def test_each_side_may_have_an_engine_of_its_own(run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def opening(path: Path, params: LoadParams, **options: Any) -> Engine:
        asked.append(params.engine)
        return open_engine(path, params, **options)

    monkeypatch.setattr(engines, "open_engine", opening)
    words = ("compare", str(tiny), str(tiny), "--text", "-", "--threads", "1")
    for flags in (("--candidate-engine", "llama"), ("--engine", "llama", "--reference-engine", "auto")):
        assert run(*words, *flags, stdin=TEXT).code == 0
    assert asked == ["auto", "llama", "auto", "llama"]
