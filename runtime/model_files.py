"""Which files a model consists of. Reads none of them."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.gguf_header import split_parts

_WEIGHTS = (".safetensors", ".bin", ".pt")
# What else decides about a folder's answers: its shape, its tokens, its marks.
_BESIDE = (
    "config.json", "generation_config.json", "quantize_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json", "merges.txt", "vocab.txt",
    "chat_template.jinja", "chat_template.json", "adapter_config.json",
)  # fmt: skip


def model_files(path: Path) -> list[Path]:
    """Returns the files of a model: all parts of a GGUF file, or those of a folder that decide about its answers.

    A folder that cannot be listed stands for itself: whoever reads it will say why.
    """
    if not path.is_dir():
        return list(split_parts(path))
    return weight_files(path) + [path / name for name in _BESIDE if (path / name).is_file()] or [path]


Stamps = tuple[tuple[int, int], ...]


def stamps_of(path: Path) -> Stamps:
    """Returns size in bytes and time of the last change in nanoseconds of each of a model's files.

    () where one cannot be looked at. A model that is loaded stays what it was, whatever its files become: what shall
    tell later what was loaded has to keep the stamps from before.
    """
    try:
        return tuple((status.st_size, status.st_mtime_ns) for status in map(os.stat, model_files(path)))
    except OSError:
        return ()


def weight_files(folder: Path) -> list[Path]:
    """Returns a folder's files with weights, sorted; none where it cannot be listed."""
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in _WEIGHTS and not file.name.startswith("."))
    except OSError:
        return []
