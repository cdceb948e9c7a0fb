"""The native Transformer on real models against llama.cpp, on the same weights in f32: numbers and greedy text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gemma
from llama_logits import llama_logits, llama_tokens
from native_gguf import write_native
from runtime.checkpoint import open_checkpoint
from runtime.native.kv_cache import KVCache
from runtime.native.load import load_model
from runtime.native.transformer import Transformer
from runtime.starter import starter_path

pytestmark = pytest.mark.acceptance
PROMPT = "The capital of France is Paris. The capital of Germany is Berlin, and the largest city in Italy"


def greedy(model: Transformer, prompt: list[int], count: int) -> list[int]:
    """Returns the prompt and the `count` likeliest tokens, one after the other, through a cache."""
    cache, ids = KVCache(model.config), torch.tensor([prompt])
    text = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            logits = model(ids, cache=cache, last_only=True)
            cache.advance(ids.shape[1])
            ids = logits.argmax(-1)
            text.append(int(ids))
    return text


@pytest.mark.parametrize(("name", "tolerance"), [("starter", 1e-3), ("gemma", 3e-2)])
def test_logits_and_greedy_text_are_llama_cpps(name: str, tolerance: float, tmp_path: Path) -> None:
    path = gemma.model_file() if name == "gemma" else starter_path()
    with open_checkpoint(path) as checkpoint:
        model = load_model(checkpoint)
    text = greedy(model, llama_tokens(path, PROMPT), 64)

    theirs = torch.from_numpy(llama_logits(write_native(tmp_path / "f32.gguf", model), text))

    with torch.inference_mode():
        ours = model(torch.tensor([text]))[0]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)
    assert theirs.argmax(-1)[-65:-1].tolist() == text[-64:]
