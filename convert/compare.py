"""Compares two models on a text, piece by piece: what a quantization cost. Knows engines only by their protocol.

The text is read in chunks of 512 tokens, each from an empty memory, and scored in its second half, where every token
has at least 255 before it: as llama.cpp's perplexity tool does, so that the figures can be held against its.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from convert.quality import Comparison, Position, Quality, Worst, WorstPosition
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.protocol import EngineInfo
from runtime.reading import ReadProgress
from runtime.text import _, ngettext

CHUNK = 512  # tokens
_LEAST = 8  # tokens that a text must have
_ROWS = 256  # logits of so many positions are held at once, of each model
Logits = NDArray[np.float32]  # (n, V)
_NO_TEXT = "\ufffd"
_SHOWN_BEFORE = 16  # tokens of the text before one of the worst positions


class TextTooShort(UserError):
    """A text with too few tokens to compare on."""

    code = "text_too_short"

    def __init__(self, tokens: int) -> None:
        super().__init__(
            ngettext(
                "The text has {n} token, too few to compare models on.",
                "The text has {n} tokens, too few to compare models on.", tokens,
            ).format(n=tokens),
            "",
            _("Use a longer text; a few thousand tokens give steady figures."),
        )


class DifferentVocabularies(UserError):
    """Two models whose predictions cannot be held against each other."""

    code = "different_vocabularies"

    def __init__(self, reference: EngineInfo, candidate: EngineInfo, reason: str) -> None:
        super().__init__(
            _("“{reference}” and “{candidate}” cannot be compared.").format(
                reference=reference.name, candidate=candidate.name
            ),
            reason,
            _("Compare two files of the same model."),
        )


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two models."""

    name: str
    path: str
    engine: str
    size_bytes: int
    bits_per_weight: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What `quern compare` prints as JSON, but for the speeds."""

    reference: Side
    candidate: Side
    chunks: int
    quality: Quality


class Chunk(NamedTuple):
    """A stretch of the text: its ids, the place of the first in the whole text, and the first position scored."""

    ids: Sequence[int]
    start: int
    first: int

    @property
    def positions(self) -> list[Position]:
        """The tokens foretold by the logits from `first` on."""
        return [Position(self.start + at, self.ids[at]) for at in range(self.first + 1, len(self.ids))]


def chunks_of(ids: Sequence[int], begin: Sequence[int]) -> list[Chunk]:
    """Returns the whole chunks of a text; of a shorter text one. A begin mark takes the place of a chunk's first id."""
    marked = [*begin, *ids]
    size = min(CHUNK, len(marked))
    found = []
    for start in range(0, len(marked) - size + 1, size):
        piece = [*begin, *marked[start + len(begin) : start + size]]
        found.append(Chunk(piece, start - len(begin), size // 2))
    return found


def compare(
    reference: Engine, candidate: Engine, text: str, stop: StopFlag
) -> Iterator[ReadProgress | Compared]:
    """Yields progress, and `Compared` last. Raises `UserError`: `TextTooShort`, `DifferentVocabularies` and what the
    engines raise.
    """
    ids = _common_ids(reference, candidate, text)
    chunks = chunks_of(ids, reference.begin_marks())
    gathered = Comparison()
    total = sum(len(chunk.ids) for chunk in chunks)
    yield ReadProgress(done=0, total=total)
    for number, chunk in enumerate(chunks, 1):
        _compare_chunk(reference, candidate, chunk, gathered, stop)
        yield ReadProgress(done=number * len(chunk.ids), total=total)
    worst = tuple(_shown(one, ids, reference) for one in gathered.worst)
    yield Compared(
        reference=_side(reference.info), candidate=_side(candidate.info), chunks=len(chunks),
        quality=msgspec.structs.replace(gathered.quality(), worst=worst),
    )  # fmt: skip


def _common_ids(reference: Engine, candidate: Engine, text: str) -> list[int]:
    ours, theirs = reference.info, candidate.info
    if ours.n_vocab != theirs.n_vocab:
        reason = _("Their vocabularies have {ours} and {theirs} tokens.")
        raise DifferentVocabularies(ours, theirs, reason.format(ours=f"{ours.n_vocab:,}", theirs=f"{theirs.n_vocab:,}"))
    ids = reference.tokenize(text)
    if ids != candidate.tokenize(text) or reference.begin_marks() != candidate.begin_marks():
        raise DifferentVocabularies(ours, theirs, _("They cut the text into different tokens."))
    if len(ids) < _LEAST:
        raise TextTooShort(len(ids))
    return ids


def _compare_chunk(
    reference: Engine, candidate: Engine, chunk: Chunk, gathered: Comparison, stop: StopFlag
) -> None:
    positions, done = chunk.positions, 0
    # the last id is only foretold; it is read all the same, since quantized models answer otherwise in other pieces
    pieces = (engine.logits(chunk.ids, stop, first=chunk.first, at_most=_ROWS) for engine in (reference, candidate))
    for ours, theirs in _aligned(*pieces):
        here = positions[done : done + len(ours)]
        if here:
            gathered.add(ours[: len(here)], theirs[: len(here)], here)
        done += len(here)


def _aligned(reference: Iterator[Logits], candidate: Iterator[Logits]) -> Iterator[tuple[Logits, Logits]]:
    """Yields the rows of both engines for the same positions; each engine makes pieces of its own size."""
    ours: Logits | None = next(reference, None)
    theirs: Logits | None = next(candidate, None)
    while ours is not None and theirs is not None:
        common = min(len(ours), len(theirs))
        yield ours[:common], theirs[:common]
        ours = ours[common:] if common < len(ours) else next(reference, None)
        theirs = theirs[common:] if common < len(theirs) else next(candidate, None)
    assert ours is theirs is None, "both engines score every position"


def _shown(worst: Worst, ids: Sequence[int], engine: Engine) -> WorstPosition:
    at = worst.position.at
    # cut anywhere, a text begins and ends inside of characters, of which nothing is shown
    before = engine.decode(ids[max(at - _SHOWN_BEFORE, 0) : at], special=True).decode("utf-8", "ignore")
    token, reference, candidate = (
        _spelled(engine, id) for id in (worst.position.target, worst.reference, worst.candidate)
    )
    return WorstPosition(
        position=at, kl=worst.kl, before=before, token=token, reference=reference, candidate=candidate
    )


def _spelled(engine: Engine, id: int) -> str:
    """Returns a token's text; that of a part of a character byte by byte, as vocabularies spell them."""
    (text,) = engine.pieces([id])
    if _NO_TEXT not in text:
        return text
    return "".join(f"<0x{byte:02X}>" for byte in engine.decode([id], special=True))


def _side(info: EngineInfo) -> Side:
    return Side(
        name=info.name, path=info.path, engine=info.engine, size_bytes=info.size_bytes,
        bits_per_weight=8 * info.size_bytes / max(info.n_params, 1),
    )  # fmt: skip
