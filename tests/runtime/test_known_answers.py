"""Answers are continued and read again in the very tokens that the model drew."""

from __future__ import annotations

from pathlib import Path

import pytest

import engines
import tiny_gguf
from engines import Answer, chat, collect
from runtime import known_answers
from runtime.engine import Engine
from runtime.messages import Message, Role
from runtime.protocol import FinishReason, GenerationRequest, TextDelta

EMOJI = "🦙".encode()


def scripted(tmp_path: Path, reply: list[bytes]) -> Engine:
    path = tmp_path / "scripted.gguf"
    tiny_gguf.write_scripted(path, reply, chat_template=tiny_gguf.chatml_template())
    return engines.load(path)


def go_on(engine: Engine, question: str, so_far: str, **sampling: object) -> Answer:
    messages = (Message(Role.USER, question), Message(Role.ASSISTANT, so_far))
    request = GenerationRequest(messages=messages, continue_last=True, sampling=chat("", **sampling).sampling)
    return collect(engine, request)


def prompt_ids(engine: Engine, request: GenerationRequest) -> list[int]:
    ids: list[int] = engine._prompts.build(request).ids  # type: ignore[attr-defined]
    return ids


def cached_ids(engine: Engine) -> list[int]:
    ids: list[int] = list(engine._cache.ids)  # type: ignore[attr-defined]
    return ids


# --- continuing -------------------------------------------------------------------------------------------------


def test_a_cut_answer_goes_on_from_its_own_tokens(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"one ", b"two ", b"three ", b"four"])
    first = collect(engine, chat("count", max_tokens=2))
    assert first.end.reason is FinishReason.LENGTH
    rest = go_on(engine, "count", first.text)
    assert first.text + rest.text == "one two three four"
    assert rest.end.usage.evaluated_tokens == 1


def test_an_answer_continued_twice_still_goes_on_from_its_own_tokens(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"one ", b"two ", b"three ", b"four"])
    text = collect(engine, chat("count", max_tokens=1)).text
    for _ in range(2):
        more = go_on(engine, "count", text, max_tokens=1)
        assert more.end.usage.evaluated_tokens == 1
        text += more.text
    assert text == "one two three "


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_answer_cut_inside_a_character_completes_it(tmp_path: Path, cut: int) -> None:
    engine = scripted(tmp_path, [b"a", EMOJI[:cut], EMOJI[cut:], b"z"])
    first = collect(engine, chat("hi", max_tokens=2))
    assert first.text == "a\ufffd"
    rest = go_on(engine, "hi", first.text)
    delta = next(event for event in rest.events if isinstance(event, TextDelta))
    assert (delta.text, delta.replaces) == ("🦙", 1)
    assert rest.text == "🦙z"
    assert rest.end.usage.evaluated_tokens == 1
    assert [event.replaces for event in rest.events if isinstance(event, TextDelta)] == [1, 0]


def test_an_answer_cut_twice_inside_one_character_completes_it(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"a", EMOJI[:1], EMOJI[1:2], EMOJI[2:], b"z"])
    first = collect(engine, chat("hi", max_tokens=2))
    second = go_on(engine, "hi", first.text, max_tokens=1)
    assert (second.text, second.events[-2].replaces) == ("\ufffd", 1)  # type: ignore[union-attr]
    assert go_on(engine, "hi", "a\ufffd").text == "🦙z"


def test_a_replacement_mark_that_the_model_wrote_stays(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"a", "\ufffd".encode(), b"b"])
    first = collect(engine, chat("hi", max_tokens=2))
    rest = go_on(engine, "hi", first.text)
    assert [(event.text, event.replaces) for event in rest.events if isinstance(event, TextDelta)] == [("b", 0)]


