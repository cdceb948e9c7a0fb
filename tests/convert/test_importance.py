"""Importance matrices: both formats, what is refused, and files packed as llama.cpp packs them with the same matrix."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

import tiny_gguf
from convert.importance import (
    ForeignImportanceMatrix,
    Importance,
    Measured,
    NotAnImportanceMatrix,
    read_importance,
    write_importance,
)
from convert.options import ConvertOptions
from convert.pipeline import convert
from convert.plan import ImportanceNeeded
from convert.planning import NoModelInside
from convert.preflight import Planned
from convert.recipes import FILE_TYPE_NUMBER, PLAIN_TYPE
from llama_quantizer import imatrix_of, keys_of, quantize, tensors_of
from runtime.engine import StopFlag

EXPERTS = {
    f"blk.1.ffn_{part}_exps.weight": np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32)
    for part, shape in (("up", (32, 256)), ("gate", (32, 256)), ("down", (32, 256)))
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("model") / "model.gguf", n_layers=2, d_ff=256, changes=EXPERTS)


@pytest.fixture(scope="module")
def importance(model: Path) -> Importance:
    """Random measurements of every matrix in the layers; one expert was never used."""
    rng = np.random.default_rng(2)
    measured = {}
    for tensor in gguf.GGUFReader(model).tensors:
        columns, matrices = int(tensor.shape[0]), int(tensor.shape[2]) if len(tensor.shape) > 2 else 1
        if tensor.name.startswith("blk.") and len(tensor.shape) > 1:
            counts = np.array([0, 3, 1000, 7][-matrices:])
            measured[tensor.name] = Measured(rng.gamma(1, 9, (matrices, columns)).astype(np.float32), counts)
    return Importance(measured, ("letters.txt",), 7, 512, "importance.gguf")


@pytest.fixture
def file(importance: Importance, tmp_path: Path) -> Path:
    write_importance(importance, tmp_path / "importance.gguf")
    return tmp_path / "importance.gguf"


def run(source: Path, target: Path, recipe: str, importance: Path | None) -> Planned:
    options = ConvertOptions(source=source, target=target, recipe=recipe, importance=importance)
    planned, *_rest = convert(options, StopFlag())
    assert isinstance(planned, Planned)
    return planned


def same(one: Importance, other: Importance) -> bool:
    assert one.tensors.keys() == other.tensors.keys()
    return one.name == other.name and all(
        np.array_equal(one.tensors[name].means(), other.tensors[name].means()) for name in one.tensors
    )


def test_a_matrix_is_no_model_to_convert(file: Path, tmp_path: Path) -> None:
    for target in ("out.gguf", "folder"):
        with pytest.raises(NoModelInside, match="holds no model") as refused:
            run(file, tmp_path / target, "F16", None)
        assert "--imatrix" in refused.value.info.hint


def test_what_was_written_is_read_again(importance: Importance, file: Path) -> None:
    found = read_importance(file)
    assert same(found, importance)
    assert (found.texts, found.n_chunks, found.chunk_size) == (("letters.txt",), 7, 512)


def test_the_file_is_laid_out_as_llama_cpp_reads_it(importance: Importance, file: Path) -> None:
    reader = gguf.GGUFReader(file)
    shapes = {tensor.name: tuple(tensor.shape.tolist()) for tensor in reader.tensors}
    assert shapes["blk.1.ffn_up_exps.weight.in_sum2"] == (256, 4)
    assert shapes["blk.1.ffn_up_exps.weight.counts"] == (1, 4)
    assert list(keys_of(file)) == [
        "general.type", "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size",
    ]  # fmt: skip
    assert all(tensor.tensor_type.name == "F32" for tensor in reader.tensors)


def test_the_older_format_is_read(tmp_path: Path) -> None:
    path, values = tmp_path / "importance.dat", np.array([2.0, 4.0, 6.0, 8.0], "<f4")
    entry = struct.pack("<i", 7) + b"a.weigh" + struct.pack("<ii", 2, 4) + values.tobytes()
    path.write_bytes(struct.pack("<i", 1) + entry + struct.pack("<ii", 33, 5) + b"x.txt")
    found = read_importance(path)
    assert found.tensors["a.weigh"].means().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert (found.texts, found.n_chunks) == (("x.txt",), 33)


def test_an_expert_that_was_never_used_weighs_all_columns_alike(importance: Importance) -> None:
    weights = importance.weights_for("blk.1.ffn_up_exps.weight", (4, 32, 256))
    assert weights is not None
    assert (weights[0] == 1).all()
    assert not (weights[1] == weights[1, 0]).all()


@pytest.mark.parametrize("recipe", [recipe for recipe in PLAIN_TYPE if recipe != "F32"])
def test_every_type_is_packed_as_llama_cpp_packs_it_with_the_same_matrix(
    model: Path, importance: Importance, file: Path, tmp_path: Path, recipe: str
) -> None:
    run(model, tmp_path / "ours.gguf", recipe, file)
    given = imatrix_of({name: measured.means() for name, measured in importance.tensors.items()})
    theirs = quantize(model, tmp_path / "theirs.gguf", FILE_TYPE_NUMBER[recipe], imatrix=given)
    assert tensors_of(tmp_path / "ours.gguf") == tensors_of(theirs)


def test_the_matrix_changes_what_is_packed_and_is_named_in_the_file(model: Path, file: Path, tmp_path: Path) -> None:
    run(model, tmp_path / "with.gguf", "Q4_K_M", file)
    run(model, tmp_path / "without.gguf", "Q4_K_M", None)
    assert tensors_of(tmp_path / "with.gguf") != tensors_of(tmp_path / "without.gguf")
    keys = keys_of(tmp_path / "with.gguf")
    assert keys["quantize.imatrix.file"] == "importance.gguf"
    assert keys["quantize.imatrix.dataset"] == "letters.txt"
    assert keys["quantize.imatrix.chunks_count"] == 7


def test_a_type_of_few_bits_needs_each_of_its_tensors_in_the_matrix(
    model: Path, importance: Importance, tmp_path: Path
) -> None:
    fewer = {name: each for name, each in importance.tensors.items() if name != "blk.1.attn_q.weight"}
    write_importance(Importance(fewer), tmp_path / "fewer.gguf")
    with pytest.raises(ImportanceNeeded) as refused:
        run(model, tmp_path / "ours.gguf", "IQ2_XS", tmp_path / "fewer.gguf")
    assert "blk.1.attn_q.weight" in refused.value.info.message
    planned = run(model, tmp_path / "ours.gguf", "Q4_K_M", tmp_path / "fewer.gguf")
    assert any("blk.1.attn_q.weight" in note for note in planned.notes)


@pytest.mark.parametrize("change", ["name", "size"])
def test_a_matrix_of_another_model_is_refused(model: Path, importance: Importance, tmp_path: Path, change: str) -> None:
    tensors = dict(importance.tensors)
    if change == "name":
        tensors = {"x" + name: each for name, each in tensors.items()}
    else:
        tensors["blk.0.attn_q.weight"] = Measured(np.ones((1, 64), np.float32), np.array([1]))
    write_importance(Importance(tensors), tmp_path / "foreign.gguf")
    with pytest.raises(ForeignImportanceMatrix):
        run(model, tmp_path / "ours.gguf", "Q4_K_M", tmp_path / "foreign.gguf")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["foreign.gguf"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e20])
def test_values_that_no_measurement_gives_are_refused(tmp_path: Path, value: float) -> None:
    sums = np.ones((1, 8), np.float32)
    sums[0, 3] = value
    write_importance(Importance({"a": Measured(sums, np.array([1]))}), tmp_path / "odd.gguf")
    with pytest.raises(NotAnImportanceMatrix, match="odd"):
        read_importance(tmp_path / "odd.gguf")


def test_what_is_no_importance_matrix_is_refused(model: Path, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "other"
    with path.open("wb") as sparse:  # as long as a large model; nothing is read but its beginning
        sparse.write(struct.pack("<ii", 7000, 0))
        sparse.truncate(1 << 40)
    with pytest.raises(NotAnImportanceMatrix):
        read_importance(path)
    lies = struct.pack("<ii", 1, 1 << 30), struct.pack("<ii", 1, -5), struct.pack("<i", 1 << 30), b"", b"text", b"GGU"
    for content in lies:
        path.write_bytes(content)
        with pytest.raises(NotAnImportanceMatrix):
            read_importance(path)
    for other in (model, tmp_path / "missing", tmp_path, Path(os.devnull)):
        with pytest.raises(NotAnImportanceMatrix):
            read_importance(other)
