"""The cache of keys and values: what comes back is what was put in, within each type's bound, and windows are exact."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from runtime.native.cache_storage import CACHE_TYPES, ERROR_BOUNDS
from runtime.native.kv_cache import ROLLBACK, KVCache, cache_bytes

K, D = 2, 16
QUANTIZED = ("int8", "int4")


class Config:
    """A model's description, as far as a cache asks: `windows` has one entry a layer."""

    def __init__(self, *windows: int | None, head_dim: int = D) -> None:
        self.n_layers = len(windows)
        self.n_kv_heads = K
        self.head_dim = head_dim
        self._windows = windows

    def window_of(self, layer: int) -> int | None:
        return self._windows[layer]


def positions(count: int, *, batch: int = 1, head_dim: int = D, seed: int = 0) -> Tensor:
    """Vectors (batch, K, count, head_dim), the same for the same seed and count."""
    return torch.randn(batch, K, count, head_dim, generator=torch.Generator().manual_seed(seed))


def read_in(cache: KVCache, k: Tensor, v: Tensor, chunks: list[int]) -> list[tuple[Tensor, Tensor, int]]:
    """Appends k and v in pieces to layer 0; returns what the last append gave each time."""
    given, at = [], 0
    for chunk in chunks:
        keys, values, first = cache.append(0, k[:, :, at : at + chunk], v[:, :, at : at + chunk])
        given.append((keys.clone(), values.clone(), first))
        cache.advance(chunk)
        at += chunk
    return given


@pytest.mark.parametrize("chunks", [[300], [1] * 300, [7, 64, 229]])
def test_f32_returns_exactly_what_was_appended_in_any_pieces(chunks: list[int]) -> None:
    k, v = positions(300), positions(300, seed=1)
    cache = KVCache(Config(None), capacity=4)

    keys, values, first = read_in(cache, k, v, chunks)[-1]

    assert (first, cache.length) == (0, 300)
    assert torch.equal(keys, k)
    assert torch.equal(values, v)


@pytest.mark.parametrize("kind", CACHE_TYPES)
@pytest.mark.parametrize("head_dim", [1, 15, 16, 48, 100])
def test_every_type_keeps_within_its_stated_bound(kind: str, head_dim: int) -> None:
    k, v = positions(40, head_dim=head_dim) * 30, positions(40, head_dim=head_dim, seed=1)
    cache = KVCache(Config(None, head_dim=head_dim), k_type=kind, v_type=kind)

    keys, values, _first = read_in(cache, k, v, [3, 36, 1])[-1]

    for stored, given in ((keys, k), (values, v)):
        allowed = ERROR_BOUNDS[kind] * given.abs().amax(-1, keepdim=True) * (1 + 1e-5)
        assert stored.dtype == torch.float32
        assert ((stored - given).abs() <= allowed).all()


def test_a_large_number_in_int4_costs_only_its_own_group_its_precision() -> None:
    k = positions(20, head_dim=64)
    k[..., 3] = 100.0
    cache = KVCache(Config(None, head_dim=64), k_type="int4", v_type="int4")

    keys, _values, _first = read_in(cache, k, k, [20])[-1]

    step = (k[..., 32:].amax(-1) - k[..., 32:].amin(-1)) / 15
    assert ((keys - k)[..., 32:].abs().amax(-1) <= step / 2 * (1 + 1e-5)).all()
    assert (keys - k)[..., :32].abs().max() > step.max()


@pytest.mark.parametrize("kind", QUANTIZED)
def test_a_quantized_zero_vector_comes_back_as_zero(kind: str) -> None:
    cache = KVCache(Config(None), k_type=kind, v_type=kind)
    zeros = torch.zeros(1, K, 3, D)

    keys, values, _first = cache.append(0, zeros, zeros)

    assert not keys.any()
    assert not values.any()


@pytest.mark.parametrize("kind", CACHE_TYPES)
def test_what_is_stored_does_not_change_when_more_is_appended(kind: str) -> None:
    k, v = positions(400), positions(400, seed=1)
    cache = KVCache(Config(None), capacity=4, k_type=kind, v_type=kind)

    given = read_in(cache, k, v, [50, 1, 300, 49])

    for keys, values, _first in given:
        assert torch.equal(keys, given[-1][0][:, :, : keys.shape[2]])
        assert torch.equal(values, given[-1][1][:, :, : values.shape[2]])


