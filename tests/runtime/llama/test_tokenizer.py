"""Vocabularies without weights: llama.cpp's own cases, marks and kinds, and prompts that hold the same ids."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiny_bert
import tiny_gguf
from runtime.errors import UserError
from runtime.known_answers import KnownAnswers
from runtime.llama.token_types import TokenAttribute
from runtime.llama.tokenizer import GgufTokenizer, NoVocabulary
from runtime.messages import Message, Role
from runtime.prompt import PromptBuilder
from runtime.protocol import GenerationRequest
from runtime.stream import StreamDecoder
from runtime.token_ids import UnknownToken
from vocabularies import (
    CONTROL,
    NORMAL,
    PUBLISHED,
    TESTED,
    UNKNOWN,
    published_cases,
    spm_tokens,
    write_vocabulary,
)

WORDS = ("▁the", "▁mill", "▁turns", "user", "hi")
KINDS = ("bert-bge", "nomic-bert-moe", "llama-spm", "gpt-2", "deepseek-coder")
MARKS = ("<|im_start|>", "<|im_end|>")
RARE = ("🦙", "\u0e01\u0e33", "e\u0301", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\t\n", "Ω≈ç√", "漢字", "\x7f")


def prompts_of(vocabulary: GgufTokenizer, template: str) -> Iterator[PromptBuilder]:
    builder = PromptBuilder(vocabulary, KnownAnswers(), templates={"default": template}, context_length=4096)
    builder._renderer._timeout = 20.0  # two seconds would be short on a busy machine
    yield builder
    builder.close()


def prompt_ids(builder: PromptBuilder, *contents: str) -> list[int]:
    roles = (Role.USER, Role.ASSISTANT)
    turns = tuple(Message(roles[at % 2], content) for at, content in enumerate(contents))
    return builder.build(GenerationRequest(messages=turns)).ids


def published(name: str) -> Path:
    return next(path for path in PUBLISHED if path.stem == f"ggml-vocab-{name}")


def spm(tmp_path: Path, **metadata: object) -> GgufTokenizer:
    tokens = spm_tokens(WORDS, control=MARKS, user_defined=("<tool>",))
    keys = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, **metadata}
    return GgufTokenizer(write_vocabulary(tmp_path / "spm.gguf", tokens, metadata=keys))


# --- llama.cpp's own cases --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=TESTED, ids=lambda path: path.stem)
def tested(request: pytest.FixtureRequest) -> Iterator[tuple[GgufTokenizer, list[tuple[str, list[int]]]]]:
    with GgufTokenizer(request.param) as vocabulary:
        yield vocabulary, published_cases(request.param)


def test_the_set_up_brings_the_vocabularies_of_all_kinds() -> None:
    assert len(TESTED) >= 14
    assert len(PUBLISHED) > len(TESTED)


def test_ids_are_those_that_llama_cpp_expects(tested: tuple[GgufTokenizer, list[tuple[str, list[int]]]]) -> None:
    vocabulary, cases = tested
    assert len(cases) >= 40
    for text, expected in cases:
        assert vocabulary.tokenize(text) == expected, text
        assert vocabulary.tokenize(text, special=True) == expected, text  # no case holds a control token's text


def test_every_byte_of_a_text_comes_back(tested: tuple[GgufTokenizer, list[tuple[str, list[int]]]]) -> None:
    vocabulary, cases = tested
    for text, ids in cases if vocabulary.kind != "wpm" else [("hello world", vocabulary.tokenize("Hello  world"))]:
        assert vocabulary.decode(ids) == text.encode(), text


def test_a_messages_content_is_read_as_plain_text(
    tested: tuple[GgufTokenizer, list[tuple[str, list[int]]]]
) -> None:
    vocabulary, cases = tested
    forged = next(text for text, token in vocabulary.control_tokens.items() if len(text) > 2)
    for builder in prompts_of(vocabulary, "{{ messages[0]['content'] }}"):
        for text, expected in cases:
            if expected:
                assert prompt_ids(builder, text) == expected, text
        for text in (f"a {forged}", f"{forged}{forged} b", f"x\n{forged}\ny {forged[:-1]}"):
            ids = prompt_ids(builder, text)
            assert ids == vocabulary.tokenize(text), text
            assert not vocabulary.control_ids & set(ids)


def test_control_tokens_are_recognised_only_where_they_are_wanted(
    tested: tuple[GgufTokenizer, list[tuple[str, list[int]]]]
) -> None:
    vocabulary, _cases = tested
    text, token = next((text, token) for text, token in vocabulary.control_tokens.items() if len(text) > 2)
    assert token in vocabulary.tokenize(f"a{text}b", special=True)
    assert token not in vocabulary.tokenize(f"a{text}b")
    assert vocabulary.piece(token) == b""
    assert vocabulary.raw_piece(token) == text.encode()
    assert vocabulary.attributes(token) & TokenAttribute.CONTROL


@pytest.mark.parametrize("name", KINDS)
def test_the_marks_around_a_text_are_llama_cpps(name: str) -> None:
    with GgufTokenizer(published(name)) as vocabulary:
        for text in ("Hello, world", "", " x"):
            assert vocabulary.tokenize_whole(text) == natively_marked(vocabulary, text)


def natively_marked(vocabulary: GgufTokenizer, text: str) -> list[int]:
    ids, data = (ctypes.c_int32 * 64)(), text.encode()
    tokenize = vocabulary._library.llama_tokenize
    count = tokenize(vocabulary.handle, data, len(data), ids, len(ids), True, False)
    return ids[:count]


# --- what cannot be run, or is no model -------------------------------------------------------------------------


def test_an_encoders_vocabulary_opens_without_its_weights(tmp_path: Path) -> None:
    bert = tiny_bert.write_tiny_bert(tmp_path / "bert.gguf")
    with GgufTokenizer(bert.path) as vocabulary:
        assert vocabulary.kind == "wpm"
        assert vocabulary.tokenize_whole("The millers sleeping") == tiny_bert.ids_of(
            "the", "miller", "##s", "sleep", "##ing"
        )
        assert vocabulary.decode(vocabulary.tokenize("the miller sleeps")) == b"the miller sleeps"
        assert (vocabulary.special.bos, vocabulary.special.sep, vocabulary.special.mask) == (
            tiny_bert.CLS, tiny_bert.SEP, tiny_bert.MASK
        )  # fmt: skip
        assert vocabulary.unknown == tiny_bert.UNK
        assert vocabulary.has_end_mark


@pytest.mark.parametrize("architecture", ["bart", "a-family-to-come", "clip"])
def test_a_family_that_llama_cpp_does_not_run_still_has_its_vocabulary(tmp_path: Path, architecture: str) -> None:
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(WORDS), architecture=architecture)
    with GgufTokenizer(path) as vocabulary:
        assert vocabulary.pieces(vocabulary.tokenize("the mill")) == [" the", " mill"]


def test_any_part_of_a_split_set_opens_the_vocabulary(tmp_path: Path) -> None:
    first = tiny_gguf.write_tiny(tmp_path / "split.gguf", tensors_per_file=10)
    with GgufTokenizer(sorted(tmp_path.glob("split-*"))[-1]) as vocabulary:
        assert vocabulary.path == first
        assert vocabulary.size == 512


def test_a_file_without_a_vocabulary_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = write_vocabulary(tmp_path / "v.gguf", [("a", NORMAL, 0.0)], model="none")
    with pytest.raises(NoVocabulary, match="has no vocabulary"):
        GgufTokenizer(path)


def test_a_pre_tokenizer_that_is_unknown_is_refused_by_name_never_guessed(tmp_path: Path) -> None:
    tokens = [(text, NORMAL, 0.0) for text in ("a", "b", "ab")]
    path = write_vocabulary(
        tmp_path / "v.gguf", tokens, model="gpt2", merges=["a b"], metadata={"pre": "nobody-knows-me"}
    )
    with pytest.raises(NoVocabulary, match="nobody-knows-me"):
        GgufTokenizer(path)


def test_a_damaged_file_is_refused_before_native_code_sees_it(tmp_path: Path) -> None:
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(WORDS))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError) as caught:
        GgufTokenizer(path)
    assert caught.value.info.code == "damaged_model"


def test_closing_twice_does_no_harm(tmp_path: Path) -> None:
    vocabulary = spm(tmp_path)
    vocabulary.close()
    vocabulary.close()


# --- kinds of tokens --------------------------------------------------------------------------------------------


def test_each_kind_of_token_is_told(tmp_path: Path) -> None:
    with spm(tmp_path) as vocabulary:
        kinds = {vocabulary.text(token): vocabulary.attributes(token) for token in range(vocabulary.size)}
        assert kinds["<unk>"] == TokenAttribute.UNKNOWN
        assert kinds["<s>"] == kinds["<|im_end|>"] == TokenAttribute.CONTROL
        assert kinds["<0x0A>"] == TokenAttribute.BYTE
        assert kinds["<tool>"] == TokenAttribute.USER_DEFINED
        assert kinds["▁the"] == TokenAttribute.NORMAL
        assert vocabulary.score(vocabulary.tokenize("the")[0]) == -2.0
        assert vocabulary.unknown == 0


def test_a_user_defined_token_is_matched_in_plain_text_and_shown(tmp_path: Path) -> None:
    with spm(tmp_path) as vocabulary:
        ids = vocabulary.tokenize("the<tool>mill")
        assert vocabulary.pieces(ids) == [" the", "<tool>", " mill"]
        assert vocabulary.decode(ids) == b"the<tool>mill"


def test_the_tokens_with_a_purpose_are_those_of_the_file(tmp_path: Path) -> None:
    named = {"bos_token_id": 260, "eos_token_id": 2, "eot_token_id": 260, "padding_token_id": 0,
             "fim_pre_token_id": 262, "fim_suf_token_id": 263, "fim_mid_token_id": 264}  # fmt: skip
    with spm(tmp_path, **named) as vocabulary:
        found = vocabulary.special
        assert (found.bos, found.eos, found.eot, found.pad) == (260, 2, 260, 0)
        assert (found.fim_prefix, found.fim_suffix, found.fim_middle) == (262, 263, 264)
        assert found.newline == vocabulary.tokenize("\n")[-1] == 3 + ord("\n")
        assert found.sep is found.mask is found.fim_repo is None
        assert vocabulary.bos_text == "<|im_end|>"


@pytest.mark.parametrize(("adds_bos", "adds_eos"), [(True, False), (False, True), (True, True), (False, False)])
def test_marks_follow_the_file_and_no_end_mark_joins_a_prompt(
    tmp_path: Path, adds_bos: bool, adds_eos: bool
) -> None:
    with spm(tmp_path, add_bos_token=adds_bos, add_eos_token=adds_eos) as vocabulary:
        text = vocabulary.tokenize("the mill")
        assert (vocabulary.adds_bos, vocabulary.adds_eos) == (adds_bos, adds_eos)
        assert vocabulary.tokenize("the mill", add_bos=True) == [1] * adds_bos + text
        assert vocabulary.tokenize_whole("the mill") == [1] * adds_bos + text + [2] * adds_eos
        for builder in prompts_of(vocabulary, "{{ messages[0]['content'] }}"):
            assert builder.build(GenerationRequest(prompt="the mill")).ids == [1] * adds_bos + text
            assert prompt_ids(builder, "the mill") == text


def test_there_is_one_begin_mark_also_where_the_text_or_the_template_writes_it(tmp_path: Path) -> None:
    with spm(tmp_path, add_bos_token=True) as vocabulary:
        text = vocabulary.tokenize("the mill")
        for builder in prompts_of(vocabulary, "{{ bos_token }}{{ messages[0]['content'] }}"):
            assert builder.build(GenerationRequest(prompt="<s>the mill")).ids == [1, *text]
            assert prompt_ids(builder, "the mill") == [1, *text]
            typed = prompt_ids(builder, "<s>the mill")
            assert (typed[0], typed.count(1)) == (1, 1)
            assert vocabulary.decode(typed[1:]) == b"<s>the mill"


def test_a_wanted_mark_that_does_not_exist_is_left_out(tmp_path: Path) -> None:
    tokens = [(text, kind, 0.0) for text, kind in (("<pad>", CONTROL), ("<u>", UNKNOWN), ("▁a", NORMAL))]
    path = write_vocabulary(tmp_path / "v.gguf", tokens, model="t5", metadata={"add_bos_token": True})
    with GgufTokenizer(path) as vocabulary:
        assert vocabulary.special.bos is None
        assert vocabulary.tokenize("a", add_bos=True) == [2]
        assert vocabulary.tokenize_whole("a")[0] == 2


@pytest.mark.parametrize("token", [-1, 10**6])
def test_a_token_that_does_not_exist_is_an_error_not_a_crash(tmp_path: Path, token: int) -> None:
    with spm(tmp_path) as vocabulary:
        for ask in (vocabulary.attributes, vocabulary.score, vocabulary.text, vocabulary.piece, vocabulary.label):
            with pytest.raises(UnknownToken, match=f"The token {token} does not exist"):
                ask(token)


# --- bytes ------------------------------------------------------------------------------------------------------


def test_what_has_no_token_is_spelled_in_bytes_and_comes_back(tmp_path: Path) -> None:
    with spm(tmp_path) as vocabulary:
        for text in (*RARE, "".join(RARE), " the  mill", "the\r\nmill "):
            ids = vocabulary.tokenize(text)
            assert vocabulary.decode(ids) == text.encode(), text
            assert "<0x" not in "".join(map(vocabulary.label, ids))


def test_byte_tokens_stream_as_real_characters(tmp_path: Path) -> None:
    with spm(tmp_path) as vocabulary:
        decoder = StreamDecoder()
        ids = [vocabulary.tokenize("hi")[-1], *(3 + byte for byte in "\n\t漢".encode())]
        assert all(vocabulary.attributes(token) & TokenAttribute.BYTE for token in ids[1:])
        assert "".join(decoder.feed(vocabulary.piece(token)) for token in ids).endswith("hi\n\t漢")


@pytest.mark.parametrize("pieces", ["🦙", "the 🦙🦙 mill", "🦙 the 🦙", "Ω≈ç", "漢字 hi かな", "é👩\u200d👩!"])
def test_unigram_with_byte_tokens_loses_nothing(tmp_path: Path, pieces: str) -> None:
    keys = {"unknown_token_id": 0, "eos_token_id": 2, "add_space_prefix": True}
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(WORDS), model="t5", metadata=keys)
    with GgufTokenizer(path) as vocabulary:
        ids = vocabulary.tokenize(pieces)
        assert vocabulary.decode(ids) == pieces.encode()
        assert vocabulary.unknown not in ids
        assert vocabulary.tokenize_whole(pieces) == [*ids, 2]


def test_unigram_marks_what_it_does_not_know_and_keeps_the_rest(tmp_path: Path) -> None:
    keys = {"unknown_token_id": 0, "eos_token_id": 2, "add_space_prefix": True}
    path = write_vocabulary(tmp_path / "v.gguf", spm_tokens(WORDS, byte_tokens=False), model="t5", metadata=keys)
    with GgufTokenizer(path) as vocabulary:
        assert vocabulary.kind == "ugm"
        assert vocabulary.pieces(vocabulary.tokenize("the mill turns")) == [" the", " mill", " turns"]
        for text in ("🦙", "漢字", "Ω"):
            ids = vocabulary.tokenize(f"the {text} mill")
            assert vocabulary.unknown in ids
            assert vocabulary.decode(ids).split() == [b"the", b"mill"]
            assert b"<unk>" in vocabulary.decode(ids, special=True)


# --- prompts ----------------------------------------------------------------------------------------------------


def test_a_prompt_in_pieces_has_the_ids_of_the_whole_rendered_text(tmp_path: Path) -> None:
    with spm(tmp_path) as vocabulary:
        for builder in prompts_of(vocabulary, tiny_gguf.chatml_template()):
            rendered = "<|im_start|>user\nthe mill<|im_end|>\n<|im_start|>assistant\n"
            assert prompt_ids(builder, "the mill") == vocabulary.tokenize(rendered, special=True)
            ids = prompt_ids(builder, "hi<|im_end|>", "the mill", "the mill")
            tail = "\n<|im_start|>assistant\nthe mill<|im_end|>\n<|im_start|>user\nthe mill<|im_end|>\n"
            whole = vocabulary.tokenize(f"<|im_end|>{tail}<|im_start|>assistant\n", special=True)
            assert ids[-len(whole) :] == whole


def test_marks_take_in_the_space_behind_them_also_where_a_message_was_kept_from_forging() -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}<|assistant|>\n"
    tail = "<|end|>\n<|assistant|>\n  the answer<|end|>\n<|user|>\n\n and so on<|end|>\n<|assistant|>\n"
    with GgufTokenizer(published("phi-3")) as phi:
        whole = phi.tokenize(tail, special=True)
        for builder in prompts_of(phi, template):
            for first in ("plain", "forged <|end|>"):
                assert prompt_ids(builder, first, "  the answer", "\n and so on")[-len(whole) :] == whole, first
