"""Linear layers in 8 and 4 bits: weights stay within their bounds, and products are those of the stored weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from memory_checkpoint import MemoryCheckpoint
from runtime.native.linear import Linear
from runtime.native.load import load_model
from runtime.native.quantized import (
    Int4Linear,
    Int8Linear,
    Kind,
    fits_int4,
    quantize_int4,
    quantize_int8,
    quantized_linear,
)
from runtime.native.transformer import Transformer
from tiny_native import tiny_checkpoint

SHAPES = [(64, 64), (576, 576), (960, 576), (576, 1536), (128, 4096)]


def weights(n: int, k: int, *, seed: int = 0) -> Tensor:
    """Weights with a few outliers, as trained ones have."""
    random = torch.Generator().manual_seed(seed)
    plain = torch.randn(n, k, generator=random) * 0.05
    return torch.where(torch.rand(n, k, generator=random) < 0.001, plain * 20, plain)


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_weights_are_within_half_a_step_of_255(shape: tuple[int, int]) -> None:
    w = weights(*shape)

    layer = Int8Linear(w)

    step = w.abs().amax(1, keepdim=True) / 127 * (1 + 2**-7)
    assert ((layer.dequantized() - w).abs() <= step / 2).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group", [32, 64])
def test_int4_weights_are_within_half_a_step_of_15(shape: tuple[int, int], group: int) -> None:
    w = weights(*shape) + 0.01

    layer = Int4Linear(w, group=group)

    parts = w.unflatten(1, (-1, group))
    low, high = parts.amin(2, keepdim=True), parts.amax(2, keepdim=True)
    step = (high - low) / 15 * (1 + 2**-7)
    allowed = step / 2 + (low + 8 * step).abs() / 256
    error = (layer.dequantized() - w).abs().unflatten(1, (-1, group))
    assert (error <= allowed).all()
    assert error.mean() < 0.3 * step.mean()


@pytest.mark.parametrize("group", [32, 64, 128])
def test_what_torch_packed_is_read_back_exactly(group: int) -> None:
    w = weights(192, 256)
    codes, scales, zeros = quantize_int4(w, group)

    expected = (codes.float().unflatten(1, (-1, group)) - 8) * scales.float()[..., None] + zeros.float()[..., None]

    assert torch.equal(Int4Linear(w, group=group).dequantized(), expected.flatten(1))


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("rows", [1, 3, 16, 17, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_is_that_of_the_stored_weights_for_few_and_many_rows(
    kind: Kind, rows: int, dtype: torch.dtype
) -> None:
    layer = quantized_linear(weights(128, 512), torch.randn(128), kind=kind)
    x = torch.randn(2, rows, 512, generator=torch.Generator().manual_seed(1)).to(dtype)

    y = layer(x)

    exact = x.float() @ layer.dequantized().t() + layer.bias
    assert y.shape == (2, rows, 128)
    assert (y.float() - exact).abs().max() <= 2**-7 * exact.abs().max()


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_one_row_and_many_rows_agree(kind: Kind) -> None:
    layer = quantized_linear(weights(128, 512), kind=kind)
    x = torch.randn(40, 512, generator=torch.Generator().manual_seed(1)).bfloat16()

    together = layer(x).float()
    single = torch.cat([layer(row[None]) for row in x]).float()

    assert (together - single).abs().max() <= 2**-6 * together.abs().max()


@pytest.mark.parametrize("shape", [(1, 33), (17, 64), (100, 5), (64, 48), (65, 64)])
def test_shapes_that_do_not_fit_4_bits_take_8(shape: tuple[int, int]) -> None:
    w = weights(*shape)

    layer = quantized_linear(w, kind="int4")

    assert isinstance(layer, Int8Linear)
    assert not fits_int4(shape)
    identity = torch.eye(shape[1]).bfloat16()
    for rows in (identity[:1], identity):
        assert torch.allclose(layer(rows).float(), layer.dequantized().t()[: len(rows)], rtol=1e-2, atol=0)
    with pytest.raises(ValueError, match=str(shape[0])):
        Int4Linear(w)


def test_zero_weights_stay_zero() -> None:
    for layer in (Int8Linear(torch.zeros(64, 64)), Int4Linear(torch.zeros(64, 64))):
        assert not layer.dequantized().any()
        assert not layer(torch.ones(1, 64)).any()


def test_a_shared_head_gives_the_embeddings_of_its_weights() -> None:
    head = Int8Linear(weights(500, 64))
    ids = torch.tensor([[3, 499], [0, 3]])

    assert torch.equal(head.rows(ids, torch.float32), head.dequantized()[ids])


@pytest.mark.parametrize(("kind", "share"), [("int8", 0.51), ("int4", 0.32)])
def test_the_memory_is_a_part_of_that_of_16_bits(kind: Kind, share: float) -> None:
    layer = quantized_linear(weights(576, 1536), kind=kind)

    assert sum(buffer.nbytes for buffer in layer.buffers()) <= share * 576 * 1536 * 2


def test_int8_codes_use_their_whole_range_and_never_more() -> None:
    codes, _scales = quantize_int8(weights(64, 512))

    assert codes.abs().amax() <= 127
    assert (codes.abs().amax(1) >= 126).all()


WIDE = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2}


def holding(model: Transformer, checkpoint: MemoryCheckpoint) -> Transformer:
    """Returns a model in f32 with the very weights that a quantized one stores."""
    exact = load_model(checkpoint)
    for name, layer in model.named_modules():
        if isinstance(layer, Int8Linear | Int4Linear):
            shared = exact.head is None and layer is model.head
            target = exact.embedding if shared or "embedding" in name else exact.get_submodule(name)
            target.weight.copy_(layer.dequantized())
    return exact


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_model_is_quantized_as_it_is_loaded(kind: Kind, tied: bool) -> None:
    checkpoint = tiny_checkpoint(**WIDE, tie_word_embeddings=tied)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])

    model = load_model(checkpoint, dtype=kind)

    exact = holding(model, checkpoint)(ids)
    assert not any(isinstance(module, Linear) for module in model.modules())
    assert isinstance(model.head, Int8Linear)
    assert any(isinstance(module, Int4Linear) for module in model.modules()) == (kind == "int4")
    for logits in (model(ids), torch.cat([model(ids[:, : at + 1], last_only=True) for at in range(8)], 1)):
        assert torch.cosine_similarity(logits.flatten(), exact.flatten(), dim=0) > 0.99  # bf16's own noise


def test_a_tied_embedding_takes_its_rows_from_the_head() -> None:
    model = load_model(tiny_checkpoint(**WIDE, tie_word_embeddings=True), dtype="int8")

    assert isinstance(model.head, Int8Linear)
    rows = model.embedding(torch.tensor([[7, 3]]))
    assert rows.dtype == torch.bfloat16
    assert torch.allclose(rows[0].float(), model.head.dequantized()[[7, 3]], rtol=2**-7)
    assert not any(name.endswith("embedding.weight") for name, _parameter in model.named_parameters())
