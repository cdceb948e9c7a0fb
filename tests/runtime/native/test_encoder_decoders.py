"""Every encoder-decoder family against its oracle: transformers, llama.cpp, and torch's own Transformer of 2017."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny_t5
from hf_models import ENCODER_DECODERS, checkpoint_of, oracle
from llama_logits import llama_target_logits
from memory_checkpoint import MemoryCheckpoint
from native_gguf import gguf_checkpoint, write_native
from runtime.architectures import ARCHITECTURES, reading
from runtime.architectures.shapes import shape_of
from runtime.checkpoint import open_checkpoint
from runtime.native import settings
from runtime.native.kv_cache import KVCache
from runtime.native.load import load_model
from runtime.native.transformer import Transformer

OF_2017 = "transformer"
NAMES = [*(case.name for case in ENCODER_DECODERS), OF_2017]
SIZES = {"vocab_size": 96, "d_model": 32, "nhead": 4, "num_encoder_layers": 2, "num_decoder_layers": 3,
         "dim_feedforward": 48, "max_position_embeddings": 64}  # fmt: skip


def tokens(seed: int, length: int, batch: int = 2) -> Tensor:
    return torch.randint(3, 96, (batch, length), generator=torch.Generator().manual_seed(seed))


SOURCE, TARGET = tokens(3, 15), tokens(4, 20)


class Of2017(nn.Module):
    """The paper's model with torch's own layers; torch adds a norm at both ends, which the paper has not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        sizes = {name: SIZES[name] for name in list(SIZES)[1:-1]}
        self.layers = nn.Transformer(**sizes, dropout=0.0, batch_first=True).eval()  # type: ignore[arg-type]
        self.layers.encoder.norm = self.layers.decoder.norm = None
        self.embedding = nn.Embedding(SIZES["vocab_size"], SIZES["d_model"])
        for weight in self.parameters():
            weight.data.add_(0.1 * torch.randn_like(weight))

    def embedded(self, ids: Tensor) -> Tensor:
        """The embedding times the root of d_model, and the sines and cosines of section 3.5, written out."""
        C = SIZES["d_model"]
        x = self.embedding(ids) * C**0.5
        for p in range(ids.shape[1]):
            for j in range(C):
                angle = torch.tensor(p / 10_000 ** (2 * (j // 2) / C), dtype=torch.float64)
                x[:, p, j] += (angle.cos() if j % 2 else angle.sin()).float()
        return x

    def states(self, source: Tensor) -> Tensor:
        encoded: Tensor = self.layers.encoder(self.embedded(source))
        return encoded

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x: Tensor = self.layers(self.embedded(source), self.embedded(target), tgt_mask=later)
        return x @ self.embedding.weight.T

    def checkpoint(self) -> MemoryCheckpoint:
        tensors = {name.removeprefix("layers."): weight.detach().numpy() for name, weight in self.named_parameters()}
        return MemoryCheckpoint("folder", tensors, config={"model_type": "transformer", **SIZES})


class OfTransformers:
    """A model of transformers, asked the same."""

    def __init__(self, name: str) -> None:
        self.model = oracle(name)

    def states(self, source: Tensor) -> Tensor:
        encoded: Tensor = self.model.get_encoder()(source).last_hidden_state
        return encoded

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        found: Tensor = self.model(input_ids=source, decoder_input_ids=target).logits
        return found

    def checkpoint(self) -> MemoryCheckpoint:
        return checkpoint_of(self.model)


@pytest.fixture(scope="module")
def pairs() -> dict[str, tuple[Any, Transformer]]:
    return {}


@pytest.fixture(params=NAMES)
def pair(request: pytest.FixtureRequest, pairs: dict[str, tuple[Any, Transformer]]) -> tuple[Any, Transformer]:
    """An oracle, and our model of its weights."""
    name = str(request.param)
    if name not in pairs:
        theirs = Of2017() if name == OF_2017 else OfTransformers(name)
        pairs[name] = theirs, load_model(theirs.checkpoint())
    return pairs[name]


def test_encoder_and_decoder_agree_with_the_oracle(pair: tuple[Any, Transformer]) -> None:
    theirs, model = pair

    with torch.no_grad():
        encoded = model.encode(SOURCE)
        torch.testing.assert_close(encoded, theirs.states(SOURCE), atol=1e-4, rtol=0)
        expected = theirs.logits(SOURCE, TARGET)
        assert expected.abs().max() > 0.5
        torch.testing.assert_close(model(TARGET, encoded=encoded), expected, atol=1e-4, rtol=0)


def test_token_by_token_gives_the_logits_of_the_whole(pair: tuple[Any, Transformer]) -> None:
    """The source's keys and values are made in the first pass, and the encoder's output is not needed after it."""
    _theirs, model = pair
    cache = KVCache(model.config, batch=2, capacity=4)

    with torch.no_grad():
        encoded = model.encode(SOURCE)
        whole = model(TARGET, encoded=encoded)
        pieces = []
        for piece in (TARGET[:, :7], *TARGET[:, 7:].split(1, dim=1)):
            pieces.append(model(piece, cache=cache, encoded=encoded if not pieces else None))
            cache.advance(piece.shape[1])

    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_source_writes_the_same_target(side: str, pair: tuple[Any, Transformer]) -> None:
    _theirs, model = pair
    short, filler = SOURCE[1, :-6], torch.zeros(6, dtype=torch.long)
    padded = torch.cat((filler, short) if side == "left" else (short, filler))
    mask = torch.ones_like(SOURCE, dtype=torch.bool)
    mask[1, slice(None, 6) if side == "left" else slice(-6, None)] = False

    with torch.no_grad():
        encoded = model.encode(torch.stack((SOURCE[0], padded)), mask)
        batched = model(TARGET, encoded=encoded, encoded_mask=mask)
        alone = model(TARGET[1:], encoded=model.encode(short[None]))

    torch.testing.assert_close(batched[1:], alone, atol=1e-4, rtol=0)


def test_the_memory_of_both_sides_is_foreseen(pair: tuple[Any, Transformer]) -> None:
    _theirs, model = pair
    taken = sum(slot.tensor.nbytes for slot in model.slots().values())

    assert settings.weight_bytes(model.config, "f32") == pytest.approx(taken, rel=0.12)


def test_the_table_names_exactly_the_models_weights(pair: tuple[Any, Transformer]) -> None:
    _theirs, model = pair
    architecture = reading.by_name(model.config.family)

    assert architecture.our_names(model.config) == set(model.slots())


def test_written_settings_read_back_the_same(pair: tuple[Any, Transformer]) -> None:
    _theirs, model = pair
    architecture = reading.by_name(model.config.family)

    written = msgspec.json.decode(msgspec.json.encode(reading.to_hf(architecture, model.config)))
    back = reading.from_hf(architecture, written)

    assert msgspec.structs.replace(back, head_bias=model.config.head_bias) == model.config


def test_a_gguf_of_the_model_says_the_same_here_and_in_llama_cpp(pair: tuple[Any, Transformer], tmp_path: Path) -> None:
    """The factor of a tied T5 lies in the file's head, for llama.cpp has none."""
    _theirs, model = pair
    why_not = reading.by_name(model.config.family).fits_gguf(model.config)
    if why_not:
        assert why_not.endswith(".")
        pytest.skip(why_not)

    with torch.no_grad():
        expected = model(TARGET[:1], encoded=model.encode(SOURCE[:1]))[0]
        back = load_model(gguf_checkpoint(model))
        again = back(TARGET[:1], encoded=back.encode(SOURCE[:1]))[0]
    path = write_native(tmp_path / "model.gguf", model)
    theirs = torch.from_numpy(llama_target_logits(path, SOURCE[0].tolist(), TARGET[0].tolist()))

    torch.testing.assert_close(again, expected, atol=1e-5, rtol=0)
    tolerance = 1e-3 if model.config.activation == "relu" else 3e-2
    torch.testing.assert_close(expected, theirs, atol=tolerance, rtol=0)


@pytest.mark.parametrize(("options", "tolerance"), [({}, 1e-3), ({"gated": True}, 3e-2)])
def test_a_gguf_by_others_agrees_with_transformers_and_llama_cpp(
    options: dict[str, bool], tolerance: float, tmp_path: Path
) -> None:
    written = tiny_t5.write_tiny_t5(tmp_path / "t5.gguf", **options)
    source, target = [5, 6, 7, 20, 8, tiny_t5.EOS], [tiny_t5.PAD, 9, 10, 30, 11]

    with open_checkpoint(written.path) as checkpoint, torch.no_grad():
        model = load_model(checkpoint)
        ours = model(torch.tensor([target]), encoded=model.encode(torch.tensor([source])))[0]
        theirs = written.in_transformers()(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])
        ).logits[0]

    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    np.testing.assert_allclose(ours, llama_target_logits(written.path, source, target), atol=tolerance)


def test_a_folder_without_a_head_has_the_embedding_for_it() -> None:
    checkpoint = checkpoint_of(oracle("t5"))
    checkpoint.config = {**checkpoint.config, "tie_word_embeddings": False, "scale_decoder_outputs": False}

    assert load_model(checkpoint).config.tied


def test_a_bart_without_numbers_for_its_tokens_has_none() -> None:
    checkpoint = checkpoint_of(oracle("bart"))
    del checkpoint.tensors["final_logits_bias"]

    assert not load_model(checkpoint).config.head_bias


@pytest.mark.parametrize("setting", [{"normalize_before": True}, {"encoder_ffn_dim": 40}])
def test_what_is_not_computed_is_refused(setting: dict[str, Any]) -> None:
    checkpoint = checkpoint_of(oracle("bart"))
    checkpoint.config = {**checkpoint.config, **setting}

    with pytest.raises(reading.UnusableConfig) as caught:
        reading.identify(checkpoint)

    assert next(iter(setting)) in str(caught.value)


def test_the_2017_family_has_the_papers_base_model_for_its_defaults() -> None:
    config = reading.from_hf(reading.by_hf_type("transformer"), {"vocab_size": 37_000})

    assert (config.n_encoder_layers, config.n_layers, config.d_model) == (6, 6, 512)
    assert (config.n_heads, config.head_dim, config.d_ff) == (8, 64, 2048)
    assert (config.position, config.norm_placement, config.activation) == ("sinusoidal", "post", "relu")
    assert (config.tied, config.embedding_scale) == (True, 512**0.5)


def test_every_encoder_decoder_family_has_a_tiny_model() -> None:
    named = {reading.by_hf_type(oracle(case.name).config.model_type).name for case in ENCODER_DECODERS}

    assert named | {OF_2017} == {
        family.name for family in ARCHITECTURES if family.fixed.get("form") == "encoder-decoder"
    }  # fmt: skip


def test_the_shapes_are_known_without_the_model(pair: tuple[Any, Transformer]) -> None:
    model = pair[1]
    slots = model.slots()
    assert {name: shape_of(name, model.config) for name in slots} == {
        name: tuple(slot.tensor.shape) for name, slot in slots.items()
    }
