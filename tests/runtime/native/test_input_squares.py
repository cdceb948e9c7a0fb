"""What flows into the matrices: by the names of a GGUF file, and the numbers that the equations give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiny_gguf
from runtime.checkpoint import open_checkpoint
from runtime.native.input_squares import SquareReader
from runtime.params import LoadParams

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    return tiny_gguf.write_tiny(path, n_layers=2, d_model=64, d_ff=96, experts=4)


def read(path: Path, *texts: list[int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    reader = SquareReader(path, LoadParams(dtype="f32", context_length=64))
    for ids in texts:
        reader.read(ids)
    found = reader.squares()
    reader.close()
    return found


def test_every_matrix_of_the_layers_is_measured_and_no_other(model: Path) -> None:
    with open_checkpoint(model) as checkpoint:
        matrices = {
            name for name in checkpoint.names if name.startswith("blk.") and len(checkpoint.info(name).shape) > 1
        }
    assert read(model, IDS).keys() == matrices


def test_the_first_matrices_get_the_normed_embedding(model: Path) -> None:
    with open_checkpoint(model) as checkpoint:
        x = checkpoint.read("token_embd.weight")[IDS].astype(np.float64)
        norm = checkpoint.read("blk.0.attn_norm.weight")
    normed = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + 1e-5) * norm
    found = read(model, IDS)
    for part in "qkv":
        sums, counts = found[f"blk.0.attn_{part}.weight"]
        np.testing.assert_allclose(sums[0], np.square(normed).sum(axis=0), rtol=1e-4)
        assert counts.tolist() == [len(IDS)]


def test_each_expert_counts_what_was_sent_to_it(model: Path) -> None:
    found = read(model, IDS)
    router, up, down = (found[f"blk.1.ffn_{part}.weight"] for part in ("gate_inp", "up_exps", "down_exps"))
    assert up[1].sum() == 2 * len(IDS)  # two experts act on each token
    assert up[1].tolist() == down[1].tolist()
    np.testing.assert_allclose(up[0].sum(axis=0), 2 * router[0][0], rtol=1e-5)


def test_texts_add_up(model: Path) -> None:
    one, two, both = read(model, IDS), read(model, IDS[::-1]), read(model, IDS, IDS[::-1])
    for name, (sums, counts) in both.items():
        np.testing.assert_allclose(sums, one[name][0] + two[name][0], rtol=1e-6)
        assert (counts == one[name][1] + two[name][1]).all()
