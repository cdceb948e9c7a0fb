"""One token in a straight line: to the last bit what the modules give, in every family that it reads."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from hf_models import CASES, ENCODER_DECODERS, ENCODERS, checkpoint_of, oracle
from runtime.native.kv_cache import KVCache
from runtime.native.linear import Linear
from runtime.native.load import load_model
from runtime.native.mapped import DTYPES
from runtime.native.one_token import OneToken
from runtime.native.transformer import Transformer
from tiny_native import tiny_checkpoint

LEFT_TO_THE_MODULES = ("bloom", "gemma2")  # scores that are shifted, and bent
READ = [case.name for case in CASES if not case.name.startswith(LEFT_TO_THE_MODULES)]
IDS = torch.randint(0, 24, (1, 16), generator=torch.Generator().manual_seed(3))


def caches(model: Transformer, kind: str = "f32") -> tuple[KVCache, KVCache]:
    """Returns two caches that hold the same beginning."""
    made = tuple(KVCache(model.config, capacity=2, k_type=kind, v_type=kind, dtype=DTYPES.get(kind, torch.float32))
                 for _ in range(2))  # fmt: skip
    for cache in made:
        model(IDS[:, :5], cache=cache)
        cache.advance(5)
    first, second = made
    return first, second


def both_ways(model: Transformer, kind: str = "f32") -> list[tuple[Tensor, Tensor]]:
    """Reads tokens behind a beginning, by the straight line and by the modules; returns the logits of each."""
    straight = OneToken.of(model)
    assert straight is not None
    with torch.inference_mode():
        ours, theirs = caches(model, kind)
        logits = []
        for token in IDS[:, 5:].split(1, dim=1):
            logits.append((straight(token, ours), model(token, cache=theirs)))
            ours.advance(1)
            theirs.advance(1)
    return logits


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", READ)
def test_every_family_gives_what_its_modules_give(name: str, dtype: str) -> None:
    model = load_model(checkpoint_of(oracle(name)), dtype=dtype)
    model.planned_length = 16

    logits = both_ways(model, dtype)

    for ours, theirs in logits:
        assert ours.shape == theirs.shape
        assert torch.equal(ours, theirs)
    assert not any(torch.equal(one, other) for (one, _), (other, _) in pairwise(logits))


@pytest.mark.parametrize("size", [16, 64])  # one that the packed kernels do not take, one that they do
@pytest.mark.parametrize("dtype", ["f16", "int8", "int4"])
def test_other_number_formats_give_what_the_modules_give(dtype: str, size: int) -> None:
    model = load_model(tiny_checkpoint(hidden_size=size, intermediate_size=2 * size), dtype=dtype)

    assert all(torch.equal(ours, theirs) for ours, theirs in both_ways(model, "f16" if dtype == "f16" else "bf16"))


@pytest.mark.parametrize("kind", ["bf16", "f16", "int8", "int4"])
def test_every_type_of_cache_is_read(kind: str) -> None:
    model = load_model(tiny_checkpoint())
    straight = OneToken.of(model)
    assert straight is not None
    with torch.inference_mode():
        ours, theirs = (KVCache(model.config, k_type=kind, v_type=kind) for _ in range(2))
        for token in IDS.split(1, dim=1):
            assert torch.equal(straight(token, ours), model(token, cache=theirs))
            ours.advance(1)
            theirs.advance(1)


def test_what_hangs_on_a_matrix_is_heard() -> None:
    """An adapter beside the weights is a hook on a module."""
    model = load_model(tiny_checkpoint())
    plain = both_ways(model)[-1][0]
    for module in model.modules():
        if isinstance(module, Linear):
            module.register_forward_hook(lambda _module, _inputs, output: output * 1.5)

    ours, theirs = both_ways(model)[-1]

    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, plain)


@pytest.mark.parametrize(
    "name", [*sorted(LEFT_TO_THE_MODULES), *(case.name for case in (*ENCODERS, *ENCODER_DECODERS))]
)
def test_what_it_cannot_read_is_left_to_the_modules(name: str) -> None:
    assert OneToken.of(load_model(checkpoint_of(oracle(name)))) is None
