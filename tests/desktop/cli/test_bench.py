"""`quern bench` with one value for each setting, and with several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from command_line import Run
from desktop.cli.options import combinations
from runtime import bench as measuring
from runtime.bench import BenchResult, Comparison, Measured, Spread, Variant
from runtime.params import LoadParams
from runtime.protocol import EngineInfo

SPEED = Spread(median=20.0, min=10.0, max=30.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands in for measuring, and keeps the settings that were to be measured."""
    calls: list[Any] = []

    def run(_path: Path, params: LoadParams, **_amounts: object) -> BenchResult:
        calls.append(params)
        return BenchResult(
            prompt_tokens_per_second=SPEED, generation_tokens_per_second=SPEED, prompt_tokens=512,
            generated_tokens=128, repetitions=5, model=EngineInfo(engine="llama", name="Tiny"),
        )  # fmt: skip

    def compare(_path: Path, variants: list[Variant], **_amounts: object) -> Comparison:
        calls.extend(variant.params for variant in variants)
        rows = tuple(
            Measured(
                settings=variant.settings, prompt_tokens_per_second=SPEED, generation_tokens_per_second=SPEED,
                prompt_ratio=1.0 + at, generation_ratio=1.0, model=EngineInfo(engine="llama", notes=("A note.",)[:at]),
            )
            for at, variant in enumerate(variants)
        )  # fmt: skip
        return Comparison(compared=rows, not_measured=(), prompt_tokens=512, generated_tokens=128, repetitions=5)

    monkeypatch.setattr(measuring, "run", run)
    monkeypatch.setattr(measuring, "compare", compare)
    return calls


def test_one_value_for_each_setting_is_the_plain_form(run: Run, tiny: Path, asked: list[Any]) -> None:
    result = run("bench", str(tiny), "--threads", "3", "--no-mmap", "--json")
    assert asked == [LoadParams(threads=3, mmap="off")]
    assert set(json.loads(result.out)) == {
        "prompt_tokens_per_second", "generation_tokens_per_second", "prompt_tokens", "generated_tokens", "repetitions",
        "drafted_tokens", "accepted_tokens", "model",
    }  # fmt: skip


def test_every_combination_is_compared_with_the_first(run: Run, tiny: Path, asked: list[Any]) -> None:
    result = run("bench", str(tiny), "--kv-type-k", "q8_0,F16", "--threads", "1,2", "--micro-batch", "256")
    assert [(each.kv_type_k, each.threads, each.micro_batch) for each in asked] == [
        ("q8_0", 1, 256), ("q8_0", 2, 256), ("f16", 1, 256), ("f16", 2, 256)]  # fmt: skip
    head, *rows = result.out.splitlines()
    assert head.split()[:2] == ["--kv-type-k", "--threads"]
    assert "--micro-batch" not in head
    assert rows[1].split()[:2] == ["q8_0", "2"]
    assert "20.0 (10.0–30.0)  2.00" in rows[1]
    assert "--kv-type-k q8_0 --threads 2: A note." in result.out


def test_on_off_flags_are_compared_when_given_both_ways(run: Run, tiny: Path, asked: list[Any]) -> None:
    assert run("bench", str(tiny), "--mlock", "--no-mlock").code == 0
    assert [each.mlock for each in asked] == [True, False]


def test_a_switch_of_more_than_two_positions_is_compared_by_its_words(run: Run, tiny: Path, asked: list[Any]) -> None:
    assert run("bench", str(tiny), "--mmap", "on,off").code == 0
    assert [each.mmap for each in asked] == ["on", "off"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["--mmap"], "on"), (["--no-mmap"], "off"), (["--mmap", "auto"], "auto"), (["--mmap=off"], "off"),
     (["--mmap", "--threads", "2"], "on")],
)  # fmt: skip
def test_a_switch_may_be_typed_without_its_value(
    run: Run, tiny: Path, asked: list[Any], words: list[str], meant: str
) -> None:
    assert run("bench", str(tiny), *words).code == 0
    assert [each.mmap for each in asked] == [meant]


def test_an_empty_entry_of_a_list_stands_for_nothing(
    run: Run, tiny: Path, asked: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "a,b.gguf").touch()  # an existing path keeps its comma
    flags = ("--lora", ",style.gguf,style.gguf=0.5", "--lora", str(tmp_path / "a,b.gguf"))
    assert run("bench", str(tiny), *flags).code == 0
    style, other = str(Path("style.gguf").absolute()), str(tmp_path / "a,b.gguf")
    assert [each.lora for each in asked] == [(other,), (style, other), (f"{style}=0.5", other)]


def test_a_combination_that_cannot_work_is_named_and_the_rest_is_measured(
    run: Run, tiny: Path, asked: list[Any]
) -> None:
    flags = ("--kv-type-v", "q8_0,f16", "--flash-attention", "on,off")
    result = run("bench", str(tiny), *flags)
    assert result.code == 0
    assert len(asked) == 3
    assert "Not measured: --kv-type-v q8_0 --flash-attention off. V cache type cannot be" in result.out
    (missing,) = json.loads(run("bench", str(tiny), *flags, "--json").out)["not_measured"]
    assert missing["settings"] == {"kv_type_v": "q8_0", "flash_attention": "off"}
    assert missing["reason"]["code"] == "bad_setting"


def test_where_nothing_can_work_the_reason_is_the_error(run: Run, tiny: Path, asked: list[Any]) -> None:
    flags = ("--kv-type-v", "q8_0,q4_0", "--flash-attention", "off", "--json")
    result = run("bench", str(tiny), *flags)
    assert (result.code, result.out) == (2, "")
    assert "V cache type" in result.err


@pytest.mark.parametrize("value", ["1,", "1,x", ",", "1,,2"])
def test_a_value_that_is_missing_or_wrong_is_refused(run: Run, tiny: Path, asked: list[Any], value: str) -> None:
    result = run("bench", str(tiny), "--threads", value)
    assert (result.code, asked) == (2, [])
    assert "Threads cannot be" in result.err


def test_too_many_combinations_are_refused(run: Run, tiny: Path, asked: list[Any]) -> None:
    many = ",".join(str(count) for count in range(1, 10))
    assert "81 combinations" in run("bench", str(tiny), "--threads", many, "--prompt-threads", many).err
    assert not asked


def test_the_same_value_twice_is_one_value() -> None:
    assert combinations(LoadParams, {"loadparams__threads": (1, 2, 1)}) == [{"threads": 1}, {"threads": 2}]
    assert combinations(LoadParams, {}) == [{}]


def test_a_real_comparison_is_well_formed(run: Run, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    result = run("bench", str(path), "-p", "16", "-n", "4", "-r", "2", "--threads", "1", "--kv-type-k", "f16,q8_0",
                 "--json")  # fmt: skip
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert [each["settings"] for each in found["compared"]] == [{"kv_type_k": "f16"}, {"kv_type_k": "q8_0"}]
    assert [each["model"]["kv_type_k"] for each in found["compared"]] == ["f16", "q8_0"]
    assert found["compared"][0]["prompt_ratio"] == 1.0
    assert found["compared"][1]["generation_ratio"] > 0
    assert (found["not_measured"], found["repetitions"]) == ([], 2)
