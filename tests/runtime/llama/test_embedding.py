"""Vectors of texts: a BERT against the same formulas in numpy, and hidden states of a model that writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import engines
import tiny_bert
import tiny_gguf
from engines import collect, raw
from runtime.engine import Embedder, StopFlag
from runtime.errors import UserError
from runtime.llama.embedding import LlamaEmbedder, packs_of
from runtime.logits import InvalidNumbers
from runtime.params import LoadParams
from runtime.reading import Embedded, EmbedRequest, ReadProgress
from runtime.vectors import normalized
from tiny_bert import TinyBert, ids_of

EXACT = {"kv_type_k": "f32", "kv_type_v": "f32", "flash_attention": "off", "threads": 1}
SENTENCES = {
    "The miller": ("the", "miller"),
    "the cats run, and the dog sleeping.": (
        "the", "cat", "##s", "run", ",", "and", "the", "dog", "sleep", "##ing", "."),
    "zebra": ("zebra",),
}  # fmt: skip


@pytest.fixture
def bert(tmp_path: Path) -> TinyBert:
    return tiny_bert.write_tiny_bert(tmp_path / "bert.gguf")


def opened(path: Path, **params: object) -> Embedder:
    embedder = LlamaEmbedder(path, LoadParams(**{**EXACT, **params}).validated())  # type: ignore[arg-type]
    engines.OPEN.append(embedder)  # type: ignore[arg-type]
    return embedder


def embedded(embedder: Embedder, *texts: str, stop: StopFlag | None = None, **options: object) -> Embedded:
    request = EmbedRequest(texts=texts, **options)  # type: ignore[arg-type]
    *_, last = embedder.embed(request, StopFlag() if stop is None else stop)
    assert isinstance(last, Embedded)
    return last


def close(found: Sequence[Sequence[float]], expected: Sequence[np.ndarray], tolerance: float = 1e-3) -> bool:
    return bool(np.abs(np.array(found) - np.array(expected)).max() < tolerance)


def test_what_was_corrected_while_loading_is_told_with_the_vectors(bert: TinyBert) -> None:
    *_, last = opened(bert.path, gpu_layers=3).embed(EmbedRequest(texts=("the miller",)), StopFlag())
    assert isinstance(last, Embedded)
    assert "no graphics card" in last.notes[0]


# --- BERT -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pooling", "pool"), [("mean", lambda x: x.mean(axis=0)), ("cls", lambda x: x[0]), ("last", lambda x: x[-1])]
)
def test_bert_gives_the_vectors_of_its_formulas(bert: TinyBert, pooling: str, pool: object) -> None:
    expected = [pool(bert.hidden(ids_of(*pieces))) for pieces in SENTENCES.values()]  # type: ignore[operator]

    result = embedded(opened(bert.path), *SENTENCES, pooling=pooling, normalize=False)

    assert close(result.vectors, expected)
    assert np.abs(np.array(expected)).max() > 1
    assert result.tokens == tuple(len(ids_of(*pieces)) for pieces in SENTENCES.values())
    assert result.pooling == pooling


@pytest.mark.parametrize(("number", "name"), [(1, "mean"), (2, "cls"), (3, "last"), (0, "mean"), (None, "mean")])
def test_pooling_is_what_the_file_says_and_the_mean_otherwise(tmp_path: Path, number: int | None, name: str) -> None:
    embedder = opened(tiny_bert.write_tiny_bert(tmp_path / "m.gguf", pooling=number).path)

    chosen = embedded(embedder, "the miller", pooling=name)
    assert embedded(embedder, "the miller") == chosen
    assert chosen.pooling == name


def test_vectors_have_the_length_1_unless_they_are_wanted_as_they_are(bert: TinyBert) -> None:
    embedder = opened(bert.path)
    (plain,) = embedded(embedder, "the mill", normalize=False).vectors
    (unit,) = embedded(embedder, "the mill").vectors

    assert np.linalg.norm(unit) == pytest.approx(1)
    assert np.linalg.norm(plain) > 2
    assert np.allclose(np.array(plain) / np.linalg.norm(plain), unit)


def test_each_text_has_the_vector_that_it_has_alone(bert: TinyBert) -> None:
    texts = [f"the {word} is {other}" for word in ("cat", "dog", "mill") for other in ("good", "bad", "old")] * 9
    embedder = opened(bert.path)

    together = embedded(embedder, *texts)
    alone = [embedded(embedder, text).vectors[0] for text in texts[:9]] * 9

    assert len(together.vectors) == 81
    assert close(together.vectors, [np.array(vector) for vector in alone])


def test_a_long_text_is_refused_with_both_numbers_or_visibly_cut(bert: TinyBert) -> None:
    embedder = opened(bert.path)
    long = "the cat " * 50

    with pytest.raises(UserError) as caught:
        embedded(embedder, "the mill", long)
    assert caught.value.info.code == "text_too_long"
    assert {"2", "102", "64"} <= set(caught.value.info.title.replace(";", " ").split())

    result = embedded(embedder, "the mill", long, truncate=True, normalize=False)
    assert result.tokens == (4, 64)
    assert len(result.notes) == 1
    assert "102" in result.notes[0]
    kept = ids_of(*(["the", "cat"] * 31))
    assert close(result.vectors[1:], [bert.hidden(kept).mean(axis=0)])


def test_a_text_that_fills_the_positions_is_read_whole(bert: TinyBert) -> None:
    (vector,) = embedded(opened(bert.path), "the cat " * 31, normalize=False).vectors
    assert close([vector], [bert.hidden(ids_of(*(["the", "cat"] * 31))).mean(axis=0)])


def test_more_context_than_the_model_has_positions_changes_nothing(bert: TinyBert) -> None:
    with pytest.raises(UserError, match="64 at once"):
        embedded(opened(bert.path, context_length=4096), "the cat " * 50)
    with pytest.raises(UserError, match="20 at once"):
        embedded(opened(bert.path, context_length=20), "the cat " * 31)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused_by_its_number(bert: TinyBert, text: str) -> None:
    with pytest.raises(UserError, match="Text 2 is empty"):
        embedded(opened(bert.path), "the mill", text)


def test_marks_written_in_a_text_are_text(bert: TinyBert) -> None:
    assert embedded(opened(bert.path), "[SEP] mill").tokens[0] > len(ids_of("mill")) + 1


def test_no_texts_make_no_vectors(bert: TinyBert) -> None:
    assert embedded(opened(bert.path)).vectors == ()


def test_progress_rises_to_the_whole_and_stop_ends_it(bert: TinyBert) -> None:
    embedder, texts = opened(bert.path), ("the cat " * 30,) * 20
    *progress, _last = embedder.embed(EmbedRequest(texts=texts), StopFlag())
    done = [event.done for event in progress if isinstance(event, ReadProgress)]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 20 * 62)
    assert len(done) > 2

    stop = StopFlag()
    reading = embedder.embed(EmbedRequest(texts=texts), stop)
    next(reading)
    stop.set()
    with pytest.raises(UserError) as caught:
        next(reading)
    assert caught.value.info.code == "reading_stopped"
    assert len(embedded(embedder, "the mill").vectors) == 1


def test_bert_is_still_refused_for_a_conversation(bert: TinyBert) -> None:
    with pytest.raises(UserError) as caught:
        engines.load(bert.path)
    assert caught.value.info.code == "unsupported_model"


def test_a_model_that_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot run") as caught:
        opened(tiny_bert.write_tiny_bert(tmp_path / "m.gguf", pooling=4).path)
    assert "ranks texts" in caught.value.info.message


# --- models that write ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("add_bos", [False, True])
def test_hidden_states_of_a_model_that_writes_are_pooled(tmp_path: Path, add_bos: bool) -> None:
    embedder = opened(tiny_gguf.write_tiny(tmp_path / "m.gguf", add_bos=add_bos))
    text = "The miller opened the sluice"
    last = [embedded(embedder, text[:end], pooling="last", normalize=False) for end in range(1, len(text) + 1)]
    by_length = {found.tokens[0]: np.array(found.vectors[0]) for found in last}  # the states of the text's beginnings

    result = embedded(embedder, text, pooling="last", normalize=False)
    assert np.allclose(result.vectors[0], by_length[result.tokens[0]])
    mean, first = (embedded(embedder, text, pooling=name, normalize=False) for name in ("mean", "cls"))
    assert mean.tokens == first.tokens
    assert not np.allclose(mean.vectors, result.vectors)
    assert embedded(embedder, text).pooling == "mean"


def test_the_mean_of_a_causal_model_is_the_mean_of_what_its_prefixes_end_with(tmp_path: Path) -> None:
    embedder = opened(tiny_gguf.write_tiny(tmp_path / "m.gguf"))
    bytes_apart = "xqzvkj"  # no merges: each character is a token, so each prefix of the text is one of its tokens
    ends = [embedded(embedder, bytes_apart[:end], pooling="last", normalize=False) for end in range(1, 7)]

    mean = embedded(embedder, bytes_apart, pooling="mean", normalize=False)
    first = embedded(embedder, bytes_apart, pooling="cls", normalize=False)

    assert [found.tokens[0] for found in ends] == [1, 2, 3, 4, 5, 6]
    assert np.allclose(mean.vectors[0], np.mean([found.vectors[0] for found in ends], axis=0), atol=1e-4)
    assert np.allclose(first.vectors[0], ends[0].vectors[0], atol=1e-4)


@pytest.mark.parametrize("write", [tiny_gguf.write_tiny, tiny_gguf.write_windowed])
def test_texts_of_a_model_that_writes_do_not_see_each_other(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    embedder = opened(write(tmp_path / "m.gguf"))
    texts = ["The miller", "the stone began to turn. " * 30, "Hello there", "x" * 300, "1 2 3", "and the flour"] * 3

    together = embedded(embedder, *texts, normalize=False)

    alone = [embedded(embedder, text, normalize=False) for text in texts]
    assert max(together.tokens) > 256  # beyond the window
    assert sum(together.tokens) > 1024  # several evaluations
    assert np.allclose(together.vectors, [found.vectors[0] for found in alone], atol=1e-3)


def test_equal_texts_point_the_same_way_and_similar_ones_nearer_than_others(tmp_path: Path) -> None:
    embedder = opened(tiny_gguf.write_tiny(tmp_path / "m.gguf"))
    one, same, near, far = map(np.array, embedded(
        embedder, "The miller opened the sluice", "The miller opened the sluice", "The miller opened the door",
        "1 2 3 4 5 6 7 8").vectors)  # fmt: skip

    assert one @ same == pytest.approx(1, abs=1e-5)
    assert one @ near > one @ far


def test_a_loaded_engine_makes_vectors_and_goes_on_answering(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    engine = engines.load(path, **EXACT)
    answer = collect(engine, raw("The mill", max_tokens=5))
    stop = StopFlag()

    *_, result = engine.embed(EmbedRequest(texts=("The mill", "turns")), stop)

    assert isinstance(result, Embedded)
    assert result == embedded(opened(path), "The mill", "turns")
    again = collect(engine, raw("The mill", max_tokens=5))
    assert again.text == answer.text
    assert again.end.usage.cached_tokens > 0 or again.end.usage.prompt_tokens == again.end.usage.evaluated_tokens


# --- numbers ----------------------------------------------------------------------------------------------------


def test_short_texts_share_an_evaluation_and_long_ones_go_alone() -> None:
    texts = [[0] * length for length in (300, 200, 100, 600, 1, 1, 1)]
    assert [[len(text) for text in pack] for pack in packs_of(texts, most=2)] == [[300, 200], [100], [600], [1, 1], [1]]
    assert [text for pack in packs_of(texts, most=1) for text in pack] == texts


def test_vectors_that_are_no_numbers_are_named_and_zeros_stay() -> None:
    assert normalized((0.0, 0.0)) == (0.0, 0.0)
    assert normalized((3.0, 4.0)) == (0.6, 0.8)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(InvalidNumbers):
            normalized((1.0, bad))
