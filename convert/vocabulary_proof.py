"""Holds llama.cpp's ids against the source tokenizer's on hard texts, and finds the pre-tokenizer that way.

How a byte-level tokenizer cuts a text into words is a regular expression in its file and a name in GGUF. The name is
found by behaviour: the first one with which llama.cpp cuts every one of the hard texts as the source does. Knows no
weights.
"""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from convert.gguf_file import layout, string
from convert.hard_texts import HARD_TEXTS
from convert.vocabulary import TokenKind, Vocabulary, VocabularyMisfit
from runtime.errors import UserError
from runtime.llama.tokenizer import GgufTokenizer, NoVocabulary
from runtime.model_errors import DamagedModel
from runtime.text import _

Encode = Callable[[str], Sequence[int]]

# Names that cut differently from each other, the usual ones first. Not “whitespace”: it aborts on texts with spaces.
PRE_TOKENIZERS = (
    "gpt-2", "llama-bpe", "qwen2", "smollm", "tekken", "gpt-4o", "deepseek-v3", "deepseek-llm", "deepseek-coder",
    "glm4", "chatglm-bpe", "command-r", "starcoder", "refact", "olmo", "dbrx", "stablelm2", "falcon", "mpt", "bloom",
    "gpt3-finnish", "poro-chat", "viking", "jais", "codeshell", "exaone", "chameleon", "minerva-7b", "superbpe",
    "trillion", "bailingmoe", "seed-coder", "hunyuan", "hunyuan-dense", "kimi-k2", "grok-2", "afmoe", "minimax-m2",
    "qwen35", "smaug-bpe", "youtu",
)  # fmt: skip
_DIGEST_LENGTH = 60


class TokenizerDiffers(UserError):
    """llama.cpp would read texts in other tokens than the model was trained on."""

    code = "tokenizer_differs"

    def __init__(self, text: str, expected: Sequence[int], found: Sequence[int]) -> None:
        shown = repr(text if len(text) <= _DIGEST_LENGTH else text[:_DIGEST_LENGTH] + "…")
        super().__init__(
            _("llama.cpp cannot cut texts into tokens as this model's tokenizer does."),
            _("The first text that differs is {text}: tokens {expected} became {found}.").format(
                text=shown, expected=_some(expected), found=_some(found)
            ),
            _("The model itself runs in Quern's own engine, from its folder."),
        )


def proven(vocabulary: Vocabulary, encode: Encode, texts: Sequence[str] = HARD_TEXTS) -> Vocabulary:
    """Returns the vocabulary, with its pre-tokenizer, after every text came out in the same tokens.

    `encode` is the source's own, which recognises marks in the text. What llama.cpp's WordPiece is known to cut in
    another way becomes a note. Raises `TokenizerDiffers`, and `VocabularyMisfit` where llama.cpp cannot open it at all.
    """
    if vocabulary.space_first:
        texts = [text if text.startswith(" ") else f" {text}" for text in texts if text]
    texts = [*texts, *_marks(vocabulary)]
    expected = [list(encode(text)) for text in texts]
    furthest: tuple[int, TokenizerDiffers] | None = None
    for candidate in _candidates(vocabulary):
        known: list[TokenizerDiffers] = []
        for at, difference in _differences(candidate, texts, expected):
            if not _is_known(candidate, texts[at], expected[at]):
                if furthest is None or at > furthest[0]:
                    furthest = at, difference
                break
            known.append(difference)
        else:
            return replace(candidate, notes=[*candidate.notes, *_notes(known)])
    assert furthest is not None
    raise furthest[1]


def _is_known(vocabulary: Vocabulary, text: str, expected: Sequence[int]) -> bool:
    """Whether llama.cpp's WordPiece cuts such a text otherwise for every model.

    It takes more signs for accents than Unicode does, of Korean and Indic scripts, and finds pieces in words that are
    unknown as a whole.
    """
    if vocabulary.model != "bert":
        return False
    unknown = vocabulary.more.get("unknown_token_id")
    signs = unicodedata.normalize("NFD", text)
    marked = any(unicodedata.category(sign)[0] == "M" or "\u1160" <= sign <= "\u11ff" for sign in signs)
    return marked or (unknown is not None and unknown.content in expected)


def _notes(known: Sequence[TokenizerDiffers]) -> list[str]:
    if not known:
        return []
    note = _("llama.cpp cuts some texts, such as Korean ones, otherwise than the source does. {first}")
    return [note.format(first=known[0].info.message)]


def _candidates(vocabulary: Vocabulary) -> Iterator[Vocabulary]:
    if vocabulary.model != "gpt2" or vocabulary.pre:
        yield vocabulary
        return
    for name in dict.fromkeys((*vocabulary.likely, *PRE_TOKENIZERS)):
        yield replace(vocabulary, pre=name)


def _marks(vocabulary: Vocabulary) -> list[str]:
    """Returns every mark by itself: those are the tokens that must never be cut."""
    kinds = (TokenKind.CONTROL, TokenKind.USER_DEFINED)
    pairs = zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    return [text for text, kind in pairs if kind in kinds and text.strip()]


def _differences(
    vocabulary: Vocabulary, texts: Sequence[str], expected: Sequence[list[int]]
) -> Iterator[tuple[int, TokenizerDiffers]]:
    """Yields which texts come out otherwise."""
    with tempfile.TemporaryDirectory(prefix="quern-") as folder:
        path = Path(folder) / "vocabulary.gguf"
        keys = {"general.architecture": string("llama"), **vocabulary.keys()}
        path.write_bytes(layout(keys, ()).header)
        with _opened(path) as tokenizer:
            for at, (text, wanted) in enumerate(zip(texts, expected, strict=True)):
                found = tokenizer.tokenize(text, special=True)
                if found != wanted:
                    yield at, TokenizerDiffers(text, wanted, found)


def _opened(path: Path) -> GgufTokenizer:
    try:
        return GgufTokenizer(path)
    except (DamagedModel, NoVocabulary) as error:
        raise VocabularyMisfit(error.info.message) from error


def _some(ids: Sequence[int], most: int = 8) -> str:
    return "[" + ", ".join(map(str, ids[:most])) + (", …]" if len(ids) > most else "]")
