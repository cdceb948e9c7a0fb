"""Every family, from a folder to a file that llama.cpp computes as transformers does, and back to a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hf_models
from convert.metadata import NoGraph
from convert.options import ConvertOptions
from convert.pipeline import convert
from convert.preflight import Planned
from llama_logits import llama_logits, llama_states, llama_target_logits
from runtime.engine import StopFlag
from runtime.tokenizer import FolderTokenizer
from tiny_tokenizers import write_tokenizer

_TANH = 3e-2  # llama.cpp's GELU is a table of f16 values
_WITH_GELU = ("gemma", "bloom", "gpt", "bert", "roberta", "xlm", "t5, gated")
_REFUSED = {
    "gemma2, head of its own": "embedding for its head",
    "gemma3, scale of its own": "scales scores",
    "qwen3_moe, dense layer, weights as they are": "experts on every layer",
    "mt5": "distances",
    "bart": "bart",
    "bart, scaled embedding": "bart",
}
_SHORT = {"mistral, windowed": 4, "qwen2, windowed": 4}  # what llama.cpp reads exactly
_BACK = ("llama, llama3 scaling", "qwen2", "qwen3_moe", "mixtral", "gemma2", "gemma3", "bloom", "gpt2", "gpt_neox",
         "phi3", "olmo2", "glm4", "smollm3", "roberta", "bert", "t5")  # fmt: skip
# llama.cpp chooses the factors by the context that it is loaded with, of which it takes 256 at least.
_MORE = {"phi3, longrope": {"original_max_position_embeddings": 256, "max_position_embeddings": 1024}}
NAMES = [case.name for case in (*hf_models.CASES, *hf_models.ENCODERS, *hf_models.ENCODER_DECODERS)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), "byte-level")


def saved(name: str, tokenizer: Path, folder: Path) -> Any:
    """Writes a tiny model with a tokenizer as transformers does, and returns it."""
    size = FolderTokenizer(tokenizer).size
    model = hf_models.oracle(name, vocab_size=size, **_MORE.get(name, {}))
    model.save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return model


def written(source: Path, target: Path) -> list[str]:
    """Converts in f32 and returns the notes."""
    planned, *_more = convert(ConvertOptions(source=source, target=target, recipe="f32"), StopFlag())
    assert isinstance(planned, Planned)
    return list(planned.notes)


def ids_for(name: str, model: Any) -> list[int]:
    count = _SHORT.get(name, 8 if name == "llama, dynamic" else 30)
    return torch.randint(3, model.config.vocab_size, (count,), generator=torch.Generator().manual_seed(3)).tolist()


def of_transformers(model: Any, ids: list[int]) -> np.ndarray:
    """Returns logits, or the last states of a model that only reads; of a T5, for `ids` as source and target."""
    tensor = torch.tensor([ids])
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            found = model(input_ids=tensor, decoder_input_ids=tensor).logits
        elif "bert" in model.config.model_type:
            found = getattr(model, model.base_model_prefix, model)(tensor).last_hidden_state
        else:
            found = model(tensor).logits
    return np.asarray(found[0])


def of_llama(path: Path, model: Any, ids: list[int]) -> np.ndarray:
    if model.config.is_encoder_decoder:
        return llama_target_logits(path, ids, ids)
    return llama_states(path, ids) if "bert" in model.config.model_type else llama_logits(path, ids, n_ctx=256)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in _REFUSED])
def test_llama_cpp_computes_the_file_as_transformers_computes_the_folder(
    name: str, tokenizer: Path, tmp_path: Path
) -> None:
    model = saved(name, tokenizer, tmp_path / "model")

    notes = written(tmp_path / "model", tmp_path / "model.gguf")

    ids = ids_for(name, model)
    theirs = of_transformers(model, ids)
    assert np.abs(theirs).max() > 0.5
    tolerance = _TANH if name.startswith(_WITH_GELU) else 1e-3
    np.testing.assert_allclose(of_llama(tmp_path / "model.gguf", model, ids), theirs, atol=tolerance, rtol=0)
    assert any("context length becomes" in note for note in notes) == (name in _SHORT)
    assert any("as a text grows" in note for note in notes) == (name == "llama, dynamic")
    assert any("guesses hidden words" in note for note in notes) == hasattr(model, "cls" if "roberta" not in name
                                                                            else "lm_head")  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_what_llama_cpps_graph_cannot_hold_is_refused_before_anything_is_written(
    name: str, tokenizer: Path, tmp_path: Path
) -> None:
    saved(name, tokenizer, tmp_path / "model")
    with pytest.raises(NoGraph, match=_REFUSED[name]):
        written(tmp_path / "model", tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("model.")] == []


@pytest.mark.parametrize("name", _BACK)
def test_a_folder_made_of_the_file_is_the_same_model_to_transformers(
    name: str, tokenizer: Path, tmp_path: Path
) -> None:
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    model = saved(name, tokenizer, tmp_path / "model")
    written(tmp_path / "model", tmp_path / "model.gguf")

    written(tmp_path / "model.gguf", tmp_path / "again")

    reads = "bert" in model.config.model_type
    kind = AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModel if reads else AutoModelForCausalLM
    again = kind.from_pretrained(tmp_path / "again", attn_implementation="eager").eval()
    ids = ids_for(name, model)
    np.testing.assert_allclose(of_transformers(again, ids), of_transformers(model, ids), atol=1e-4, rtol=0)
