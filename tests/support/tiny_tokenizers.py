"""Trains tiny tokenizers of every kind and writes them as Hugging Face folders. Knows only the `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

KINDS = ("byte-level", "metaspace", "metaspace-first", "llama", "unigram", "unigram-bytes", "word-piece")
MARKS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

_CORPUS = [
    "The miller opened the sluice and the stone began to turn. Grain ran down from the hopper.",
    "Every morning the people of the village brought their sacks, and every evening they carried them home again.",
    "What is the answer to this question? Nobody knows, said the miller; don't ask, they'll say: 12 345 times 3.14!",
    "Größe, naïve café, Ελληνικά, Москва, 日本語の文字, 中文字符, ไทย, עברית, العربية, 🙂👍🏽 👨‍👩‍👧",
    "def main(values):\n    for index, name in enumerate(values):\n\t\treturn values[index]  # comment",
] * 4


def write_tokenizer(folder: Path, kind: str, *, config: Mapping[str, Any] | None = None) -> Path:
    """Writes a tokenizer of one of KINDS, with MARKS as special tokens and <tool> as a visible added one."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _TRAIN[kind]()
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in MARKS])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False, special=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>"}
    if kind != "byte-level":
        named |= {"unk_token": "[UNK]" if kind == "word-piece" else "<unk>"}
    if kind == "word-piece":
        named |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    said = {"tokenizer_class": "PreTrainedTokenizerFast", **named, **(config or {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


def _trained(tokenizer: Tokenizer, trainer: Any) -> Tokenizer:
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return _trained(tokenizer, trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet, show_progress=False))


def _metaspace(scheme: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<unk>", *MARKS[:2], *BYTES], limit_alphabet=60, show_progress=False,
        max_token_length=12,
    )  # fmt: skip
    return _with_bytes_as_pieces(_trained(tokenizer, trainer))


def _with_bytes_as_pieces(tokenizer: Tokenizer) -> Tokenizer:
    """The trainer knows bytes only as special tokens; in real files they are entries of the model."""
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if token["content"] not in BYTES]
    return Tokenizer.from_str(json.dumps(described))


def _llama() -> Tokenizer:
    """As the converter of Llama's first versions writes it: spaces are put by the normalizer."""
    tokenizer = _metaspace("always")
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer


def _unigram(*, byte_fallback: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    marks = ["<unk>", *MARKS[:2], *(BYTES if byte_fallback else ())]
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=marks, unk_token="<unk>", show_progress=False, initial_alphabet=["▁"]
    )
    tokenizer = _trained(tokenizer, trainer)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    if byte_fallback:
        vocabulary = [tuple(entry) for entry in json.loads(tokenizer.to_str())["model"]["vocab"]]
        tokenizer.model = models.Unigram(vocabulary, 0, True)
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        tokenizer.decoder = decoders.Sequence(steps)
        tokenizer = _with_bytes_as_pieces(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


def _word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False)
    tokenizer = _trained(tokenizer, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(mark, tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    )
    return tokenizer


_TRAIN = {
    "byte-level": _byte_level,
    "metaspace": lambda: _metaspace("always"), "metaspace-first": lambda: _metaspace("first"),
    "llama": _llama, "unigram": lambda: _unigram(byte_fallback=False),
    "unigram-bytes": lambda: _unigram(byte_fallback=True), "word-piece": _word_piece,
}  # fmt: skip
