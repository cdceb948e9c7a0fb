"""The Transformer, put together: a decoder, an encoder, or both, between an embedding and a head.

Knows nothing about text, sampling or files. The cache of what was read is passed in, never kept here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from runtime.config import ModelConfig, Rope
from runtime.native.block import Block
from runtime.native.feed_forward import ACTIVATIONS
from runtime.native.linear import Embedding, Linear, Slot, slots
from runtime.native.masks import Mask, Masks
from runtime.native.norm import make_norm
from runtime.native.positions import (
    AlibiBias,
    CosSin,
    LearnedPositions,
    RelativeBias,
    RotaryTable,
    SinusoidalPositions,
)
from runtime.native.step import AttentionKind, Cache, Step, Watch


class Stack(nn.Module):
    """The layers of one side with what stands around them: positions before, and the last norm after."""

    def __init__(self, config: ModelConfig, side: AttentionKind, n_layers: int) -> None:
        super().__init__()
        self.side = side
        cross = side == "self" and config.form == "encoder-decoder"
        self.positions = _added_positions(config)
        self.embedding_norm = make_norm(config) if config.embedding_norm else None
        self.bias = _score_bias(config, both_ways=side == "encoder")
        self.layers = nn.ModuleList(Block(config, layer, side, cross=cross) for layer in range(n_layers))
        self.norm = make_norm(config) if config.has_final_norm else None

    def forward(self, x: Tensor, positions: Tensor, step: Step) -> Tensor:
        """Runs embeddings (B, T, C) at `positions` (T) or (B, T) through all layers, up to the last norm."""
        x = self.begin(x, positions)
        watch = step.watch
        if watch is not None and watch.wants_hidden(self.side, -1):
            watch.hidden(self.side, -1, x)
        for layer, block in enumerate(self.layers):
            x = block(x, step)
            if watch is not None and watch.wants_hidden(self.side, layer):
                watch.hidden(self.side, layer, x)
        return x

    def begin(self, x: Tensor, positions: Tensor) -> Tensor:
        """Makes of embeddings what the first layer reads."""
        if self.positions is not None:
            x = x + self.positions(positions).to(x.dtype)
        return x if self.embedding_norm is None else self.embedding_norm(x)

    def finish(self, x: Tensor) -> Tensor:
        """Applies the last norm, where there is one."""
        return x if self.norm is None else self.norm(x)


def _added_positions(config: ModelConfig) -> nn.Module | None:
    if config.position == "learned":
        return LearnedPositions(config.context_length, config.d_model, config.position_offset)
    return SinusoidalPositions(config.d_model) if config.position == "sinusoidal" else None


def _score_bias(config: ModelConfig, *, both_ways: bool) -> nn.Module | None:
    if config.position == "relative":
        return RelativeBias(config, both_ways=both_ways)
    return AlibiBias(config.n_heads) if config.position == "alibi" else None


class MaskedHead(nn.Module):
    """What BERT puts between its last states and the vocabulary, to guess hidden tokens: norm(act(W x + b)).

    (…, C) → the same.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model, bias=True)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = make_norm(config)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.activation(self.dense(x)))
        return normed


