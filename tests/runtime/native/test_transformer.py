"""The whole model in its three forms: chunks, caches, padding, prefixes, and what an onlooker gets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.config import ModelConfig, Rope
from runtime.native.kv_cache import KVCache
from runtime.native.transformer import Transformer

SIZES: dict[str, Any] = {"vocab_size": 40, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "head_dim": 4,
                         "d_ff": 24, "context_length": 64}  # fmt: skip
T5: dict[str, Any] = {"form": "encoder-decoder", "n_encoder_layers": 3, "n_kv_heads": 4, "position": "relative",
                      "attention_scale": 1.0, "activation": "relu", "gated": False, "tied": True}  # fmt: skip
PAPER: dict[str, Any] = {"form": "encoder-decoder", "n_encoder_layers": 2, "n_kv_heads": 4, "position": "sinusoidal",
                         "norm": "layer", "norm_placement": "post", "activation": "relu", "gated": False,
                         "qkv_bias": True, "out_bias": True, "ffn_bias": True, "embedding_scale": 4.0,
                         "tied": True}  # fmt: skip
ENCODER: dict[str, Any] = {"form": "encoder", "position": "learned", "norm": "layer", "norm_placement": "post",
                           "embedding_norm": True, "n_token_types": 2, "activation": "gelu",
                           "gated": False}  # fmt: skip


def model(seed: int = 0, **options: Any) -> Transformer:
    """Returns a random model whose parts all have an effect."""
    torch.manual_seed(seed)
    made = Transformer(ModelConfig(family="test", **SIZES | options)).eval().requires_grad_(False)
    for name, parameter in made.named_parameters():
        near_one = "norm" in name and name.endswith("weight")
        parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if near_one else 0.0))
    return made


def some_ids(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(0, 40, (batch, length), generator=torch.Generator().manual_seed(seed))


def stepwise(decoder: Transformer, ids: Tensor, sizes: list[int], **inputs: Any) -> Tensor:
    """Returns the logits of ids read in pieces of these sizes through a cache."""
    cache = KVCache(decoder.config, batch=ids.shape[0], capacity=2)
    logits = []
    for piece in ids.split(sizes, dim=1):
        logits.append(decoder(piece, cache=cache, **inputs))
        cache.advance(piece.shape[1])
    return torch.cat(logits, dim=1)


DECODERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "windowed": {"sliding_window": 3},
    "windows on some layers, local rotation": {"sliding_window": 3, "full_attention_layers": (1,),
                                               "local_rope": Rope(base=100.0)},
    "no positions on a layer": {"no_rope_layers": (0,)},
    "learned": {"position": "learned"},
    "alibi": {"position": "alibi"},
    "relative": {"position": "relative"},
    "full qk-norm, branch norms": {"qk_norm": "full", "norm_placement": "branch"},
    "capped": {"attention_softcap": 2.0, "logit_softcap": 3.0},
    "experts": {"n_experts": 4, "n_experts_used": 2, "expert_d_ff": 8, "dense_layers": (1,)},
    "side by side": {"parallel_residual": True, "norm": "layer"},
}  # fmt: skip


@pytest.mark.parametrize("options", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("sizes", [[9], [4, 5], [3, 1, 1, 4], [1] * 9], ids=str)
def test_any_chunks_give_the_logits_of_the_whole(options: dict[str, Any], sizes: list[int]) -> None:
    decoder, ids = model(**options), some_ids(2, 9)

    torch.testing.assert_close(stepwise(decoder, ids, sizes), decoder(ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("options", DECODERS.values(), ids=DECODERS)
def test_a_batch_with_padding_on_the_left_equals_each_alone(options: dict[str, Any]) -> None:
    decoder, ids = model(**options), some_ids(1, 5)
    padded = torch.cat((some_ids(1, 3, seed=9), ids), dim=1)
    padding = torch.tensor([0, 3])

    batched = stepwise(decoder, torch.cat((some_ids(1, 8), padded)), [6, 1, 1], padding=padding)

    torch.testing.assert_close(batched[1:, 3:], decoder(ids), atol=1e-4, rtol=0)
    torch.testing.assert_close(batched[:1], decoder(some_ids(1, 8)), atol=1e-4, rtol=0)


def test_what_follows_a_position_does_not_change_it() -> None:
    decoder, ids = model(), some_ids(1, 8)
    other = torch.cat((ids[:, :5], some_ids(1, 3, seed=2)), dim=1)

    torch.testing.assert_close(decoder(ids)[:, :5], decoder(other)[:, :5])


def test_a_prefix_is_read_both_ways() -> None:
    decoder, ids = model(), some_ids(1, 8)
    other = torch.cat((ids[:, :3], (ids[:, 3:] + 1) % 40), dim=1)

    with_prefix = decoder(ids, prefix=4), decoder(other, prefix=4)

    assert not torch.allclose(with_prefix[0][:, 0], with_prefix[1][:, 0])  # position 3, in the prefix, differs


def test_only_the_last_positions_logits_when_asked() -> None:
    decoder, ids = model(), some_ids(2, 6)

    last = decoder(ids, last_only=True)

    assert last.shape == (2, 1, 40)
    torch.testing.assert_close(last, decoder(ids)[:, -1:])


def test_logits_are_f32_whatever_the_weights_are() -> None:
    assert model().bfloat16()(some_ids(1, 3)).dtype == torch.float32


@pytest.mark.parametrize("options", [T5, PAPER], ids=["t5", "2017"])
def test_an_encoder_decoder_reads_the_source_once(options: dict[str, Any]) -> None:
    translator, source, target = model(**options), some_ids(2, 7), some_ids(2, 5, seed=3)
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    encoded = translator.encode(source, mask)
    whole = translator(target, encoded=encoded, encoded_mask=mask)
    cache = KVCache(translator.config, batch=2)

    first = translator(target[:, :2], cache=cache, encoded=encoded, encoded_mask=mask)
    cache.advance(2)
    rest = translator(target[:, 2:], cache=cache, encoded_mask=mask)  # the cache holds what the encoder said

    assert encoded.shape == (2, 7, 16)
    torch.testing.assert_close(torch.cat((first, rest), dim=1), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("options", [T5, PAPER, ENCODER], ids=["t5", "2017", "encoder"])
def test_padding_of_the_source_changes_nothing(options: dict[str, Any]) -> None:
    encoder, source = model(**options), some_ids(1, 4)
    padded = torch.cat((source, torch.zeros(1, 3, dtype=torch.long)), dim=1)

    encoded = encoder.encode(padded, torch.tensor([[1] * 4 + [0] * 3]))

    torch.testing.assert_close(encoded[:, :4], encoder.encode(source), atol=1e-4, rtol=0)


def test_the_decoder_looks_at_the_source_and_not_at_its_padding() -> None:
    translator, target = model(**T5), some_ids(1, 3)
    encoded = translator.encode(some_ids(1, 5))
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    changed = torch.cat((encoded[:, :3], torch.zeros(1, 2, 16)), dim=1)

    torch.testing.assert_close(
        translator(target, encoded=encoded, encoded_mask=mask), translator(target, encoded=changed, encoded_mask=mask)
    )
    assert not torch.allclose(translator(target, encoded=encoded), translator(target, encoded=changed))


def test_an_encoder_sees_what_follows_and_tells_segments_apart() -> None:
    encoder, ids = model(**ENCODER), some_ids(1, 6)
    other = torch.cat((ids[:, :5], (ids[:, 5:] + 1) % 40), dim=1)

    assert not torch.allclose(encoder.encode(ids)[:, 0], encoder.encode(other)[:, 0])
    assert not torch.allclose(encoder.encode(ids), encoder.encode(ids, token_types=torch.ones_like(ids)))


def test_a_form_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="no decoder"):
        model(**ENCODER)(some_ids(1, 2))
    with pytest.raises(ValueError, match="no encoder"):
        model().encode(some_ids(1, 2))


def test_scales_and_caps_of_the_logits() -> None:
    plain, scaled, capped = (model(**options) for options in ({}, {"logit_scale": 0.5}, {"logit_softcap": 2.0}))
    ids = some_ids(1, 4)

    torch.testing.assert_close(scaled(ids), plain(ids) * 0.5)
    torch.testing.assert_close(capped(ids), torch.tanh(plain(ids) / 2) * 2)


class Onlooker:
    """Asks for one layer's weights and one layer's states."""

    def __init__(self, kind: str, layer: int) -> None:
        self.wanted = (kind, layer)
        self.weights: list[tuple[Tensor, int]] = []
        self.states: list[Tensor] = []

    def wants_attention(self, kind: str, layer: int) -> bool:
        return (kind, layer) == self.wanted

    def attention(self, kind: str, layer: int, weights: Tensor, first: int) -> None:
        self.weights.append((weights, first))

    def wants_hidden(self, kind: str, layer: int) -> bool:
        return (kind, layer) == self.wanted

    def hidden(self, kind: str, layer: int, x: Tensor) -> None:
        self.states.append(x)


@pytest.mark.parametrize("kind", ["self", "cross", "encoder"])
def test_an_onlooker_gets_what_it_asks_for_and_changes_nothing(kind: str) -> None:
    translator, source, target = model(**T5), some_ids(1, 5), some_ids(1, 3)
    watch = Onlooker(kind, 1)

    encoded = translator.encode(source, watch=watch)
    logits = translator(target, encoded=encoded, watch=watch)

    sizes = {"self": (3, 3), "cross": (3, 5), "encoder": (5, 5)}[kind]
    assert [weights.shape for weights, _ in watch.weights] == [(1, 4, *sizes)]
    torch.testing.assert_close(watch.weights[0][0].sum(dim=-1), torch.ones(1, 4, sizes[0]))
    assert len(watch.states) == (kind != "cross")
    torch.testing.assert_close(logits, translator(target, encoded=translator.encode(source)), atol=1e-5, rtol=0)


def test_the_last_layers_states_lead_to_the_logits() -> None:
    """The logit lens: any layer's states through the last norm and the head."""
    decoder, ids = model(), some_ids(1, 4)
    watch = Onlooker("self", 1)

    logits = decoder(ids, watch=watch)

    assert decoder.decoder is not None
    torch.testing.assert_close(decoder.logits(decoder.decoder.finish(watch.states[0])), logits)


