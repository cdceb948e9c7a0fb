"""Measures what a quantization cost, in a process of its own: both files through llama.cpp on the same text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

import resources
from convert.card import Card
from convert.compare import Compared, compare
from runtime import bench, engines
from runtime.engine import StopFlag
from runtime.gguf_header import split_parts
from runtime.params import LoadParams
from runtime.reading import ReadProgress

_CONTEXT = 512
_PROMPT, _ANSWER, _TIMES = 256, 32, 2  # tokens, and how often the speed is measured


class MeasureRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Two GGUF files, and the text to compare them on; a text of our own where that is None.

    `name` is what the card calls the reference. Speeds are only measured where `speeds` says so.
    """

    reference: Path
    candidate: Path
    name: str
    text: Path | None = None
    threads: int = 0
    speeds: bool = True


class MeasureProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`done` of `total` tokens are compared."""

    done: int
    total: int


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The card."""

    card: Card


def measure(request: MeasureRequest) -> Iterator[MeasureProgress | Measured]:
    """Yields progress, and `Measured` last. Raises what loading and comparing raise."""
    params = LoadParams(context_length=_CONTEXT, threads=request.threads).validated()
    content = request.text.read_text("utf-8") if request.text else resources.read_text("evaluation", "text.txt")
    reference = engines.open_engine(request.reference, params)
    candidate = engines.open_engine(request.candidate, params)
    compared: Compared | None = None
    try:
        for event in compare(reference, candidate, content, StopFlag()):
            if isinstance(event, ReadProgress):
                yield MeasureProgress(done=event.done, total=event.total)
            else:
                compared = event
    finally:
        reference.close()
        candidate.close()
    assert compared is not None
    yield Measured(card=_card(request, compared, *_speeds(request)))


def _card(request: MeasureRequest, compared: Compared, reading: float, writing: float) -> Card:
    size = sum(part.stat().st_size for part in split_parts(request.candidate))
    return Card(
        reference=request.name, text=request.text.name if request.text else "quern", quality=compared.quality,
        size_bytes=size, bits_per_weight=round(compared.candidate.bits_per_weight, 4),
        prompt_tokens_per_second=reading, generation_tokens_per_second=writing,
    )  # fmt: skip


def _speeds(request: MeasureRequest) -> tuple[float, float]:
    if not request.speeds:
        return 0.0, 0.0
    params = LoadParams(context_length=_CONTEXT, threads=request.threads).validated()
    found = bench.run(request.candidate, params, prompt=_PROMPT, generate=_ANSWER, repetitions=_TIMES)
    return found.prompt_tokens_per_second.median, found.generation_tokens_per_second.median
