"""Rebuilds a tokenizer.json from the vocabulary of a GGUF file, one that cuts as llama.cpp does. Knows no weights.

What is made here is only believed after the same texts came out in the same tokens on both sides.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from convert import pre_tokenizers
from convert.tokenizer_json import SPACE, State
from convert.vocabulary import TokenKind
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader
from runtime.gguf_reader import GgufArray
from runtime.sentencepiece_model import Piece, SentencePieceModel, merges_of
from runtime.text import _

_KEY = "tokenizer.ggml."
_PLACEHOLDER = re.compile(r"\[+PAD\d+\]+")
_BY_CHARACTERS = ("gemma4", "sarvam-moe")  # pre-tokenizers without GPT-2's signs for bytes
_SENTENCEPIECE = {"llama": 2, "t5": 1}  # BPE and Unigram, by SentencePiece's numbers
_MARKS = (TokenKind.CONTROL, TokenKind.USER_DEFINED, TokenKind.UNKNOWN)
_NAMED = {
    "bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id", "pad_token": "padding_token_id", "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}  # fmt: skip


class NoTokenizerBack(UserError):
    """A vocabulary of a GGUF file that has no counterpart in the library of Hugging Face. `reason` is a sentence."""

    code = "no_tokenizer_back"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The model's tokenizer cannot be written for Hugging Face's library."),
            reason,
            _("Take the tokenizer from the folder that the file was made of, if it can be found."),
        )


@dataclass(frozen=True)
class GgufVocabulary:
    """The vocabulary of a GGUF file, read."""

    model: str
    pre: str
    tokens: list[str]
    kinds: list[TokenKind]
    scores: list[float]
    merges: list[str]
    keys: Mapping[str, Any]
    name: str = ""  # of the model, which llama.cpp heeds

    def flag(self, name: str, default: bool = False) -> bool:
        """Returns a yes or no."""
        return bool(self.keys.get(name, default))

    @property
    def adds_bos(self) -> bool:
        """Whether a begin mark is put before a text."""
        return self.flag("add_bos_token", self.model == "llama") and "bos_token" in self.named()

    @property
    def adds_eos(self) -> bool:
        """Whether an end mark is put behind a text."""
        return self.flag("add_eos_token", self.model == "t5") and "eos_token" in self.named()

    @property
    def unknown(self) -> int | None:
        """The token for what has none."""
        if TokenKind.UNKNOWN in self.kinds:
            return self.kinds.index(TokenKind.UNKNOWN)
        said = self.keys.get("unknown_token_id")
        return said if isinstance(said, int) and said < len(self.tokens) else None

    def named(self) -> dict[str, str]:
        """Returns the texts of tokens with a purpose, "bos_token" and so on."""
        found = {name: self.keys.get(key) for name, key in _NAMED.items()}
        if self.model == "bert" and found["cls_token"] is None:
            found["cls_token"] = found["bos_token"]
        return {name: self.tokens[id] for name, id in found.items() if isinstance(id, int) and id < len(self.tokens)}

    def is_mark(self, id: int) -> bool:
        """Whether a token is matched in a text before all else."""
        return self.kinds[id] in _MARKS

    def is_placeholder(self, id: int) -> bool:
        """Whether a row of the embedding has no token."""
        return self.kinds[id] is TokenKind.UNUSED and bool(_PLACEHOLDER.fullmatch(self.tokens[id]))


def read_vocabulary(header: GgufHeader) -> GgufVocabulary:
    """Returns a file's vocabulary. Raises `NoTokenizerBack` where it has none."""
    if not header.n_vocab:
        raise NoTokenizerBack(_("It has no vocabulary."))
    keys = {key.removeprefix(_KEY): value for key, value in header.metadata.items() if key.startswith(_KEY)}
    tokens = [str(token) for token in _items(keys["tokens"])]
    kinds = [_kind(number) for number in _items(keys.get("token_type"))] or [TokenKind.NORMAL] * len(tokens)
    scores = [float(score) for score in _items(keys.get("scores"))] or [0.0] * len(tokens)
    return GgufVocabulary(
        header.tokenizer_model, header.text(_KEY + "pre"), tokens, kinds, scores,
        [str(merge) for merge in _items(keys.get("merges"))], keys, header.text("general.name"),
    )  # fmt: skip


def tokenizer_from(vocabulary: GgufVocabulary) -> Tokenizer:
    """Returns the tokenizer of the `tokenizers` library. Raises `NoTokenizerBack`."""
    build = _BUILDERS.get(vocabulary.model)
    if build is None:
        raise NoTokenizerBack(_("Its kind “{kind}” is not known there.").format(kind=vocabulary.model))
    state: State = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": list(_added(vocabulary)),
        "normalizer": None, "pre_tokenizer": None, "post_processor": _around(vocabulary), "decoder": None,
        **build(vocabulary),
    }  # fmt: skip
    try:
        return Tokenizer.from_str(json.dumps(state))
    except Exception as error:  # the library raises nothing narrower
        raise NoTokenizerBack(_("The library refuses it: {error}").format(error=error)) from error


