"""ggml's C functions against gguf-py's numpy ones, and everything that would be a memory fault or an abort in C."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from runtime import ggml
from runtime.gguf_types import TENSOR_TYPES
from runtime.llama.library import load_ggml_base

_COLUMNS = 512
_MADE = [kind.name for kind in TENSOR_TYPES.values() if ggml.can_quantize(kind.name)]
_TERNARY = ["TQ1_0", "TQ2_0", "Q2_0"]
_SLOW = ["IQ1_S", "IQ1_M", "IQ2_S"]  # whose tables take seconds to build
_QUICKLY_MADE = [n for n in _MADE if ggml.named(n).block > 1 and n not in (*_TERNARY, *_SLOW)]
_READ = [kind.name for kind in TENSOR_TYPES.values() if kind.block > 1 and ggml.can_dequantize(kind.name)]
_UNKNOWN_TO_GGUF_PY = {"Q1_0", "Q2_0", "Q8_K"}


@pytest.fixture(scope="module")
def matrix() -> ggml.F32:
    return np.random.default_rng(0).standard_normal((24, _COLUMNS), np.float32)


def _importance(seed: int = 1) -> ggml.F32:
    return np.random.default_rng(seed).random(_COLUMNS, np.float32)


@pytest.mark.parametrize("number", TENSOR_TYPES)
def test_the_table_of_types_says_what_the_library_says(number: int) -> None:
    kind, base = TENSOR_TYPES[number], load_ggml_base()

    assert (base.ggml_blck_size(number), base.ggml_type_size(number)) == (kind.block, kind.block_bytes)


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "BF16", "F16", "F32"])
def test_packed_bytes_equal_those_of_gguf_py(name: str, matrix: ggml.F32) -> None:
    expected = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType[name]).view(np.uint8)

    assert np.array_equal(ggml.quantize(matrix, name), expected)


@pytest.mark.parametrize("name", [name for name in _READ if name not in _UNKNOWN_TO_GGUF_PY])
def test_any_bytes_are_unpacked_as_gguf_py_does(name: str) -> None:
    kind = ggml.named(name)
    packed = np.random.default_rng(2).integers(0, 256, (4, 6 * kind.block_bytes), np.uint8)

    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[name])

    np.testing.assert_allclose(ggml.dequantize(packed, name), expected.reshape(-1), rtol=1e-6)


@pytest.mark.parametrize("name", _QUICKLY_MADE + [pytest.param(name, marks=pytest.mark.acceptance) for name in _SLOW])
def test_what_was_packed_comes_back_nearly(name: str, matrix: ggml.F32) -> None:
    packed = ggml.quantize(matrix, name, importance=np.ones(_COLUMNS, np.float32))

    unpacked = ggml.dequantize(packed, name).reshape(matrix.shape)

    assert packed.shape == (24, ggml.row_bytes(name, _COLUMNS))
    assert np.sqrt(np.mean((unpacked - matrix) ** 2)) < 3 / 2 ** ggml.named(name).bits_per_weight


@pytest.mark.parametrize("name", _TERNARY)
def test_types_of_three_values_keep_three_values(name: str) -> None:
    matrix = np.random.default_rng(3).choice(np.float32([-0.5, 0, 0.5]), (4, _COLUMNS))

    assert np.array_equal(ggml.dequantize(ggml.quantize(matrix, name), name).reshape(matrix.shape), matrix)


@pytest.mark.parametrize("name", ["Q4_K", "IQ2_XXS", "Q8_0"])
def test_threads_and_blocks_change_nothing(name: str, matrix: ggml.F32, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ggml.quantize(matrix, name, importance=_importance())
    monkeypatch.setattr(ggml, "_BLOCK", 2048)

    packed = ggml.quantize(matrix, name, importance=_importance(), threads=4)

    assert np.array_equal(packed, whole)
    assert np.array_equal(ggml.dequantize(packed, name, threads=4), ggml.dequantize(whole, name))


def test_an_importance_matrix_makes_the_weighty_columns_better(matrix: ggml.F32) -> None:
    weights = np.ones(_COLUMNS, np.float32)
    weights[:64] = 100

    plain, weighed = (ggml.dequantize(ggml.quantize(matrix, "Q4_K", importance=given), "Q4_K").reshape(matrix.shape)
                      for given in (None, weights))  # fmt: skip

    assert np.mean((weighed - matrix)[:, :64] ** 2) < np.mean((plain - matrix)[:, :64] ** 2)


def test_integers_and_doubles_are_converted_by_value() -> None:
    for name, dtype in [("I8", "<i1"), ("I16", "<i2"), ("I32", "<i4"), ("I64", "<i8"), ("F64", "<f8")]:
        numbers = np.array([-3, 0, 7], dtype)
        assert ggml.dequantize(numbers.view(np.uint8), name).tolist() == [-3, 0, 7]


def test_an_output_that_is_given_is_filled() -> None:
    out = np.zeros(64, np.float32)

    result = ggml.dequantize(ggml.quantize(np.ones((1, 64), np.float32), "Q8_0").reshape(-1), "Q8_0", out=out)

    assert np.shares_memory(result, out)
    np.testing.assert_allclose(out, 1, rtol=1e-3)


@pytest.mark.parametrize(
    ("size", "name"), [(33, "Q8_0"), (143, "Q4_K"), (1, "F16"), (3, "F32"), (65, "IQ2_XXS"), (7, "I64")]
)
def test_bytes_that_are_no_whole_blocks_are_refused(size: int, name: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        ggml.dequantize(np.zeros(size, np.uint8), name)


@pytest.mark.parametrize("out", [np.zeros(63, np.float32), np.zeros(64, np.float64), np.zeros(128, np.float32)[::2]])
def test_an_output_that_does_not_fit_is_refused(out: ggml.F32) -> None:
    with pytest.raises(ValueError, match="output"):
        ggml.dequantize(np.zeros(68, np.uint8), "Q8_0", out=out)


def test_arrays_that_are_not_contiguous_are_refused(matrix: ggml.F32) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        ggml.dequantize(np.zeros((4, 68), np.uint8)[:, ::2], "Q8_0")
    with pytest.raises(ValueError, match="contiguous"):
        ggml.quantize(matrix.T, "Q8_0")
    with pytest.raises(ValueError, match="f32"):
        ggml.quantize(matrix.astype(np.float64), "Q8_0")  # type: ignore[arg-type]


@pytest.mark.parametrize(("columns", "name"), [(255, "Q4_K"), (96, "Q6_K"), (33, "Q4_0"), (32, "NVFP4"), (0, "Q8_0")])
def test_rows_that_are_no_whole_blocks_are_refused(columns: int, name: str) -> None:
    with pytest.raises(ValueError, match="blocks"):
        ggml.quantize(np.zeros((2, columns), np.float32), name)


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K", "I32"])
def test_types_that_no_file_holds_are_not_made(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be made"):
        ggml.quantize(np.zeros((1, 256), np.float32), name)


@pytest.mark.parametrize("name", ["IQ1_S", "IQ2_XS", "IQ2_XXS"])
def test_types_that_need_an_importance_matrix_say_so(name: str) -> None:
    assert ggml.needs_importance(name)
    with pytest.raises(ValueError, match="importance"):
        ggml.quantize(np.zeros((1, 256), np.float32), name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e7])
@pytest.mark.parametrize("name", ["IQ2_XXS", "Q4_K", "Q4_0"])
def test_numbers_that_would_abort_the_process_or_overflow_are_refused(bad: float, name: str, matrix: ggml.F32) -> None:
    broken = matrix.copy()
    broken[3, 7] = bad

    with pytest.raises(ValueError, match="packed"):
        ggml.quantize(broken, name, importance=_importance())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 1e20])
def test_a_broken_importance_matrix_is_refused(bad: float, matrix: ggml.F32) -> None:
    weights = _importance()
    weights[5] = bad

    with pytest.raises(ValueError, match="importance"):
        ggml.quantize(matrix, "IQ2_XXS", importance=weights)
    with pytest.raises(ValueError, match="importance"):
        ggml.quantize(matrix, "Q4_K", importance=_importance()[:-1])


def test_an_unknown_type_is_refused() -> None:
    for use in (ggml.row_bytes, lambda name, _n: ggml.can_quantize(name), lambda name, _n: ggml.can_dequantize(name)):
        with pytest.raises(ValueError, match="Q9_9"):
            use("Q9_9", 256)


def test_a_library_that_lacks_a_type_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        """A library before Q2_0: it would read beyond its table for an unknown number."""

        def __getattr__(self, name: str) -> object:
            if name == "dequantize_row_q2_0":
                raise AttributeError(name)
            raise AssertionError(f"{name} was asked of a library that does not know the type")

    monkeypatch.setattr(ggml, "load_ggml_base", Older)
    ggml._unpacker.cache_clear()
    try:
        assert not ggml.can_quantize("Q2_0")
        assert not ggml.can_dequantize("Q2_0")
    finally:
        ggml._unpacker.cache_clear()