class Transformer(nn.Module):
    """A model of any of the three forms. Its matrices have no values until they are loaded.

    `planned_length` is how long the text may become, for scalings of RoPE that depend on it: an engine that sets it
    gets the same frequencies for a short beginning as for the whole; 0 goes by what has been read.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.planned_length = 0
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.token_types = Embedding(config.n_token_types, config.d_model) if config.n_token_types else None
        encoder_layers = config.n_layers if config.form == "encoder" else config.n_encoder_layers
        self.encoder = Stack(config, "encoder", encoder_layers) if config.form != "decoder" else None
        self.decoder = Stack(config, "self", config.n_layers) if config.form != "encoder" else None
        self.masked_head = MaskedHead(config) if config.masked_head else None
        self.head: nn.Module | None = None if config.tied else Linear(config.d_model, config.vocab_size, bias=False)
        self.head_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.head_bias else None
        self._tables = {rope: RotaryTable(rope, config.head_dim) for rope in _ropes(config)}

    def forward(
        self, ids: Tensor, *, cache: Cache | None = None, padding: Tensor | None = None, encoded: Tensor | None = None,
        encoded_mask: Tensor | None = None, prefix: int = 0, last_only: bool = False, watch: Watch | None = None,
    ) -> Tensor:  # fmt: skip
        """Returns the logits in f32, (B, T, V) for token ids (B, T), or (B, 1, V) of the last position only.

        With a cache, the ids follow what it holds; the caller advances it afterwards. `padding` (B) counts the unused
        positions on the left of each row. A decoder with an encoder needs `encoded` (B, S, C), the output of `encode`,
        in every pass that the cache does not hold it for, and `encoded_mask` (B, S), True at real tokens. Positions
        before `prefix` are seen by all.
        """
        x = self.hidden(ids, cache=cache, padding=padding, encoded=encoded, encoded_mask=encoded_mask, prefix=prefix,
                        last_only=last_only, watch=watch)  # fmt: skip
        return self.logits(x)

    def hidden(
        self, ids: Tensor, *, cache: Cache | None = None, padding: Tensor | None = None, encoded: Tensor | None = None,
        encoded_mask: Tensor | None = None, prefix: int = 0, last_only: bool = False, watch: Watch | None = None,
    ) -> Tensor:  # fmt: skip
        """Returns the decoder's last states (B, T, C), after the last norm: what `logits` reads."""
        if self.decoder is None:
            raise ValueError("this model has no decoder: it encodes")
        start = cache.length if cache is not None else 0
        x = self.embed(ids)
        masks = Masks(start, ids.shape[1], ids.device, padding=padding, prefix=prefix, bias=self.decoder.bias,
                      dtype=x.dtype)  # fmt: skip
        turns, positions = self.turns(start, ids.shape[1], padding, like=x)
        across = Mask(None if encoded_mask is None else encoded_mask[:, None, None, :].bool())
        step = Step(masks, turns, cache, encoded, across, watch)
        x = self.decoder(x, positions, step)
        return self.decoder.finish(x[:, -1:] if last_only else x)

    def encode(
        self, ids: Tensor, mask: Tensor | None = None, *, token_types: Tensor | None = None, watch: Watch | None = None
    ) -> Tensor:
        """Returns the encoder's states (B, S, C) for token ids (B, S); `mask` (B, S) is True at real tokens.

        Positions are counted from each row's first real token, so padding on either side changes nothing.
        """
        if self.encoder is None:
            raise ValueError("this model has no encoder: it reads as it writes")
        x = self.embed(ids)
        if self.token_types is not None:
            x = x + self.token_types(torch.zeros_like(ids) if token_types is None else token_types)
        keys = None if mask is None else mask.bool()
        masks = Masks(0, ids.shape[1], ids.device, causal=False, keys=keys, bias=self.encoder.bias, dtype=x.dtype)
        before = None if keys is None else _padding_before(keys)
        turns, positions = self.turns(0, ids.shape[1], before, like=x)
        x = self.encoder(x, positions, Step(masks, turns, watch=watch))
        return self.encoder.finish(x)

    def logits(self, x: Tensor) -> Tensor:
        """Returns f32 logits (…, V) of states (…, C) that have passed the last norm."""
        if not self.config.scores_tokens:
            raise ValueError("this encoder has no head: it makes vectors")
        if self.masked_head is not None:
            x = self.masked_head(x)
        scores = self.head(x) if self.head is not None else self.embedding.scores(x)
        logits: Tensor = scores.float()
        if self.head_bias is not None:
            logits = logits + self.head_bias
        if self.config.logit_scale != 1.0:
            logits = logits * self.config.logit_scale
        if self.config.logit_softcap:
            logits = torch.tanh(logits / self.config.logit_softcap) * self.config.logit_softcap
        return logits

    def slots(self) -> dict[str, Slot]:
        """Returns where each named weight lies: `slots()[name].tensor` reads and writes it."""
        return slots(self)

    def embed(self, ids: Tensor) -> Tensor:
        """Returns the embeddings (B, T, C) of token ids (B, T)."""
        x: Tensor = self.embedding(ids)
        return x if self.config.embedding_scale == 1.0 else x * self.config.embedding_scale

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """The kinds of rotation that layers use."""
        return tuple(self._tables)

    def turns(
        self, start: int, count: int, padding: Tensor | None = None, *, like: Tensor
    ) -> tuple[dict[Rope, CosSin], Tensor]:
        """Returns the rotations of the new positions, and the positions themselves (T), or (B, T) behind padding."""
        length = start + count
        positions = torch.arange(start, length, device=like.device)
        where: slice | Tensor = slice(start, length)
        if padding is not None:
            where = positions = (positions - padding[:, None]).clamp(min=0)
        turned = {
            rope: _for_heads(table.at(where, length, planned=self.planned_length, like=like))
            for rope, table in self._tables.items()
        }
        return turned, positions


def _padding_before(keys: Tensor) -> Tensor:
    """Returns how many positions (B) lie before each row's first real token; keys (B, S) is True at those."""
    return keys.int().argmax(dim=1)


def _for_heads(cos_sin: CosSin) -> CosSin:
    """(T, dim) → the same, and (B, T, dim) → (B, 1, T, dim): every head turns alike."""
    cos, sin = cos_sin
    return cos_sin if cos.ndim == 2 else (cos.unsqueeze(1), sin.unsqueeze(1))


def _ropes(config: ModelConfig) -> list[Rope]:
    found = dict.fromkeys(config.rope_of(layer) for layer in range(max(config.n_layers, config.n_encoder_layers)))
    return [rope for rope in found if rope is not None]
