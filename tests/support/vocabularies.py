"""Writes GGUF files that hold a vocabulary only, and finds those that come with llama.cpp's source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = sorted(ROOT.glob("build/llama-cpp-python-*/vendor/llama.cpp/models/ggml-vocab-*.gguf"))
TESTED = [path for path in PUBLISHED if Path(f"{path}.inp").exists()]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = map(int, gguf.TokenType)
_SEPARATOR = "\n__ggml_vocab_test__\n"

Token = tuple[str, int, float]  # spelling, type, score


def published_cases(path: Path) -> list[tuple[str, list[int]]]:
    """Returns the texts and the ids that llama.cpp's own test expects of a published vocabulary."""
    texts = Path(f"{path}.inp").read_bytes().decode().split(_SEPARATOR)
    lines = Path(f"{path}.out").read_text(encoding="utf-8").splitlines()
    if texts[-1] == "" and len(texts) > len(lines):
        texts.pop()
    return [(text, [int(number) for number in line.split()]) for text, line in zip(texts, lines, strict=True)]


def spm_tokens(
    words: Iterable[str], *, control: Iterable[str] = (), user_defined: Iterable[str] = (), byte_tokens: bool = True
) -> list[Token]:
    """Returns a SentencePiece vocabulary: unknown, begin, end, the bytes, the marks, then every beginning of `words`.

    "▁" stands for a space. Ids 3 to 258 are the bytes.
    """
    words = list(words)
    pieces = dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1))
    signs = dict.fromkeys("".join(words))
    found: list[Token] = [("<unk>", UNKNOWN, 0.0), ("<s>", CONTROL, 0.0), ("</s>", CONTROL, 0.0)]
    found += [(f"<0x{byte:02X}>", BYTE, 0.0) for byte in range(256)] if byte_tokens else []
    found += [(text, CONTROL, 0.0) for text in control] + [(text, USER_DEFINED, 0.0) for text in user_defined]
    found += [(piece, NORMAL, -float(1 + len(words) - len(piece))) for piece in pieces]
    return found + [(sign, NORMAL, -1e3) for sign in signs if sign not in pieces]


def write_vocabulary(
    path: Path, tokens: Sequence[Token], *, model: str = "llama", merges: Sequence[str] = (),
    architecture: str = "llama", metadata: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Writes a file with this vocabulary and no weights; `metadata` adds keys below "tokenizer.ggml."."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model(model)
    writer.add_token_list([text for text, _kind, _score in tokens])
    writer.add_token_types([kind for _text, kind, _score in tokens])
    if model != "gpt2":
        writer.add_token_scores([score for _text, _kind, score in tokens])
    if merges:
        writer.add_token_merges(list(merges))
    for key, value in (metadata or {}).items():
        adders = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, bytes: writer.add_array}
        adders[type(value)](f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path
