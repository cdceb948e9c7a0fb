"""The vocabulary of a folder's model, proven, and the name under which llama.cpp reads it right. Knows no weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convert.gguf_file import string
from convert.metadata import name_of
from convert.special_ids import add_special_ids
from convert.vocabulary import Vocabulary, VocabularyMisfit, vocabularies_of
from convert.vocabulary_proof import TokenizerDiffers, proven
from runtime import sentencepiece_model
from runtime.architectures.base import Architecture
from runtime.checkpoint import Checkpoint
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.sentencepiece_model import BrokenModel, SentencePieceModel
from runtime.tokenizer import FolderTokenizer
from runtime.tokenizer_files import read_templates, read_tokenizer

# Names by which llama.cpp knows models whose marks take in the white space behind them.
_MEANT = re.compile(r"phi-?3|modern-bert", re.IGNORECASE)


def named_vocabulary(
    checkpoint: Checkpoint, architecture: Architecture, config: ModelConfig
) -> tuple[str, Vocabulary]:
    """Returns the model's name and vocabulary. Raises `VocabularyMisfit` and `TokenizerDiffers`."""
    folder = checkpoint.path
    files = read_tokenizer(folder)
    tokenizer = FolderTokenizer(
        folder, config=checkpoint.config, generation_config=checkpoint.generation_config, size=config.vocab_size
    )
    ways = vocabularies_of(
        files, n_rows=config.vocab_size, in_use=read_templates(folder).values(), pieces=read_pieces(folder)
    )
    for way in ways:
        add_special_ids(way, files, tokenizer, suppressed=_suppressed(checkpoint.generation_config))
    failure: UserError | None = None
    for name in _names(name_of(folder, checkpoint.config)):
        about = {"general.architecture": string(architecture.gguf), "general.name": string(name)}
        try:
            return name, proven(ways, files.tokenizer, about=about)
        except (VocabularyMisfit, TokenizerDiffers) as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _names(name: str) -> Iterator[str]:
    """Yields the name, and spelled otherwise where llama.cpp would take the model for another by it."""
    yield name
    if _MEANT.search(name):
        yield _MEANT.sub(lambda found: " ".join(re.findall(r"[A-Za-z]+|\d+", found[0])), name)


def read_pieces(folder: Path) -> SentencePieceModel | None:
    """Returns the tokenizer.model of a folder; None where there is none that can be read."""
    file = folder / "tokenizer.model"
    try:
        return sentencepiece_model.read_model(file.read_bytes()) if file.is_file() else None
    except BrokenModel:  # of another kind, or damaged: tokenizer.json says how texts are cut
        return None


def _suppressed(generation_config: Mapping[str, Any]) -> list[int]:
    said = generation_config.get("suppress_tokens")
    return [token for token in said if isinstance(token, int)] if isinstance(said, list) else []
