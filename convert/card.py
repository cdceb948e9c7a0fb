"""The quality card: what a quantization cost, kept in the file itself under a key of ours.

Its place is reserved while the file is written, so that it can be put in afterwards without moving a byte of weights.
Knows the key and its form, and measures nothing.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from convert.gguf_file import KeyValue, string
from convert.quality import Quality
from runtime.gguf_types import STRING

KEY = "quern.quality_card"
_ROOM = 6144  # bytes
_MOST_SHOWN = 120  # characters of the text that are kept of each of the worst positions
_LARGEST = 1.7976931348623157e308  # JSON knows no infinity


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantized file compares with its source, on a text; sizes are bytes."""

    version: int = 1
    reference: str
    text: str
    quality: Quality
    size_bytes: int
    bits_per_weight: float
    prompt_tokens_per_second: float
    generation_tokens_per_second: float


def reserved() -> dict[str, KeyValue]:
    """Returns the key with room for a card."""
    return {KEY: string(b" " * _ROOM)}


def placed(header: bytes, card: Card) -> tuple[int, bytes]:
    """Returns where in a header with reserved room the card goes, and its bytes."""
    start = struct.pack("<Q", len(KEY)) + KEY.encode() + struct.pack("<IQ", STRING, _ROOM)
    at = header.rindex(start) + len(start)
    return at, _packed(card).ljust(_ROOM)


def _packed(card: Card) -> bytes:
    """Returns the card as JSON that fits: with shorter texts, and at last without the worst positions."""
    for most in (_MOST_SHOWN, 40, 0):
        worst = [msgspec.structs.replace(one, before=one.before[-most:] if most else "") for one in card.quality.worst]
        shown = msgspec.structs.replace(card.quality, worst=tuple(worst if most else ()))
        packed = json.dumps(_finite(msgspec.to_builtins(msgspec.structs.replace(card, quality=shown))),
                            ensure_ascii=False).encode("utf-8", "replace")  # fmt: skip
        if len(packed) <= _ROOM:
            return packed
    raise AssertionError("a card without texts fits")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return math.copysign(_LARGEST, value)
    return value


def card_of(metadata: Mapping[str, object]) -> Card | None:
    """Returns the card in a file's metadata; None where there is none, or none that this version can read."""
    found = metadata.get(KEY)
    if not isinstance(found, str) or not found.strip():
        return None
    try:
        return msgspec.json.decode(found.strip(), type=Card)
    except (msgspec.DecodeError, ValueError):
        return None
