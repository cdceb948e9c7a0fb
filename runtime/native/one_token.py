"""Reads one token through a decoder in a straight line: the modules' equations, written one after the other.

An answer is read token by token, and then what stands around the matrices takes as long as they do: modules that call
modules, masks that hide nothing, shapes made for many positions. Here each part of a layer is one function of a vector
x (C), and its weights are looked up once:

    q, k, v = W_qkv norm(x)          q and k turned to their position; k and v join the cache's K and V
    x = x + W_out softmax(q Kᵀ / sqrt(d_k)) V
    n = norm(x)
    x = x + W_down (act(W_gate n) * W_up n)

`block`, `attention` and `feed_forward` say the same for many positions and are to be read first; a test holds both
equal to the last bit, in every family. What is not plain (experts, adapters) is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.native.attention import Attention
from runtime.native.block import Block, Residual
from runtime.native.feed_forward import FeedForward
from runtime.native.linear import Linear
from runtime.native.norm import RMSNorm, rms_norm_of_one
from runtime.native.positions import CosSin, rotate
from runtime.native.quantized import Int4Linear, Int8Linear
from runtime.native.step import Cache
from runtime.native.transformer import Transformer


class Now(NamedTuple):
    """What all layers share while a token is read: its rotations, in the order of the model's, and the cache."""

    turns: Sequence[CosSin]
    cache: Cache


Map = Callable[[Tensor], Tensor]  # (C) → (C), or as many as a matrix has rows
Part = Callable[[Tensor, Now], Tensor]  # the same, of this token


class OneToken:
    """A decoder's way for single tokens, made of a model whose modules are not exchanged afterwards."""

    @classmethod
    def of(cls, model: Transformer) -> OneToken | None:
        """Returns None where a layer does more than is written here: look at a source, bend or shift its scores.

        It is for the processor: elsewhere a norm would wait for each vector's length.
        """
        config, decoder = model.config, model.decoder
        plain = config.form == "decoder" and not config.attention_softcap
        if decoder is None or not plain or decoder.bias is not None or not next(model.parameters()).is_cpu:
            return None
        return cls(model)

    def __init__(self, model: Transformer) -> None:
        assert model.decoder is not None
        self._model, self._decoder = model, model.decoder
        ropes = list(model.ropes)
        self._layers = [_layer(block, ropes) for block in model.decoder.layers]  # type: ignore[arg-type]

    def __call__(self, ids: Tensor, cache: Cache) -> Tensor:
        """Returns the logits (1, 1, V) behind a token (1, 1) that follows what the cache holds.

        The cache is for one text; the caller advances it afterwards.
        """
        x = self._model.embed(ids)
        turns, positions = self._model.turns(cache.length, 1, like=x)
        x = self._decoder.begin(x, positions).view(-1)
        now = Now(list(turns.values()), cache)
        for layer in self._layers:
            x = layer(x, now)
        return self._model.logits(self._decoder.finish(x.view(1, 1, -1)))


def _layer(block: Block, ropes: Sequence[object]) -> Part:
    attention, ffn = _attention(block.attention, ropes), _feed_forward(block.ffn)
    if block.parallel:
        gather, work = _branch(block.attention_residual, attention), _branch(block.ffn_residual, ffn)
        return lambda x, now: x + gather(x, now) + work(x, now)
    gather, work = _sum(block.attention_residual, attention), _sum(block.ffn_residual, ffn)
    return lambda x, now: work(gather(x, now), now)


def _sum(residual: Residual, part: Part) -> Part:
    """Returns x + f(x), with the norms where they stand."""
    if residual.after_sum:
        norm = _norm(residual.post_norm)
        return lambda x, now: norm(x + part(x, now))
    branch = _branch(residual, part)
    return lambda x, now: x + branch(x, now)


def _branch(residual: Residual, part: Part) -> Part:
    """Returns f(x) with the norm before it, the one after it, or both."""
    before, after = _norm(residual.norm), _norm(residual.post_norm)
    if residual.post_norm is None:
        return lambda x, now: part(before(x), now)
    if residual.norm is None:
        return lambda x, now: after(part(x, now))
    return lambda x, now: after(part(before(x), now))


def _attention(attention: Attention, ropes: Sequence[object]) -> Part:
    H, K, _ = attention.heads
    D, layer, scale, rope = attention.head_dim, attention.layer, attention.scale, attention.rope
    qkv, out = _product(attention.qkv), _product(attention.out)
    turn = ropes.index(rope) if rope is not None else -1
    normed = None if attention.qk_norm == "none" else attention.normed

    def attend(x: Tensor, now: Now) -> Tensor:
        qk, v = torch.split(qkv(x).view(1, H + 2 * K, 1, D), [H + K, K], dim=1)
        if normed is not None:
            qk = torch.cat(normed(qk[:, :H], qk[:, H:]), dim=1)
        if rope is not None:
            qk = rotate(qk, now.turns[turn], rope)
        q, k = torch.split(qk, [H, K], dim=1)
        keys, values, _first = now.cache.append(layer, k, v)  # (1, K, S, D): what this token sees
        grouped = q.view(1, K, H // K, D)  # the heads that share keys are queries of the same keys
        return out(F.scaled_dot_product_attention(grouped, keys, values, scale=scale).flatten())

    return attend


def _feed_forward(ffn: nn.Module) -> Part:
    if not isinstance(ffn, FeedForward):
        return lambda x, _now: ffn(x.view(1, 1, -1)).view(-1)
    activation, down = ffn.activation, _product(ffn.down)
    if not ffn.gated:
        up = _product(ffn.up)
        return lambda x, _now: down(activation(up(x)))
    gate_up = _product(ffn.gate_up)

    def gated(x: Tensor, _now: Now) -> Tensor:
        gate, up = gate_up(x).chunk(2)
        return down(activation(gate).mul_(up))

    return gated


def _product(module: nn.Module) -> Map:
    """Returns x ↦ W x + b, and what an adapter adds to it."""
    if isinstance(module, Linear | Int8Linear | Int4Linear) and not module._forward_hooks:
        return module.product()
    return module


def _norm(module: nn.Module | None) -> Map:
    if module is None:
        return lambda x: x
    if type(module) is not RMSNorm:
        return module
    weight, eps = module.weight, module.eps
    return lambda x: rms_norm_of_one(x, weight, eps)
