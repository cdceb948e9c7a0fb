"""A folder's tokenizer becomes a vocabulary with which llama.cpp cuts hard texts in the same tokens, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from convert.hard_texts import HARD_TEXTS
from convert.special_ids import add_special_ids
from convert.vocabulary import TokenKind, Vocabulary, VocabularyMisfit, template_keys, vocabularies_of
from convert.vocabulary_proof import TokenizerDiffers, proven
from runtime.tokenizer import FolderTokenizer
from runtime.tokenizer_files import read_tokenizer
from tiny_tokenizers import BYTES, write_tokenizer

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


def exported(folder: Path, n_rows: int = 0, *, in_use: tuple[str, ...] = ()) -> Vocabulary:
    tokenizer, files = FolderTokenizer(folder), read_tokenizer(folder)
    ways = vocabularies_of(files, n_rows=n_rows or tokenizer.size, in_use=in_use)
    for way in ways:
        add_special_ids(way, files, tokenizer)
    return proven(ways, files.tokenizer)


def changed(folder: Path, **parts: object) -> Path:
    """Changes parts of a folder's tokenizer.json."""
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(state | parts), encoding="utf-8")
    return folder


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


def test_letters_that_the_source_joins_with_their_accents_are_told(tmp_path: Path) -> None:
    folder = changed(byte_level(tmp_path, WORDS["qwen2"]), normalizer={"type": "NFC"})
    made = exported(folder)
    assert made.pre == "qwen2"
    assert [note for note in made.notes if "accents" in note] == made.notes != []


@pytest.mark.parametrize(("kind", "first"), [("Lowercase", "Hello world"), ("NFKC", "½")])
def test_a_change_of_texts_that_llama_cpp_cannot_make_is_an_error(kind: str, first: str, tmp_path: Path) -> None:
    folder = changed(byte_level(tmp_path, WORDS["gpt-2"]), normalizer={"type": kind})
    with pytest.raises(TokenizerDiffers, match=first):
        exported(folder)


