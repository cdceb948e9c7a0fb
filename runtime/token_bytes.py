"""The exact bytes that a token stands for, by the way its tokenizer decodes. Knows no model and no file.

Byte-level BPE spells every byte as a printable character (Radford et al. 2019, GPT-2). SentencePiece spells a space as
“▁”, and with byte fallback a byte as “<0x0A>". WordPiece marks what continues a word with “##”.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tokenizers import Tokenizer

ToBytes = Callable[[str], bytes]

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_LOWER_ONE = "▁"


def decoder_of(tokenizer: Tokenizer) -> ToBytes:
    """Returns the function from a token's spelling to its bytes; a word's first piece has its space before it."""
    steps = list(_steps(_state(tokenizer.decoder)))
    kinds = {step["type"] for step in steps}
    if "ByteLevel" in kinds:
        return byte_level_bytes
    if "WordPiece" in kinds:
        return _word_piece(next(str(step.get("prefix", "##")) for step in steps if step["type"] == "WordPiece"))
    if "BPEDecoder" in kinds:
        return _suffixed(next(str(step.get("suffix", "</w>")) for step in steps if step["type"] == "BPEDecoder"))
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        return _sentence_piece(_space_sign(steps), has_bytes="ByteFallback" in kinds)
    return _spaced if not kinds else str.encode


def byte_level_bytes(spelling: str) -> bytes:
    """Returns the bytes that GPT-2's characters stand for; a spelling with another character stands for itself."""
    known = byte_level_characters()
    return b"".join(map(known.__getitem__, spelling)) if known.keys() >= set(spelling) else spelling.encode()


@cache
def byte_level_characters() -> dict[str, bytes]:
    """Returns the byte of each of GPT-2's 256 characters."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {chr(byte if byte in printable else next(others)): bytes([byte]) for byte in range(256)}


def _state(part: Any) -> dict[str, Any]:
    """Returns what a part of a tokenizer says of itself, as in tokenizer.json."""
    state: dict[str, Any] = json.loads(part.__getstate__()) if part is not None else {}
    return state


def _steps(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if state.get("type") == "Sequence":
        for step in state.get("decoders", state.get("pretokenizers", ())):
            yield from _steps(step)
    elif "type" in state:
        yield state


def pre_tokenizer_steps(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Returns the steps before the model, in order."""
    return list(_steps(_state(tokenizer.pre_tokenizer)))


def _space_sign(steps: list[dict[str, Any]]) -> str:
    """Returns the sign that decoding turns into a space."""
    for step in steps:
        if step["type"] == "Metaspace":
            return str(step.get("replacement", _LOWER_ONE))
        pattern = step.get("pattern") if step["type"] == "Replace" and step.get("content") == " " else None
        if isinstance(pattern, dict) and "String" in pattern:
            return str(pattern["String"])
    return _LOWER_ONE


def _sentence_piece(sign: str, *, has_bytes: bool) -> ToBytes:
    def to_bytes(spelling: str) -> bytes:
        match = _BYTE.fullmatch(spelling) if has_bytes else None
        return bytes([int(match[1], 16)]) if match else spelling.replace(sign, " ").encode()

    return to_bytes


def _word_piece(prefix: str) -> ToBytes:
    def to_bytes(spelling: str) -> bytes:
        return (spelling.removeprefix(prefix) if spelling.startswith(prefix) else f" {spelling}").encode()

    return to_bytes


def _suffixed(suffix: str) -> ToBytes:
    def to_bytes(spelling: str) -> bytes:
        return (f"{spelling.removesuffix(suffix)} " if spelling.endswith(suffix) else spelling).encode()

    return to_bytes


def _spaced(spelling: str) -> bytes:
    return f" {spelling}".encode()
