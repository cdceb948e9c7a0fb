"""Opens the vocabulary of a GGUF file with llama.cpp, without the weights: milliseconds, and memory for the texts only.

Also for models that cannot write (BERT, T5), for families that llama.cpp does not know, and for files that hold a
vocabulary and nothing else, whoever wrote them. Evaluates nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runtime import gguf_header, runnable
from runtime.errors import UserError
from runtime.gguf_architectures import KNOWN_ARCHITECTURES
from runtime.gguf_header import GgufHeader
from runtime.llama import library as llama_library
from runtime.llama.vocabulary import Vocabulary
from runtime.places import shown_path
from runtime.text import _

_STRING = 3  # LLAMA_KV_OVERRIDE_TYPE_STR
_ANY_FAMILY = b"llama"  # stands in for a family that llama.cpp does not know, or opens only beside another model
_UNOPENED = frozenset({"clip"})


class NoVocabulary(UserError):
    """A file without a vocabulary, or with one that llama.cpp cannot read. `reason` is a sentence."""

    code = "no_vocabulary"

    def __init__(self, path: Path, reason: str, log: str = "") -> None:
        super().__init__(
            _("The vocabulary of “{name}” cannot be read.").format(name=shown_path(Path(path.name))),
            reason,
            _("Choose the file of a whole model; adapters and parts of models have no vocabulary."),
            details=log,
        )


class GgufTokenizer(Vocabulary):
    """The vocabulary of a GGUF file. Owns it; nothing of it may be used after `close`."""

    def __init__(self, path: Path | str) -> None:
        """Raises `NoVocabulary`, `EngineLibraryMissing`, and what `read_header` raises."""
        self._model: Any = None
        header = gguf_header.read_header(path)  # refuses what would hurt native code
        reason = runnable.why_no_vocabulary(header)
        if reason:
            raise NoVocabulary(header.path, reason)
        library = llama_library.load_library()
        self._model = _open(library, header)
        super().__init__(library, library.llama_model_get_vocab(self._model))
        self.path = header.path
        self.unknown = _unknown_token(header, self.size)

    def __enter__(self) -> GgufTokenizer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def pieces(self, ids: list[int]) -> list[str]:
        """Returns each token's own text, control tokens by their name; bytes that are no text as U+FFFD."""
        return [self.label(token) for token in ids]

    def close(self) -> None:
        """Frees the vocabulary. May be called twice."""
        if self._model is not None:
            self._library.llama_model_free(self._model)
            self._model = None


def _open(library: Any, header: GgufHeader) -> Any:
    wanted = library.llama_model_default_params()
    wanted.vocab_only = True
    overrides = (library.llama_model_kv_override * 2)()  # the second one, without a key, ends the list
    if header.architecture not in KNOWN_ARCHITECTURES - _UNOPENED:
        overrides[0].tag, overrides[0].key = _STRING, b"general.architecture"
        overrides[0].value.val_str = _ANY_FAMILY
        wanted.kv_overrides = overrides
    llama_library.clear_log()
    model = library.llama_model_load_from_file(os.fsencode(header.path), wanted)
    if not model:
        log = llama_library.log_tail(30)
        raise NoVocabulary(header.path, llama_library.last_reason(log), log)
    return model


def _unknown_token(header: GgufHeader, size: int) -> int | None:
    """Returns the id that stands for what has no token, where the file names one; llama.cpp has no function for it."""
    token = header.metadata.get("tokenizer.ggml.unknown_token_id")
    return token if isinstance(token, int) and 0 <= token < size else None
