"""The vocabularies that come with llama.cpp: as a tokenizer.json they cut alike, and get their usual names again."""

from __future__ import annotations

from pathlib import Path

import pytest

from convert.gguf_file import u32
from convert.tokenizer_back import read_vocabulary, tokenizer_from
from convert.vocabulary import vocabularies_of
from convert.vocabulary_proof import proven, proven_back
from runtime.gguf_header import read_header
from runtime.tokenizer_files import TokenizerFiles
from vocabularies import PUBLISHED

pytestmark = pytest.mark.acceptance
# Names that cut as others do, which are the usual ones
_ALIKE = {"command-r": "smollm", "refact": "smollm", "starcoder": "smollm", "mpt": "gpt-2", "": "default"}


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem.removeprefix("ggml-vocab-"))
def test_a_vocabulary_goes_there_and_back(path: Path) -> None:
    vocabulary = read_vocabulary(read_header(path))
    tokenizer = tokenizer_from(vocabulary)
    proven_back(path, vocabulary, tokenizer)

    ways = vocabularies_of(TokenizerFiles(tokenizer, {}, vocabulary.named()), n_rows=len(vocabulary.tokens))
    for way in ways:
        if vocabulary.unknown is not None:
            way.more["unknown_token_id"] = u32(vocabulary.unknown)
    made = proven(ways, tokenizer)

    if vocabulary.model == "gpt2":
        assert made.pre == _ALIKE.get(vocabulary.pre, vocabulary.pre)
