"""Which of our chat templates a vocabulary was made for; the check reads the vocabulary, so it is for threads."""

from __future__ import annotations

from typing import Any


def template_guess(header: Any) -> str:
    """Returns the name of a built-in template, or an empty text where the model has one or its marks say nothing."""
    from runtime.chat_formats import guess
    from runtime.gguf_header import GgufArray

    if header.chat_templates:
        return ""
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    known = frozenset(map(str, tokens)) if isinstance(tokens, GgufArray) else frozenset[str]()
    return guess(known.__contains__)
