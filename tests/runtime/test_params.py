"""The rules between the settings of sampling and of loading."""

from __future__ import annotations

import pytest

from runtime.params import QUANTIZED_KV_TYPES, LoadParams, SamplingParams
from runtime.settings import BadSetting


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (1e-45, True), (1e-8, True), (0.01, False)])
def test_a_temperature_next_to_zero_takes_the_likeliest_token(temperature: float, greedy: bool) -> None:
    assert SamplingParams().replace(temperature=temperature).greedy is greedy


@pytest.mark.parametrize("kind", QUANTIZED_KV_TYPES)
def test_a_quantized_v_cache_is_refused_where_flash_attention_is_off(kind: str) -> None:
    LoadParams().replace(kv_type_v=kind, flash_attention="auto")
    LoadParams().replace(kv_type_k=kind, flash_attention="off")

    with pytest.raises(BadSetting, match=kind):
        LoadParams().replace(kv_type_v=kind, flash_attention="off")


@pytest.mark.parametrize("texts", [("x" * 100_001,), ("x" * 50_000, "y" * 50_001)], ids=len)
def test_stop_texts_that_would_fill_the_memory_are_refused_with_their_length(texts: tuple[str, ...]) -> None:
    with pytest.raises(BadSetting, match="100,001 characters") as caught:
        SamplingParams(stop=texts).validated()
    assert caught.value.field == "stop"
    SamplingParams(stop=("x" * 50_000, "y" * 50_000)).validated()
