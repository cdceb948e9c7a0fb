"""What llama.cpp knows of a token besides its text: its kind, and the tokens with a purpose. Knows no vocabulary."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class TokenAttribute(enum.IntFlag):
    """`enum llama_token_attr`. A token is of one of the first six kinds; the others say how its text is matched."""

    UNKNOWN = 1 << 0  # stands for what has no token
    UNUSED = 1 << 1
    NORMAL = 1 << 2
    CONTROL = 1 << 3  # written by a template only, and shown to nobody
    USER_DEFINED = 1 << 4  # matched before all else in any text, and shown
    BYTE = 1 << 5
    NORMALIZED = 1 << 6
    LSTRIP = 1 << 7  # takes in the white space before it
    RSTRIP = 1 << 8  # takes in the white space behind it
    SINGLE_WORD = 1 << 9


VOCABULARY_KINDS = ("none", "spm", "bpe", "wpm", "ugm", "rwkv", "plamo2", "test")
"""By the numbers of `enum llama_vocab_type`: SentencePiece, byte-level BPE, WordPiece, Unigram …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The ids of the tokens that have a purpose; None where the vocabulary has no such token.

    `bos` is also BERT's [CLS]. The last six are for filling in the middle of code (Bavarian et al. 2022, arXiv
    2207.14255), `fim_repo` and `fim_separator` for the files of a repository.
    """

    bos: int | None = None
    eos: int | None = None
    eot: int | None = None
    sep: int | None = None
    newline: int | None = None
    pad: int | None = None
    mask: int | None = None
    fim_prefix: int | None = None
    fim_suffix: int | None = None
    fim_middle: int | None = None
    fim_pad: int | None = None
    fim_repo: int | None = None
    fim_separator: int | None = None

    @classmethod
    def read(cls, library: Any, handle: Any) -> SpecialTokens:
        """Returns those of a `llama_vocab`."""
        functions = {
            "bos": library.llama_vocab_bos, "eos": library.llama_vocab_eos, "eot": library.llama_vocab_eot,
            "sep": library.llama_vocab_sep, "newline": library.llama_vocab_nl, "pad": library.llama_vocab_pad,
            "mask": library.llama_vocab_mask, "fim_prefix": library.llama_vocab_fim_pre,
            "fim_suffix": library.llama_vocab_fim_suf, "fim_middle": library.llama_vocab_fim_mid,
            "fim_pad": library.llama_vocab_fim_pad, "fim_repo": library.llama_vocab_fim_rep,
            "fim_separator": library.llama_vocab_fim_sep,
        }  # fmt: skip
        return cls(**{name: _id_or_none(function, handle) for name, function in functions.items()})


def _id_or_none(function: Callable[[Any], int], handle: Any) -> int | None:
    token = int(function(handle))
    return token if token >= 0 else None