def test_an_answer_that_a_person_changed_goes_on_from_its_text(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"one ", b"two ", b"three ", b"four"])
    collect(engine, chat("count", max_tokens=2))
    messages = (Message(Role.USER, "count"), Message(Role.ASSISTANT, "one two, "))
    request = GenerationRequest(messages=messages, continue_last=True, sampling=engines.GREEDY)
    assert "".join(engine.pieces(prompt_ids(engine, request))).endswith("assistant\none two, ")


def test_an_answer_ended_by_a_stop_text_goes_on_before_it(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"one ", b"two ", b"##", b"three"])
    first = collect(engine, chat("count", stop=("##",)))
    assert (first.text, first.end.reason) == ("one two ", FinishReason.STOP_TEXT)
    rest = go_on(engine, "count", first.text)
    assert rest.text == "##three"
    assert rest.end.usage.evaluated_tokens == 1


# --- reading again ----------------------------------------------------------------------------------------------


def test_the_next_turn_reads_nothing_of_the_answer_again_however_it_would_be_tokenized(tmp_path: Path) -> None:
    # The scripted vocabulary has no merges: as plain text, every answer would be read byte by byte.
    engine = scripted(tmp_path, [b"Hello", b", ", b"world", b"!"])
    first = collect(engine, chat("hi"))
    held = cached_ids(engine)
    assert engine.tokenize(first.text) != held[-4:]
    second = collect(engine, chat("hi", first.text, "again"))
    assert second.text == first.text
    assert second.end.usage.cached_tokens == len(held)
    third = collect(engine, chat("hi", first.text, "again", second.text, "and again"))
    assert third.end.usage.cached_tokens == second.end.usage.prompt_tokens + second.end.usage.generated_tokens


def test_the_text_of_the_prompt_is_the_same_with_known_answers(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    engine, other = engines.load(path), engines.load(path)
    conversation = ["assistant", "user", "miller"]
    for turns in (conversation, [*conversation, "and <|im_end|> too", "assistant", "x"]):
        for text in turns[1::2]:
            ids = tuple(text.encode())  # the first 256 tokens are the bytes
            engine._known.remember(known_answers.Answer(text, ids, "assistant\n"))  # type: ignore[attr-defined]
        known, fresh = (prompt_ids(each, chat(*turns)) for each in (engine, other))
        assert known != fresh
        assert "".join(engine.pieces(known)) == "".join(engine.pieces(fresh))


def test_a_conversation_that_repeats_an_answer_finds_it_each_time(tmp_path: Path) -> None:
    engine = scripted(tmp_path, [b"yes", b"."])
    turns = ["yes."]
    for number in range(4):
        answer = collect(engine, chat(*turns))
        turns += [answer.text, f"yes. {number}"]
    last = collect(engine, chat(*turns))
    assert last.end.usage.evaluated_tokens < 40
    assert engine.count(chat(*turns).messages) == last.end.usage.prompt_tokens


def test_asking_again_after_an_answer_gives_the_same_text(tmp_path: Path) -> None:
    engine = engines.load(tiny_gguf.write_tiny(tmp_path / "m.gguf", type="Q8_0"))
    first = collect(engine, chat("Tell me of mills."))
    request = chat("Tell me of mills.", first.text, "And of querns?")
    assert len({collect(engine, request).text for _ in range(3)}) == 1


# --- what is remembered -----------------------------------------------------------------------------------------


def test_the_oldest_answers_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_answers, "_MOST_TOKENS", 10)
    known = known_answers.KnownAnswers()
    for text in ("a", "b", "a", "c"):
        known.remember(known_answers.Answer(text, (1, 2, 3, 4)))
    assert [answer.text for answer in known] == ["a", "c"]
    assert known.find("b") is None


def test_ids_that_spell_more_than_the_text_are_cut_or_given_up() -> None:
    assert known_answers.ids_spelling("one ", [1, 2], [b"one ", b"two"]) == (1,)
    assert known_answers.ids_spelling("one t", [1, 2], [b"one ", b"two"]) == ()
    assert known_answers.ids_spelling("one", [1], [b"on"]) == ()
