"""An answer is made again from its receipt, in both engines: with the same text, whatever the cache held before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import engines
import recurrent_gguf
import tiny_gguf
import tiny_lora
from engines import chat, collect, raw
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.model_hash import ModelHashes
from runtime.protocol import FinishReason, GenerationRequest, PromptProgress, Replayed
from runtime.receipt import Receipt, parsed, read_receipt, written
from runtime.schedule import Schedule, Step

pytestmark = pytest.mark.usefixtures("engine_name")


def skip_our_own(why: str) -> None:
    if engines.DEFAULTS["engine"] == "native":
        pytest.skip(why)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("models")

    def model(kind: str) -> Path:
        path = folder / f"{kind}.gguf"
        if path.exists():
            return path
        if kind == "windowed":
            return tiny_gguf.write_windowed(path, window=16)
        if kind == "recurrent":
            return recurrent_gguf.write_recurrent(path)
        return tiny_gguf.write_tiny(path, type=kind)

    return model


def asked(request: GenerationRequest) -> GenerationRequest:
    return msgspec.structs.replace(request, receipt=True)


def receipt_of(engine: Engine, request: GenerationRequest) -> tuple[Receipt, str]:
    answer = collect(engine, asked(request))
    receipt = answer.end.receipt
    assert receipt is not None
    assert receipt.text == answer.text
    hashes = ModelHashes().of(Path(engine.info.path))
    return parsed(written(msgspec.structs.replace(receipt, model_sha256=hashes))), answer.text


def replayed(engine: Engine, receipt: Receipt, *, anyway: bool = False) -> Replayed:
    *progress, last = engine.replay(receipt, StopFlag(), anyway=anyway)
    assert all(isinstance(event, PromptProgress) for event in progress)
    assert isinstance(last, Replayed)
    return last


def assert_equal(engine: Engine, receipt: Receipt) -> None:
    again = replayed(engine, receipt)
    assert (again.text, again.difference) == (receipt.text, None)
    assert again.tokens == len(receipt.ids)


def three_turns(engine: Engine, **sampling: object) -> Iterator[Receipt]:
    """A chat of three turns whose second answer is written twice and whose last one is cut and continued."""
    turns = ["Tell me of mills. " * 6]
    first, text = receipt_of(engine, chat(*turns, **sampling))
    yield first
    turns += [text, "And of querns?"]
    yield receipt_of(engine, chat(*turns, **sampling))[0]
    second, text = receipt_of(engine, chat(*turns, **{**sampling, "seed": 7}))
    yield second
    turns += [text, "Why?"]
    third, text = receipt_of(engine, chat(*turns, **{**sampling, "max_tokens": 5}))
    yield third
    roles = [Role.USER, Role.ASSISTANT]
    messages = tuple(Message(roles[at % 2], content) for at, content in enumerate([*turns, text]))
    cut = chat("x", **sampling)
    yield receipt_of(engine, msgspec.structs.replace(cut, messages=messages, continue_last=True))[0]


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0", "windowed", "recurrent"])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_every_answer_of_a_chat_is_made_again(
    models: Callable[[str], Path], kind: str, temperature: float
) -> None:
    if kind == "recurrent":
        skip_our_own("a Transformer has no recurrent layers")
    engine = engines.load(models(kind), micro_batch=32, context_length=1024)
    receipts = list(three_turns(engine, temperature=temperature, max_tokens=40))
    assert all(len(receipt.ids) > 3 for receipt in receipts)
    fresh = engines.load(models(kind), micro_batch=32, context_length=1024)
    for receipt in receipts:
        assert_equal(fresh, receipt)


@pytest.mark.parametrize("sampling", [
    {"repeat_penalty": 1.3, "penalty_window": -1}, {"mirostat": "2", "temperature": 0.9},
    {"dry_multiplier": 0.8, "xtc_probability": 0.5, "temperature": 1.0}, {"json_schema": '{"type":"integer"}'},
])  # fmt: skip
def test_what_the_samplers_remember_is_made_again(models: Callable[[str], Path], sampling: dict[str, object]) -> None:
    engine = engines.load(models("Q8_0"))
    receipt, _text = receipt_of(engine, chat("Tell me of mills.", **{**sampling, "max_tokens": 30}))
    assert_equal(engines.load(models("Q8_0")), receipt)


def test_an_answer_that_rolled_on_is_made_again(models: Callable[[str], Path]) -> None:
    engine = engines.load(models("Q8_0"), context_length=64)
    request = chat("Tell me of mills.", context_policy="shift", max_tokens=150, temperature=1.0)
    receipt, _text = receipt_of(engine, request)
    assert any(step.kind == "shift" for step in receipt.answer.steps)
    assert_equal(engines.load(models("Q8_0"), context_length=64), receipt)


def test_a_stop_text_and_a_cut_character_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"one ", b"two", b" three", b" four"])
    receipt, text = receipt_of(engines.load(path), chat("count", stop=("o th",)))
    assert (text, receipt.stop_text) == ("one tw", "o th")
    assert_equal(engines.load(path), receipt)
    emoji = tmp_path / "e.gguf"
    tiny_gguf.write_scripted(emoji, [b"a", b"\xf0\x9f", b"\x98\x80", b"b"])
    receipt, text = receipt_of(engines.load(emoji), chat("say", max_tokens=2))
    assert text == "a\ufffd"
    assert_equal(engines.load(emoji), receipt)


def test_raw_completion_and_an_answer_that_was_stopped_are_made_again(models: Callable[[str], Path]) -> None:
    engine, stop = engines.load(models("Q4_0")), StopFlag()
    events = []
    for event in engine.generate(asked(raw("Once upon a time", max_tokens=50)), stop):
        events.append(event)
        if len(events) == 12:
            stop.set()
    end = engines.Answer(events).end
    assert end.reason is FinishReason.STOPPED
    assert end.receipt is not None
    assert end.receipt.template_sha256 == ""
    again = replayed(engines.load(models("Q4_0")), end.receipt, anyway=True)
    assert (again.text, again.difference) == (end.receipt.text, None)


def test_guesses_that_were_checked_together_are_made_again(models: Callable[[str], Path]) -> None:
    engine = engines.load(models("Q8_0"))
    receipt, text = receipt_of(engine, raw("Once upon a time", max_tokens=9))
    cache, model = engine._cache, engine._model  # type: ignore[attr-defined]
    ids = receipt.ids
    cache.keep_common(receipt.prompt_ids())  # then the same answer, its tokens read together with guesses
    list(cache.evaluate(receipt.prompt_ids()[len(cache) :]))
    begun, held = cache.mark(), len(cache)
    cache.append_draft([ids[0], ids[1], 300, 301])
    cache.take_back(held + 2)
    cache.append_draft([ids[2], ids[3], ids[4]])
    cache.append(ids[5])
    prompt, answer = cache.schedules(begun)
    drafted = msgspec.structs.replace(receipt, prompt=prompt, answer=answer, ids=ids[:7])
    text = b"".join(map(model.vocabulary.piece, ids[:7])).decode("utf-8", "replace")
    again = replayed(engine, msgspec.structs.replace(drafted, text=text))
    assert (again.tokens, again.difference) == (7, None)


def test_a_windowed_model_that_took_back_very_much_begins_anew_and_is_made_again(
    models: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_our_own("only llama.cpp's cache has to begin anew")
    monkeypatch.setattr("runtime.llama.cache._MOST_EVALUATED", 3)
    engine = engines.load(models("windowed"), context_length=48, micro_batch=8, batch=8)
    notes, receipts = set(), []
    for seed in range(12):
        answer = collect(engine, asked(chat("Mills?", max_tokens=20, temperature=1.0, seed=seed)))
        notes.add(answer.end.usage.reuse_note)
        receipts.append(answer.end.receipt)
    assert any("So much was taken back" in note for note in notes)
    assert max(len(receipt.prompt.ids) for receipt in receipts) < 5 * 48
    again = engines.load(models("windowed"), context_length=48, micro_batch=8, batch=8)
    for receipt in receipts[::3]:
        assert replayed(again, receipt, anyway=True).difference is None


def test_an_answer_written_with_guesses_is_made_again_without_guessing(models: Callable[[str], Path]) -> None:
    engine = engines.load(models("Q8_0"), speculation="ngram", ngram_size=1)
    said = "The mill turned and the mill turned and the mill turned and "
    receipts = [receipt_of(engine, raw(said * 2, max_tokens=60, seed=seed, temperature=0.7))[0] for seed in range(3)]
    assert any(step.kind == "draft" for receipt in receipts for step in receipt.answer.steps)
    for receipt in receipts:
        assert_equal(engines.load(models("Q8_0")), receipt)


# --- differences ------------------------------------------------------------------------------------------------


@pytest.fixture
def receipt(models: Callable[[str], Path]) -> Receipt:
    return receipt_of(engines.load(models("Q8_0")), chat("Tell me of mills.", max_tokens=20))[0]


def test_an_answer_that_was_altered_is_told_apart_at_the_first_token(
    models: Callable[[str], Path], receipt: Receipt
) -> None:
    ids = list(receipt.ids)
    wrong = 301 if ids[8] != 301 else 302
    answer = msgspec.structs.replace(receipt.answer, ids=(*receipt.answer.ids[:8], wrong, *receipt.answer.ids[9:]))
    altered = msgspec.structs.replace(receipt, ids=(*ids[:8], wrong, *ids[9:]), answer=answer)
    difference = replayed(engines.load(models("Q8_0")), altered).difference
    assert difference is not None
    assert difference.tokens == 8
    assert difference.expected != difference.found


def test_a_text_that_its_tokens_do_not_spell_is_told_apart(models: Callable[[str], Path], receipt: Receipt) -> None:
    forged = msgspec.structs.replace(receipt, text=receipt.text[:5] + "#" + receipt.text[6:])
    difference = replayed(engines.load(models("Q8_0")), forged).difference
    assert difference is not None
    assert difference.character == 5
    assert difference.expected.startswith("#")


def test_another_prompt_and_another_seed_are_told_apart(models: Callable[[str], Path]) -> None:
    engine = engines.load(models("Q8_0"))
    receipt, _text = receipt_of(engine, chat("Tell me of mills.", max_tokens=20, temperature=1.5))
    prompt = msgspec.structs.replace(receipt.prompt, ids=(300, *receipt.prompt.ids[1:]))
    for changes in ({"prompt": prompt}, {"seed": receipt.seed + 1}):
        assert replayed(engine, msgspec.structs.replace(receipt, **changes)).difference is not None


# --- other conditions -------------------------------------------------------------------------------------------


def assert_refused(engine: Engine, receipt: Receipt, code: str, why: str) -> None:
    with pytest.raises(UserError) as caught:
        replayed(engine, receipt)
    assert caught.value.code == code
    assert why in caught.value.info.message


def test_another_model_another_build_and_other_settings_are_refused(
    models: Callable[[str], Path], receipt: Receipt, tmp_path: Path
) -> None:
    engine = engines.load(models("Q8_0"))
    assert_refused(engine, msgspec.structs.replace(receipt, build="b1"), "replay_refused", "another build")
    assert_refused(engine, msgspec.structs.replace(receipt, model_sha256=("0" * 64,)), "replay_refused", "file is not")
    assert_refused(engine, msgspec.structs.replace(receipt, model_sha256=()), "replay_refused", "does not say which")
    other = engines.load(models("Q8_0"), kv_type_k="bf16")
    assert_refused(other, receipt, "replay_refused", "kv_type_k")
    assert replayed(other, receipt, anyway=True).tokens > 0


def test_a_model_that_was_replaced_while_it_was_loaded_is_not_taken_for_its_successor(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    engine = engines.load(path)
    before, _text = receipt_of(engine, chat("Tell me of mills.", max_tokens=4))
    tiny_gguf.write_tiny(tmp_path / "next.gguf", seed=9).replace(path)
    identity = ModelHashes().of(path)
    after = collect(engine, asked(chat("Tell me of mills.", max_tokens=4))).end.receipt
    assert after is not None
    assert after.model_sha256 == ()
    assert before.model_sha256 != identity
    said_to_be_the_next = msgspec.structs.replace(before, model_sha256=identity)
    assert_refused(engine, said_to_be_the_next, "replay_refused", "file is not")


def test_settings_that_decide_nothing_do_not_matter(models: Callable[[str], Path], receipt: Receipt) -> None:
    assert_equal(engines.load(models("Q8_0"), mmap="on"), receipt)


@pytest.fixture
def style(models: Callable[[str], Path], tmp_path: Path) -> Path:
    return tiny_lora.write_lora(tmp_path / "style.gguf").path


def test_an_answer_with_an_adapter_is_made_again_wherever_the_adapter_lies(
    models: Callable[[str], Path], style: Path
) -> None:
    receipt, _text = receipt_of(engines.load(models("Q8_0"), lora=(f"{style}=0.5",)), chat("Tell me.", max_tokens=20))
    moved = style.rename(style.with_name("moved.gguf"))
    assert_equal(engines.load(models("Q8_0"), lora=(f"{moved}=0.5", f"{moved}=0")), receipt)
    other = engines.load(models("Q8_0"), lora=(f"{moved}=0.6",))
    assert_refused(other, receipt, "replay_refused", "lora")


def test_an_adapter_that_was_trained_on_is_noticed(models: Callable[[str], Path], style: Path) -> None:
    receipt, _text = receipt_of(engines.load(models("Q8_0"), lora=(str(style),)), chat("Tell me.", max_tokens=20))
    tiny_lora.write_lora(style, seed=1)
    trained = engines.load(models("Q8_0"), lora=(str(style),))
    assert_refused(trained, receipt, "replay_refused", "adapter is not the one")
    assert replayed(trained, receipt, anyway=True).tokens >= 0
    unknown = msgspec.structs.replace(receipt, adapters_sha256=())
    assert_refused(trained, unknown, "replay_refused", "does not say what was in the adapters")


# --- hostile receipts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "why"), [
    ({"prompt": Schedule((1, 2, 3), (Step("read", 4),))}, "do not add up"),
    ({"prompt": Schedule((), (Step("read", 0, 10**18),))}, "do not add up"),
    ({"prompt": Schedule((1,), (Step("read", 10**18, 10**18),))}, "do not add up"),
    ({"prompt": Schedule()}, "do not add up"),
    ({"prompt": Schedule((10**9,), (Step("read", 1),))}, "does not have"),
    ({"prompt": Schedule((-1,), (Step("read", 1),))}, "does not have"),
    ({"ids": (512,)}, "does not have"),
    ({"continued": (-5,)}, "does not have"),
    ({"prompt": Schedule((1,) * 600, (Step("read", 1, 600),))}, "more tokens than"),
    ({"prompt": Schedule((1,) * 513, (Step("read", 513),))}, "more tokens than"),
    ({"answer": Schedule((7,), (Step("read", 1), Step("cut", 10**6)))}, "do not add up"),
    ({"answer": Schedule((7,), (Step("read", 1), Step("shift", 1, 3)))}, "do not add up"),
    ({"prompt": Schedule((1,) * 500, (Step("read", 1, 500), *[Step("shift", 0, 0)] * 500_000))}, "do not add up"),
    ({"named": (512,)}, "does not have"),
    ({"reason": "end"}, "do not belong together"),
    ({"version": 99}, "newer version"),
    ({"sampling": {"temperature": -3}}, ""),
    ({"sampling": {"temperature": "hot"}}, ""),
    ({"sampling": {"wish": 1}}, "newer version"),
    ({"load": {"context_length": [1]}}, ""),
    ({"seed": 2**40}, ""),
])  # fmt: skip
def test_a_receipt_that_no_answer_left_is_refused_in_words(
    models: Callable[[str], Path], receipt: Receipt, changes: dict[str, object], why: str
) -> None:
    engine = engines.load(models("Q8_0"))
    hostile = parsed(written(msgspec.structs.replace(receipt, **changes)))
    with pytest.raises(UserError) as caught:
        replayed(engine, hostile, anyway=True)
    assert caught.value.code == "bad_receipt"
    assert why in caught.value.info.message
    assert_equal(engine, receipt)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"engine": 3}', b"null"])
def test_a_file_that_is_no_receipt_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "receipt.json"
    file.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_receipt(file)
    assert caught.value.code == "bad_receipt"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json"):
        read_receipt(tmp_path / "none.json")


def test_a_replay_can_be_stopped(models: Callable[[str], Path], receipt: Receipt) -> None:
    stop = StopFlag()
    stop.set()
    with pytest.raises(UserError) as caught:
        list(engines.load(models("Q8_0")).replay(receipt, stop, anyway=True))
    assert caught.value.code == "reading_stopped"
