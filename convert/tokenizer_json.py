"""What a tokenizer.json says of itself, walked through. Knows the library's spelling and no model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

State = dict[str, Any]
SPACE = "▁"


def state_of(tokenizer: Tokenizer) -> State:
    """Returns a tokenizer's own description, as its file has it."""
    state: State = json.loads(tokenizer.to_str())
    return state


def steps_of(part: Mapping[str, Any] | None) -> Iterator[State]:
    """Yields the steps of a normalizer, pre-tokenizer or decoder, in order."""
    if not part:
        return
    if part.get("type") == "Sequence":
        for step in part.get("pretokenizers") or part.get("normalizers") or part.get("decoders") or ():
            yield from steps_of(step)
        return
    yield part  # type: ignore[misc]


def prefixes_space(state: Mapping[str, Any]) -> bool:
    """Whether a text without a space before it gets one."""
    for step in (*steps_of(state.get("normalizer")), *steps_of(state.get("pre_tokenizer"))):
        if step["type"] == "Prepend" and step.get("prepend") == SPACE:
            return True
        if step["type"] == "Metaspace":
            return bool(step.get("prepend_scheme", "always") != "never" and step.get("add_prefix_space", True))
    return False