def test_k_and_v_have_types_of_their_own_and_come_back_in_the_wanted_one() -> None:
    cache = KVCache(Config(None), k_type="int8", v_type="f16", dtype=torch.bfloat16)

    keys, values, _first = cache.append(0, positions(5).bfloat16(), positions(5).bfloat16())

    assert keys.dtype == values.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
def test_numbers_of_the_wanted_type_are_views_and_no_copies(kind: str) -> None:
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[kind]
    cache = KVCache(Config(None), k_type=kind, v_type=kind, dtype=dtype)

    first, _values, _first = cache.append(0, positions(5).to(dtype), positions(5).to(dtype))
    cache.advance(5)
    second, _values, _first = cache.append(0, positions(1).to(dtype), positions(1).to(dtype))

    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


@pytest.mark.parametrize("window", [1, 5, 16])
@pytest.mark.parametrize("chunks", [[1] * 700, [15, 1, 1, 600, 83], [700], [16, 17, 18, 40] + [3] * 203])
@pytest.mark.parametrize("full", [False, True])
def test_a_windowed_layer_gives_just_what_the_new_tokens_see(window: int, chunks: list[int], full: bool) -> None:
    k, v = positions(700), positions(700, seed=1)
    cache = KVCache(Config(window), capacity=8, full=full)

    stop = 0
    for (keys, values, first), chunk in zip(read_in(cache, k, v, chunks), chunks, strict=True):
        assert first == max(0, stop - window + 1)
        stop += chunk
        assert torch.equal(keys, k[:, :, first:stop])
        assert torch.equal(values, v[:, :, first:stop])


@pytest.mark.parametrize("kind", CACHE_TYPES)
def test_a_long_piece_that_was_read_in_inference_mode_gives_its_room_back(kind: str) -> None:
    k, v = positions(700), positions(700, seed=1)
    cache, whole = (KVCache(Config(16), capacity=8, k_type=kind, v_type=kind, full=full) for full in (False, True))

    for start, stop in ((0, 300), (300, 600), (600, 650), (650, 700)):
        for each in (cache, whole):
            with torch.inference_mode():
                keys, _values, first = each.append(0, k[:, :, start:stop], v[:, :, start:stop])
                kept = keys.clone()
            each.advance(stop - start)
            if each is cache:
                ours = kept, first
        assert ours[1] == first
        assert torch.equal(ours[0], kept)

    assert cache.bytes < whole.bytes


def test_a_windowed_layers_memory_does_not_grow_with_the_text() -> None:
    cache = KVCache(Config(16), capacity=8)

    read_in(cache, positions(300), positions(300), [1] * 300)
    after_300 = cache.bytes
    read_in(cache, positions(3000), positions(3000), [2500] + [1] * 500)

    assert cache.bytes == after_300


def test_the_last_tokens_of_a_windowed_layer_can_always_be_taken_back() -> None:
    k, v = positions(2000), positions(2000, seed=1)
    cache = KVCache(Config(16), capacity=8)

    for at in range(1900):
        cache.append(0, k[:, :, at : at + 1], v[:, :, at : at + 1])
        cache.advance(1)
        assert cache.longest_valid(max(0, cache.length - ROLLBACK)) == max(0, cache.length - ROLLBACK)
    cache.truncate(1900 - ROLLBACK)
    at = cache.length
    keys, _values, first = cache.append(0, k[:, :, at : at + 3], v[:, :, at : at + 3])

    assert torch.equal(keys, k[:, :, first : at + 3])


def test_a_prefix_whose_window_is_gone_is_not_valid_and_cannot_be_kept() -> None:
    cache = KVCache(Config(None, 16), capacity=8)
    for layer in (0, 1):
        cache.append(layer, positions(1000), positions(1000))
    cache.advance(1000, range(1000))

    assert cache.longest_valid(500) == 0
    assert cache.longest_valid(1000) == 1000
    with pytest.raises(ValueError, match="500"):
        cache.truncate(500)
    cache.truncate(0)
    assert (cache.length, cache.ids) == (0, [])