def sentencepiece_of(vocabulary: GgufVocabulary) -> SentencePieceModel | None:
    """Returns the same vocabulary as SentencePiece's own file has it; None for kinds that it does not know."""
    if vocabulary.model not in _SENTENCEPIECE:
        return None
    rows = zip(vocabulary.tokens, vocabulary.scores, vocabulary.kinds, strict=True)
    ids = {name: vocabulary.keys.get(f"{name}_token_id", -1) for name in ("bos", "eos")}
    table = vocabulary.keys.get("precompiled_charsmap")
    return SentencePieceModel(
        pieces=[Piece(text, score, int(kind)) for text, score, kind in rows],
        model_type=_SENTENCEPIECE[vocabulary.model], byte_fallback=TokenKind.BYTE in vocabulary.kinds,
        unk_id=-1 if vocabulary.unknown is None else vocabulary.unknown, bos_id=ids["bos"], eos_id=ids["eos"],
        charsmap=b"" if table is None else _bytes(table),
        dummy_prefix=vocabulary.flag("add_space_prefix", vocabulary.model == "llama"),
        remove_spaces=vocabulary.flag("remove_extra_whitespaces"),
    )  # fmt: skip


def _items(value: object) -> Sequence[Any]:
    if isinstance(value, GgufArray):
        return value.values()
    return value if isinstance(value, tuple) else ()


def _kind(number: object) -> TokenKind:
    if isinstance(number, int) and 1 <= number <= len(TokenKind):
        return TokenKind(number)
    return TokenKind.NORMAL


def _added(vocabulary: GgufVocabulary) -> Iterator[State]:
    """Yields the tokens that are matched in a text before all else."""
    for id, (text, kind) in enumerate(_pairs(vocabulary)):
        if vocabulary.is_mark(id):
            before, behind = _takes_in_space(vocabulary, text)
            yield {"id": id, "content": text, "single_word": False, "lstrip": before, "rstrip": behind,
                   "normalized": False, "special": kind is not TokenKind.USER_DEFINED}  # fmt: skip


def _takes_in_space(vocabulary: GgufVocabulary, text: str) -> tuple[bool, bool]:
    """Whether a mark takes in the white space before it and behind it: llama.cpp knows such models by their names."""
    name = vocabulary.name.lower()
    if "jina-v2" in vocabulary.pre:
        return text == "<mask>", False
    if "phi-3" in name or "phi3" in name:
        return False, text not in ("<unk>", "<s>", "<|endoftext|>")
    return "modern-bert" in name and text == "[MASK]", False


def _spelled(vocabulary: GgufVocabulary) -> dict[str, int]:
    return {text: id for id, text in enumerate(vocabulary.tokens) if not vocabulary.is_placeholder(id)}


def _around(vocabulary: GgufVocabulary) -> State | None:
    """Returns the step that puts the marks around a text that the file asks for."""
    named = vocabulary.named()
    if vocabulary.model == "bert":
        before, behind = named.get("cls_token"), named.get("sep_token")
    else:
        before = named["bos_token"] if vocabulary.adds_bos else None
        behind = named["eos_token"] if vocabulary.adds_eos else None
    if not before and not behind:
        return None

    def mark(text: str, type_id: int) -> State:
        return {"SpecialToken": {"id": text, "type_id": type_id}}

    def sequence(name: str, type_id: int) -> list[State]:
        first = type_id == 0 or vocabulary.model != "bert"
        opened = [mark(before, type_id)] if before and first else []
        return [*opened, {"Sequence": {"id": name, "type_id": type_id}}, *([mark(behind, type_id)] if behind else [])]

    marks = {text: vocabulary.tokens.index(text) for text in (before, behind) if text}
    return {
        "type": "TemplateProcessing", "single": sequence("A", 0), "pair": [*sequence("A", 0), *sequence("B", 1)],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]} for text, id in marks.items()},
    }  # fmt: skip


# --- kinds -----------------------------------------------------------------------------------------------------------


def _byte_level(vocabulary: GgufVocabulary) -> State:
    if vocabulary.pre in _BY_CHARACTERS:
        return _by_characters(vocabulary)
    name = vocabulary.pre or "default"
    words = pre_tokenizers.steps_for(name)
    if words is None:
        reason = _("How its pre-tokenizer “{name}” cuts words is not known there.")
        raise NoTokenizerBack(reason.format(name=name))
    spelled = _spelled(vocabulary)
    return {
        "pre_tokenizer": words,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": _bpe(
            spelled, _merges(vocabulary, spelled), ignore_merges=pre_tokenizers.ignores_merges(name)
        ),
    }


