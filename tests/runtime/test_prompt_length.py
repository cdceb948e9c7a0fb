"""Megabytes that can never fit into the context are refused without being tokenized, which takes minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
from engines import chat, collect, raw
from runtime import prompt
from runtime.params import SamplingParams
from runtime.prompt import PromptTooLong
from runtime.protocol import GenerationRequest


@pytest.fixture(params=["llama", "native"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return engines.load(tiny_gguf.write_tiny(tmp_path / "tiny.gguf"), engine=request.param)


@pytest.fixture
def no_tokenizing(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenize(_vocabulary: object, text: str, **_options: object) -> list[int]:
        assert len(text) < 1 << 20, "a long text is tokenized"
        return [1]

    monkeypatch.setattr(type(engine._prompts._vocabulary), "tokenize", tokenize)


@pytest.mark.usefixtures("no_tokenizing")
@pytest.mark.parametrize("text", ["x" * (2 << 20), "word " * (1 << 19), "你好" * (1 << 20)],
                         ids=["one word", "many words", "no spaces"])  # fmt: skip
@pytest.mark.parametrize("ask", [chat, raw])
def test_a_text_that_can_never_fit_is_refused_at_once(engine: Any, ask: Any, text: str) -> None:
    with pytest.raises(PromptTooLong) as caught:
        collect(engine, ask(text))
    assert "at least" in caught.value.info.title
    assert "holds 512" in caught.value.info.title


@pytest.mark.parametrize("policy", ["drop_turns", "shift", "stop"])
def test_what_may_fit_is_read(engine: Any, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setattr(prompt, "_LONG", 10)
    assert collect(engine, chat("The miller opened the sluice.", max_tokens=2, context_policy=policy)).text


def test_where_only_the_end_is_wanted_nothing_is_refused(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "_LONG", 10)
    sampling = SamplingParams(max_tokens=1)
    request = GenerationRequest(prompt="The miller sleeps. " * 2000, only_end=True, sampling=sampling)
    assert collect(engine, request).end.usage.prompt_tokens < 512
