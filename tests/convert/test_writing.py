"""A GGUF file written anew in another type: the same bytes as llama.cpp's quantizer, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiny_gguf
from convert.options import ConvertOptions
from convert.plan import ImportanceNeeded, Plan
from convert.planning import QuantizedAlready, plan_from_gguf
from convert.recipes import FILE_TYPE_NUMBER, NEEDS_IMPORTANCE, PLAIN_TYPE
from convert.safe_file import SafeFiles
from convert.writing import ConversionStopped, WriteProgress, write
from llama_quantizer import keys_of, quantize, tensors_of
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag

MADE = [recipe for recipe in PLAIN_TYPE if recipe not in NEEDS_IMPORTANCE]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "exact.gguf"
    return tiny_gguf.write_tiny(path, n_layers=3, d_ff=256, metadata={"quern.note": "kept"})


def planned(source: Path, target: Path, recipe: str, *, agreed: bool = False) -> Plan:
    options = ConvertOptions(source=source, target=target, recipe=recipe, agreed=agreed)
    return plan_from_gguf(open_checkpoint(source), options)


def converted(source: Path, target: Path, recipe: str, *, agreed: bool = False) -> Path:
    with SafeFiles([target]) as files:
        for _event in write(planned(source, target, recipe, agreed=agreed), files, StopFlag(), threads=1):
            pass
    return target


@pytest.mark.parametrize("recipe", MADE)
def test_every_type_is_written_as_llama_cpp_writes_it(exact: Path, tmp_path: Path, recipe: str) -> None:
    ours = converted(exact, tmp_path / "ours.gguf", recipe)
    theirs = quantize(exact, tmp_path / "theirs.gguf", FILE_TYPE_NUMBER[recipe])
    assert tensors_of(ours) == tensors_of(theirs)
    assert list(tensors_of(ours)) == list(tensors_of(theirs))
    same = {key: value for key, value in keys_of(theirs).items() if key != "general.quantization_version"}
    assert same == {key: value for key, value in keys_of(ours).items() if key != "general.quantization_version"}


def test_experts_are_packed_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    experts = {
        f"blk.0.ffn_{part}_exps.weight": rng.normal(size=(4, *shape)).astype(np.float32)
        for part, shape in (("up", (64, 256)), ("gate", (64, 256)), ("down", (256, 64)))
    }
    source = tiny_gguf.write_tiny(tmp_path / "experts.gguf", n_layers=1, changes=experts)
    ours = tensors_of(converted(source, tmp_path / "ours.gguf", "Q8_0"))
    theirs = tensors_of(quantize(source, tmp_path / "theirs.gguf", FILE_TYPE_NUMBER["Q8_0"]))
    assert ours == theirs
    assert ours["blk.0.ffn_up_exps.weight"][0] == "Q8_0"


def test_a_split_source_becomes_one_file(tmp_path: Path) -> None:
    whole = tiny_gguf.write_tiny(tmp_path / "whole.gguf")
    split = tiny_gguf.write_tiny(tmp_path / "parts.gguf", tensors_per_file=5)
    ours = converted(split, tmp_path / "ours.gguf", "Q8_0")
    assert tensors_of(ours) == tensors_of(converted(whole, tmp_path / "same.gguf", "Q8_0"))
    assert not any(key.startswith("split.") for key in keys_of(ours))


def test_equal_sources_give_equal_bytes(exact: Path, tmp_path: Path) -> None:
    one, two = (converted(exact, tmp_path / name, "Q4_K_M").read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_size_is_known_beforehand(exact: Path, tmp_path: Path) -> None:
    plan = planned(exact, tmp_path / "ours.gguf", "Q4_K_M")
    written = converted(exact, tmp_path / "ours.gguf", "Q4_K_M")
    assert written.stat().st_size == plan.size
    packed = sum(len(data) for _kind, data in tensors_of(written).values())
    assert plan.bits_per_weight == pytest.approx(8 * packed / plan.n_params)


def test_a_quantized_source_has_to_be_agreed_to(exact: Path, tmp_path: Path) -> None:
    small = converted(exact, tmp_path / "small.gguf", "Q4_0")
    with pytest.raises(QuantizedAlready, match="Q4_0"):
        planned(small, tmp_path / "again.gguf", "Q8_0")
    again = converted(small, tmp_path / "again.gguf", "Q8_0", agreed=True)
    assert tensors_of(again) == tensors_of(quantize(small, tmp_path / "theirs.gguf", FILE_TYPE_NUMBER["Q8_0"]))


@pytest.mark.parametrize("recipe", NEEDS_IMPORTANCE)
def test_types_of_few_bits_ask_for_an_importance_matrix(exact: Path, tmp_path: Path, recipe: str) -> None:
    with pytest.raises(ImportanceNeeded, match=recipe):
        planned(exact, tmp_path / "ours.gguf", recipe)


def test_it_can_be_stopped_and_nothing_is_left(exact: Path, tmp_path: Path) -> None:
    stop, target = StopFlag(), tmp_path / "ours.gguf"
    with pytest.raises(ConversionStopped), SafeFiles([target]) as files:  # noqa: PT012
        events = write(planned(exact, target, "Q8_0"), files, stop, threads=1)
        first = next(events)
        assert isinstance(first, WriteProgress)
        assert first.done < first.total
        stop.set()
        next(events)
    assert list(tmp_path.iterdir()) == []