def _by_characters(vocabulary: GgufVocabulary) -> State:
    """BPE by merges whose pieces are spelled as SentencePiece's."""
    spelled = _spelled(vocabulary)
    words = {"type": "Split", "pattern": {"Regex": "[^\\n]+|[\\n]+"}, "behavior": "Isolated", "invert": False}
    return {
        "normalizer": _spaces(prefixed=False), "pre_tokenizer": words, "decoder": _spaced_decoder(prefixed=False),
        "model": _bpe(spelled, _merges(vocabulary, spelled), byte_fallback=TokenKind.BYTE in vocabulary.kinds),
    }  # fmt: skip


def _merges(vocabulary: GgufVocabulary, spelled: Mapping[str, int]) -> list[list[str]]:
    """Returns the merges as pairs; llama.cpp looks for the space that parts them behind the first sign."""
    pairs = []
    for merge in vocabulary.merges:
        at = merge.find(" ", 1)
        left, right = merge[:at], merge[at + 1 :]
        if at > 0 and spelled.keys() >= {left, right, left + right}:
            pairs.append([left, right])
    return pairs


def _bpe(spelled: Mapping[str, int], merges: Sequence[Sequence[str]], **more: Any) -> State:
    return {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": spelled, "merges": list(merges), **more,
    }  # fmt: skip


def _sentencepiece(vocabulary: GgufVocabulary) -> State:
    pieces = [
        Piece(text if kind is TokenKind.NORMAL else "", score, int(kind))
        for text, kind, score in zip(vocabulary.tokens, vocabulary.kinds, vocabulary.scores, strict=True)
    ]
    unknown = vocabulary.tokens[vocabulary.unknown] if vocabulary.unknown is not None else None
    has_bytes = TokenKind.BYTE in vocabulary.kinds
    prefixed = vocabulary.flag("add_space_prefix", True)
    return {
        "normalizer": _spaces(prefixed=prefixed),
        "decoder": _spaced_decoder(prefixed=prefixed),
        "model": _bpe(
            _spelled(vocabulary), merges_of(pieces), unk_token=unknown, fuse_unk=True, byte_fallback=has_bytes
        ),
    }


def _pairs(vocabulary: GgufVocabulary) -> Iterator[tuple[str, TokenKind]]:
    return zip(vocabulary.tokens, vocabulary.kinds, strict=True)


def _spaces(*, prefixed: bool) -> State:
    signs = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    first = [{"type": "Prepend", "prepend": SPACE}] if prefixed else []
    return {"type": "Sequence", "normalizers": [*first, signs]}


def _spaced_decoder(*, prefixed: bool) -> State:
    steps: list[State] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    ]  # fmt: skip
    strip: list[State] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []
    return {"type": "Sequence", "decoders": steps + strip}


def _unigram(vocabulary: GgufVocabulary) -> State:
    prefixed = vocabulary.flag("add_space_prefix")
    table = vocabulary.keys.get("precompiled_charsmap")
    steps: list[State] = []
    if table is not None:
        text = base64.b64encode(_bytes(table)).decode("ascii")
        steps.append({"type": "Precompiled", "precompiled_charsmap": text})
    if vocabulary.flag("remove_extra_whitespaces"):
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    steps += _spaces(prefixed=prefixed)["normalizers"]
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "decoder": _spaced_decoder(prefixed=prefixed),
        "model": {
            "type": "Unigram", "unk_id": vocabulary.unknown, "byte_fallback": TokenKind.BYTE in vocabulary.kinds,
            "vocab": list(zip(vocabulary.tokens, vocabulary.scores, strict=True)),
        },
    }  # fmt: skip


def _bytes(table: object) -> bytes:
    if isinstance(table, GgufArray):
        return table.raw_bytes()
    return bytes(number & 0xFF for number in _items(table))


def _word_piece(vocabulary: GgufVocabulary) -> State:
    spelled = {}
    for id, (text, kind) in enumerate(_pairs(vocabulary)):
        plain = text.removeprefix(SPACE) if text.startswith(SPACE) else f"##{text}"
        if not vocabulary.is_placeholder(id):
            spelled[plain if kind is TokenKind.NORMAL else text] = id
    lower = vocabulary.flag("normalizer.lowercase", True)
    named = vocabulary.named()
    return {
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": lower,
            "strip_accents": vocabulary.flag("normalizer.strip_accents", lower),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {"type": "WordPiece", "unk_token": named.get("unk_token", "[UNK]"), "max_input_chars_per_word": 100,
                  "continuing_subword_prefix": "##", "vocab": spelled},
    }  # fmt: skip


_BUILDERS: dict[str, Callable[[GgufVocabulary], State]] = {
    "gpt2": _byte_level, "llama": _sentencepiece, "t5": _unigram, "bert": _word_piece, "gemma4": _by_characters,
}  # fmt: skip
