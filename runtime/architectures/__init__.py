"""The families of models, one file each: their names and forms in every direction, as data. No torch."""

from __future__ import annotations

from runtime.architectures import (
    bart,
    bert,
    bloom,
    gemma2,
    gemma3,
    glm4,
    gpt2,
    gpt_neox,
    llama,
    mixtral,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    qwen3_moe,
    roberta,
    smollm3,
    t5,
    transformer,
)
from runtime.architectures.base import Architecture

ARCHITECTURES: tuple[Architecture, ...] = tuple(
    family.ARCHITECTURE
    for family in (
        bart, bert, bloom, gemma2, gemma3, glm4, gpt2, gpt_neox, llama, mixtral, olmo2,
        phi3, qwen2, qwen3, qwen3_moe, roberta, smollm3, t5, transformer,
    )
)  # fmt: skip