def test_a_named_weight_is_a_view_of_the_model() -> None:
    decoder, ids = model(), some_ids(1, 4)
    before = decoder(ids)

    decoder.slots()["decoder.layers.1.attention.k.weight"].tensor.mul_(2)

    assert not torch.allclose(decoder(ids), before)
    assert decoder.slots()["decoder.layers.0.ffn.up.weight"].tensor.shape == (24, 16)


def test_experts_are_named_by_part() -> None:
    decoder = model(n_experts=4, n_experts_used=2, expert_d_ff=8)

    shapes = {name: tuple(slot.tensor.shape) for name, slot in decoder.slots().items() if "layers.0.ffn." in name}

    assert shapes == {
        "decoder.layers.0.ffn.router.weight": (4, 16),
        "decoder.layers.0.ffn.experts.gate.weight": (4, 8, 16),
        "decoder.layers.0.ffn.experts.up.weight": (4, 8, 16),
        "decoder.layers.0.ffn.experts.down.weight": (4, 16, 8),
    }


def test_a_planned_length_gives_a_beginning_the_frequencies_of_the_whole() -> None:
    rope = Rope(scaling="longrope", factors=(1.0, 1.0), long_factors=(2.0, 3.0), original_context=6)
    decoder, ids = model(rope=rope), some_ids(1, 9)
    decoder.planned_length = 9

    torch.testing.assert_close(stepwise(decoder, ids, [4, 5]), decoder(ids), atol=1e-4, rtol=0)