def test_a_full_cache_keeps_prefixes_of_windowed_layers_valid() -> None:
    cache = KVCache(Config(16), full=True)
    k = positions(1000)
    cache.append(0, k, k)
    cache.advance(1000)

    cache.truncate(500)
    keys, _values, first = cache.append(0, k[:, :, 500:501], k[:, :, 500:501])

    assert torch.equal(keys, k[:, :, first:501])


def test_what_is_cut_off_is_overwritten_and_the_tokens_follow() -> None:
    k, new = positions(10), positions(4, seed=2)
    cache = KVCache(Config(None))
    cache.append(0, k, k)
    cache.advance(10, range(10))

    cache.truncate(6)
    keys, _values, _first = cache.append(0, new, new)
    cache.advance(4, [90, 91, 92, 93])

    assert torch.equal(keys, torch.cat([k[:, :, :6], new], 2))
    assert cache.ids == [0, 1, 2, 3, 4, 5, 90, 91, 92, 93]


def test_a_forward_pass_that_was_given_up_leaves_no_trace() -> None:
    k, v = positions(20), positions(20, seed=1)
    cache = KVCache(Config(None))
    read_in(cache, k[:, :, :10], v[:, :, :10], [10])

    cache.append(0, positions(5, seed=7), positions(5, seed=7))
    keys, values, _first = cache.append(0, k[:, :, 10:], v[:, :, 10:])

    assert torch.equal(keys, k)
    assert torch.equal(values, v)


@pytest.mark.parametrize("kind", CACHE_TYPES)
@pytest.mark.parametrize("window", [None, 5])
def test_reordering_copies_whole_sequences_the_source_too(kind: str, window: int | None) -> None:
    k, v = positions(300, batch=3), positions(300, batch=3, seed=1)
    cache = KVCache(Config(window), batch=3, capacity=8, k_type=kind, v_type=kind)
    source = positions(4, batch=3)
    cache.set_cross(0, source, source + 1)
    before = read_in(cache, k, v, [200, 99, 1])[-1]

    cache.reorder(torch.tensor([2, 2, 0, 1]))
    new = positions(1, batch=4, seed=5)
    keys, _values, _first = cache.append(0, new, new)

    seen = keys.shape[2] - 1
    assert cache.batch == 4
    assert seen > 0
    assert torch.equal(keys[:, :, :seen], before[0][[2, 2, 0, 1]][:, :, before[0].shape[2] - seen :])
    kept = cache.cross(0)
    assert kept is not None
    assert torch.equal(kept[1], (source + 1)[[2, 2, 0, 1]])


def test_a_batch_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="3"):
        KVCache(Config(None), batch=3).append(0, positions(1), positions(1))


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="q9"):
        KVCache(Config(None), k_type="q9").append(0, positions(1), positions(1))


def test_the_source_is_kept_until_everything_is_cleared() -> None:
    cache = KVCache(Config(None))
    cache.set_cross(0, positions(4), positions(4))
    cache.append(0, positions(3), positions(3))
    cache.advance(3)

    cache.truncate(1)
    assert cache.cross(0) is not None
    cache.clear()

    assert cache.cross(0) is None
    assert cache.length == 0


@pytest.mark.parametrize("kind", CACHE_TYPES)
@pytest.mark.parametrize("full", [False, True])
def test_the_memory_said_beforehand_is_the_memory_taken(kind: str, full: bool) -> None:
    config = Config(None, 16, 5000)
    cache = KVCache(config, capacity=2048, k_type=kind, v_type="f32", full=full)
    for layer in range(3):
        cache.append(layer, positions(2048), positions(2048))
    cache.advance(2048)

    work = sum(memory.nbytes for memory in cache._scratch)
    assert cache.bytes - work == cache_bytes(config, 2048, k_type=kind, v_type="f32", full=full)


def test_room_doubles_so_that_a_token_rarely_moves_others() -> None:
    cache = KVCache(Config(None), capacity=4)
    sizes = set()

    for _token in range(1000):
        cache.append(0, positions(1), positions(1))
        cache.advance(1)
        sizes.add(cache.bytes)

    assert len(sizes) == 9  # 4, 8, … 1024 rows
