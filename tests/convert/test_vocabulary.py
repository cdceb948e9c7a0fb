"""A folder's tokenizer becomes a vocabulary with which llama.cpp cuts hard texts in the same tokens, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from convert.hard_texts import HARD_TEXTS
from convert.vocabulary import TokenKind, Vocabulary, VocabularyMisfit, template_keys, vocabulary_of
from convert.vocabulary_proof import TokenizerDiffers, proven
from runtime.tokenizer import FolderTokenizer
from runtime.tokenizer_files import read_tokenizer
from tiny_tokenizers import write_tokenizer

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORDS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "qwen2": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_LLAMA3.replace("{1,3}", "")), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "chatglm-bpe": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}


def byte_level(folder: Path, words: pre_tokenizers.PreTokenizer) -> Path:
    """Writes a byte-level BPE that was trained on the hard texts themselves."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = words, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<|end|>", "<|im_start|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator([*HARD_TEXTS, "2024 1234 2024 1234"] * 3, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    return folder


def exported(folder: Path, n_rows: int = 0) -> Vocabulary:
    tokenizer = FolderTokenizer(folder)
    made = vocabulary_of(
        read_tokenizer(folder), n_rows=n_rows or tokenizer.size, adds_bos=tokenizer.adds_bos,
        adds_eos=tokenizer.adds_eos, end_ids=sorted(tokenizer.stop_ids),
    )  # fmt: skip
    return proven(made, lambda text: tokenizer.tokenize(text, special=True))


@pytest.mark.parametrize("name", WORDS)
def test_the_way_to_cut_words_is_found_by_what_it_does(name: str, tmp_path: Path) -> None:
    made = exported(byte_level(tmp_path, WORDS[name]))
    assert (made.model, made.pre, made.notes) == ("gpt2", name, [])
    assert made.more["eos_token_id"].content == made.tokens.index("<|end|>")
    assert made.kinds[made.tokens.index("<|im_start|>")] is TokenKind.CONTROL


@pytest.mark.parametrize("kind", ["byte-level", "llama", "word-piece"])
def test_every_kind_is_cut_alike(kind: str, tmp_path: Path) -> None:
    made = exported(write_tokenizer(tmp_path, kind))
    assert made.model == {"byte-level": "gpt2", "llama": "llama", "word-piece": "bert"}[kind]
    assert made.kinds[made.tokens.index("<tool>")] is TokenKind.USER_DEFINED
    assert made.kinds[made.tokens.index("<|im_end|>")] is TokenKind.CONTROL


def test_a_space_that_the_source_puts_first_is_told(tmp_path: Path) -> None:
    made = exported(byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=True)))
    assert made.pre == "gpt-2"
    assert "begin with one" in made.notes[0]


def test_a_way_to_cut_that_llama_cpp_does_not_have_is_an_error_with_the_first_text(tmp_path: Path) -> None:
    spaces = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    with pytest.raises(TokenizerDiffers, match="Hello world"):
        exported(byte_level(tmp_path, pre_tokenizers.Sequence(spaces)))


def test_a_kind_that_llama_cpp_does_not_have_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabularyMisfit, match="WordLevel"):
        exported(tmp_path)


def test_rows_without_a_token_are_filled_and_tokens_without_a_row_left_out(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    size = FolderTokenizer(folder).size
    more = exported(folder, size + 3)
    assert more.tokens[-1] == f"[PAD{size + 2}]"
    assert more.kinds[-3:] == [TokenKind.UNUSED] * 3
    files = read_tokenizer(folder)
    fewer = vocabulary_of(files, n_rows=size - 1, adds_bos=False, adds_eos=False)
    assert len(fewer.tokens) == size - 1
    assert "1 tokens are left out" in fewer.notes[0]


def test_templates_keep_their_names() -> None:
    keys = template_keys({"default": "a", "tool_use": "b"})
    assert keys["tokenizer.chat_template"].content == "a"
    assert keys["tokenizer.chat_template.tool_use"].content == "b"
    assert keys["tokenizer.chat_templates"].content == ["tool_use"]
