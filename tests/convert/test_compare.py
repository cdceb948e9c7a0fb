"""Two engines held against each other over a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

import engines
import tiny_gguf
from convert.compare import Compared, DifferentVocabularies, TextTooShort, chunks_of, compare
from runtime.engine import Engine, StopFlag
from runtime.reading import ReadingStopped, ReadProgress

TEXT = "The miller opened the sluice and the stone began to turn. " * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def exact(folder: Path) -> Engine:
    return engines.load(tiny_gguf.write_tiny(folder / "exact.gguf"), context_length=512)


def compared(reference: Engine, candidate: Engine, text: str = TEXT) -> Compared:
    found = list(compare(reference, candidate, text, StopFlag()))[-1]
    assert isinstance(found, Compared)
    return found


def test_a_model_does_not_stray_from_itself(exact: Engine, folder: Path) -> None:
    found = compared(exact, engines.load(folder / "exact.gguf", context_length=512))
    assert found.quality.kl.max < 1e-6
    assert found.quality.top1_agreement == 1
    assert found.quality.perplexity.ratio == pytest.approx(1, abs=1e-5)


def test_fewer_bits_stray_further(exact: Engine, folder: Path) -> None:
    kl = []
    for kind in ("Q8_0", "Q4_0"):
        other = engines.load(tiny_gguf.write_tiny(folder / f"{kind}.gguf", type=kind), context_length=512)
        found = compared(exact, other)
        kl.append(found.quality.kl.mean)
        assert found.candidate.bits_per_weight < found.reference.bits_per_weight == pytest.approx(32, rel=0.01)
    assert 0 < kl[0] < kl[1] / 4


def test_the_figures_are_those_of_the_tokens_own_probabilities(exact: Engine) -> None:
    text = TEXT[:300]
    found = compared(exact, exact, text).quality
    ids = exact.tokenize(text)
    (scored,) = [event for event in exact.score(text, StopFlag()) if not isinstance(event, ReadProgress)]
    second_half = scored.logprobs[len(scored.ids) - (len(ids) - 1 - len(ids) // 2) :]
    assert found.tokens == len(second_half)
    assert found.perplexity.reference == pytest.approx(math.exp(-sum(second_half) / len(second_half)), rel=1e-4)


def test_the_worst_places_are_shown_in_their_text(exact: Engine, folder: Path) -> None:
    other = engines.load(tiny_gguf.write_tiny(folder / "other.gguf", seed=5), context_length=512)
    worst = compared(exact, other).quality.worst
    assert len(worst) == 5
    assert all(one.before + one.token in TEXT and one.token for one in worst)
    assert [one.kl for one in worst] == sorted((one.kl for one in worst), reverse=True)


def test_text_is_shown_whole_where_tokens_are_parts_of_characters(exact: Engine, folder: Path) -> None:
    other = engines.load(tiny_gguf.write_tiny(folder / "other.gguf", seed=5), context_length=512)
    text = "水车慢慢地转，磨坊主打开水闸，谷物落下。" * 20
    worst = compared(exact, other, text).quality.worst
    shown = [part for one in worst for part in (one.before, one.token, one.reference, one.candidate)]
    assert not any("\ufffd" in part for part in shown)
    assert all(one.before and one.before in text for one in worst)
    assert any(one.token.startswith("<0x") for one in worst)


def test_other_vocabularies_are_refused(exact: Engine, folder: Path) -> None:
    tiny_gguf.write_scripted(folder / "scripted.gguf", [b"ok"])
    other = engines.load(folder / "scripted.gguf", context_length=512)
    with pytest.raises(DifferentVocabularies, match="cannot be compared"):
        compared(exact, other)


def test_another_begin_mark_is_another_text(exact: Engine, folder: Path) -> None:
    other = engines.load(tiny_gguf.write_tiny(folder / "marked.gguf", add_bos=True), context_length=512)
    with pytest.raises(DifferentVocabularies):
        compared(exact, other)
    assert compared(other, other).quality.kl.max < 1e-6


def test_a_text_of_a_few_tokens_is_too_short(exact: Engine) -> None:
    with pytest.raises(TextTooShort):
        compared(exact, exact, "ab")


def test_it_can_be_stopped(exact: Engine) -> None:
    stop = StopFlag()
    events = compare(exact, exact, TEXT, stop)
    next(events)
    stop.set()
    with pytest.raises(ReadingStopped):
        list(events)


@pytest.mark.parametrize(
    ("n", "begin", "expected"),
    [
        (1024, [], [(512, 0, 256), (512, 512, 256)]),
        (1100, [], [(512, 0, 256), (512, 512, 256)]),
        (1024, [9], [(512, -1, 256), (512, 511, 256)]),
        (100, [], [(100, 0, 50)]),
        (100, [9], [(101, -1, 50)]),
    ],
)
def test_a_text_is_cut_into_whole_chunks(n: int, begin: Sequence[int], expected: list[tuple[int, int, int]]) -> None:
    ids = list(range(1000, 1000 + n))
    chunks = chunks_of(ids, begin)
    assert [(len(chunk.ids), chunk.start, chunk.first) for chunk in chunks] == expected
    for chunk in chunks:
        assert list(chunk.ids[: len(begin)]) == begin
        assert all(ids[position.at] == position.target for position in chunk.positions)