@pytest.mark.parametrize("name", ["gpt-2", "qwen2"])
def test_a_vocabulary_without_every_byte_as_the_trainer_makes_it_is_exported(name: str, tmp_path: Path) -> None:
    """Who does not hand the trainer an alphabet gets the bytes of the texts alone, and no token for others."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = WORDS[name], decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["<|end|>"], show_progress=False)
    tokenizer.train_from_iterator(["plain English words, the man and the mill, and no signs else"] * 3, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))

    made = exported(tmp_path)

    assert made.pre == name
    assert any("does not have are left out" in note for note in made.notes)
    assert made.tokens[: tokenizer.get_vocab_size()] == [
        tokenizer.id_to_token(id) for id in range(tokenizer.get_vocab_size())
    ]


def test_signs_without_a_token_are_left_out_and_told(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(["plain English words and nothing else"] * 3, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    made = exported(tmp_path)
    assert "leaves characters out" in made.notes[0]


@pytest.mark.parametrize("kind", ["metaspace", "metaspace-first"])
def test_spaces_before_texts_that_begin_with_one_are_told_and_nothing_else_differs(kind: str, tmp_path: Path) -> None:
    made = exported(write_tokenizer(tmp_path, kind))
    assert made.model == "llama"
    (note,) = made.notes
    assert "puts a space" in note
    assert {made.kinds[made.tokens.index(byte)] for byte in BYTES} == {TokenKind.BYTE}


@pytest.mark.parametrize("kind", ["unigram", "unigram-bytes"])
def test_what_a_unigram_source_normalizes_llama_cpp_normalizes_too(kind: str, tmp_path: Path) -> None:
    made = exported(write_tokenizer(tmp_path, kind))
    assert made.model == "t5"
    assert made.more["precompiled_charsmap"].content
    bytes_kept = {made.kinds[made.tokens.index(byte)] for byte in BYTES if byte in made.tokens}
    assert bytes_kept == ({TokenKind.BYTE} if kind == "unigram-bytes" else set())
    assert any("spelled in bytes by Quern" in note for note in made.notes) == (kind == "unigram-bytes")


def test_pieces_that_only_their_own_merges_make_are_cut_by_merges(tmp_path: Path) -> None:
    """SentencePiece would join any two pieces whose union is one; this source knows one way only."""
    merges = [["a", "b"], ["b", "c"], ["ab", "c"]]
    signs = sorted({sign for text in HARD_TEXTS for sign in text.replace(" ", "▁")} - set("abc") - {"\0"})
    words = dict.fromkeys(["<unk>", *BYTES, "c", "a", "b", "bc", "ab", "abc", *signs])
    vocabulary = {text: id for id, text in enumerate(words)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [("b", "c"), ("a", "b"), ("ab", "c")], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Replace("▁", " ")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    made = proven(vocabularies_of(read_tokenizer(tmp_path), n_rows=len(vocabulary)),
                  tokenizer, texts=["abc", "a b c abcabc"])  # fmt: skip
    assert (made.model, made.pre) == ("gpt2", "sarvam-moe")
    assert made.merges == ["b c", "a b", "ab c"] != merges


def test_marks_that_take_in_spaces_are_told(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    state["added_tokens"][-1] |= {"lstrip": True, "rstrip": True}
    made = exported(changed(folder, added_tokens=state["added_tokens"]))
    assert "spaces around marks" in made.notes[0]


def test_tokens_that_llama_cpp_could_not_tell_apart_get_names_of_their_own(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    tokenizer = read_tokenizer(folder).tokenizer
    tokenizer.add_tokens(["nul\0one", "nul\0two"])
    size = tokenizer.get_vocab_size()
    tokenizer.add_tokens([f"[PAD{size + 1}]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    made = exported(folder, size + 2)
    assert len(set(made.tokens)) == size + 2
    assert made.kinds[size - 2 : size] == [TokenKind.UNUSED] * 2
    assert not any("\0" in text for text in made.tokens)
    assert any("2 tokens get other names" in note for note in made.notes)


def test_a_model_without_end_mark_does_not_end_at_an_ordinary_token(tmp_path: Path) -> None:
    """llama.cpp takes token 11 of such a file for the end of an answer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = WORDS["gpt-2"], decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(HARD_TEXTS, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    made = exported(tmp_path)
    assert made.tokens[made.more["eos_token_id"].content] == "À"  # the byte 0xC0, which no UTF-8 has


def test_all_ends_of_an_answer_and_the_marks_for_code_are_named(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    tokenizer = read_tokenizer(folder).tokenizer
    tokenizer.add_special_tokens(["<|eom_id|>", "<end-a>", "<|fim_prefix|>", "<|fim_suffix|>", "<|file_sep|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {text: tokenizer.token_to_id(text) for text in ("</s>", "<|im_end|>", "<|eom_id|>", "<end-a>")}
    said = FolderTokenizer(folder, generation_config={"eos_token_id": list(ids.values()), "suppress_tokens": [5]})
    files = read_tokenizer(folder)
    (made,) = vocabularies_of(files, n_rows=said.size)
    add_special_ids(made, files, said, suppressed=[5])
    named = {key: value.content for key, value in made.more.items()}
    assert [named[f"{key}_token_id"] for key in ("eos", "eot", "eom")] == [
        ids["</s>"], ids["<|im_end|>"], ids["<|eom_id|>"],
    ]  # fmt: skip
    assert "<end-a>" in made.notes[-1]
    assert {"fim_pre_token_id", "fim_suf_token_id", "fim_sep_token_id"} <= named.keys()
    assert named["suppress_tokens"] == [5]


def test_a_way_to_cut_that_llama_cpp_does_not_have_is_an_error_with_the_first_text(tmp_path: Path) -> None:
    spaces = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    with pytest.raises(TokenizerDiffers, match="Hello world"):
        exported(byte_level(tmp_path, pre_tokenizers.Sequence(spaces)))


def test_a_kind_that_llama_cpp_does_not_have_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabularyMisfit, match="WordLevel"):
        exported(tmp_path)


def test_rows_without_a_token_are_filled_and_unused_tokens_without_a_row_left_out(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    size = FolderTokenizer(folder).size
    more = exported(folder, size + 3)
    assert more.tokens[-1] == f"[PAD{size + 2}]"
    assert more.kinds[-3:] == [TokenKind.UNUSED] * 3
    (fewer,) = vocabularies_of(read_tokenizer(folder), n_rows=size - 1)
    assert len(fewer.tokens) == size - 1
    assert "1 token is left out" in fewer.notes[0]


def test_tokens_in_use_without_a_row_are_an_error_with_both_numbers(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, "byte-level")
    size = FolderTokenizer(folder).size
    with pytest.raises(VocabularyMisfit, match=f"number {size - 1}.*only {size - 1}"):
        exported(folder, size - 1, in_use=("{{ '<tool>' }}",))
    with pytest.raises(VocabularyMisfit, match="only 300"):
        exported(folder, 300)


def test_templates_keep_their_names() -> None:
    keys = template_keys({"default": "a", "tool_use": "b"})
    assert keys["tokenizer.chat_template"].content == "a"
    assert keys["tokenizer.chat_template.tool_use"].content == "b"
    assert keys["tokenizer.chat_templates"].content == ["tool_use"]
