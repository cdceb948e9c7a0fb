"""Makes an answer again from its receipt: leads an empty cache through the same steps, draws, and compares.

The answer is followed up to the first token that comes out otherwise: what follows would compare two different texts.
Knows no conversation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from runtime.answer_text import Speller
from runtime.conditions import Conditions, differing
from runtime.engine import StopFlag
from runtime.evaluation import LAST, Cache, Draw
from runtime.model_hash import ModelHashes
from runtime.protocol import Difference, EngineInfo, FinishReason, PromptProgress, Replayed, ReplayEvent
from runtime.receipt import BadReceipt, Receipt, ReplayRefused, deciding
from runtime.schedule import Operation
from runtime.stop import StopMatcher
from runtime.stream import StreamDecoder

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

_ENDED = -1  # in place of a token: the answer ended here


def require_same(
    receipt: Receipt, info: EngineInfo, conditions: Conditions, *, stop: StopFlag
) -> None:
    """Raises `ReplayRefused` where the model, an adapter, the build or a setting of loading is another than it was.

    Raises `HashingStopped` too.
    """
    if receipt.build != info.build:
        raise ReplayRefused("build", then=receipt.build, now=info.build)
    names = differing(deciding(receipt.load_params), conditions.settings)
    if names:
        raise ReplayRefused("load", names=", ".join(names))
    if receipt.adapters_sha256 != conditions.adapters:
        raise ReplayRefused("adapter" if receipt.adapters_sha256 else "unidentified_adapters")
    if not receipt.model_sha256:
        raise ReplayRefused("unidentified")
    if not conditions.still_there or receipt.model_sha256 != ModelHashes().of(conditions.model, stop=stop):
        raise ReplayRefused("model")


class Replay:
    """One answer that is made again. The cache then holds it."""

    def __init__(
        self, receipt: Receipt, vocabulary: Tokenizer, cache: Cache, draw: Draw
    ) -> None:
        """`receipt` has been checked; `draw` is fresh, made with its parameters and seed."""
        self._receipt, self._vocabulary, self._cache, self._source = receipt, vocabulary, cache, draw
        ends = receipt.reason == FinishReason.END, receipt.reason == FinishReason.GRAMMAR
        self._expected = [*receipt.ids, *([_ENDED] if any(ends) else [])]
        self._drawn: list[int] = []

    def events(self) -> Iterator[ReplayEvent]:
        """Yields progress and last `Replayed`. Raises `Stopped`, `InvalidNumbers`, `BadReceipt`, and what evaluates."""
        self._require_known_pieces()
        self._cache.clear()
        yield from self._read()
        self._source.remember(self._cache.ids)
        self._source.check()
        self._write()
        yield self._result()

    def _require_known_pieces(self) -> None:
        """Raises `BadReceipt` where a piece is longer than this context evaluates at once."""
        operations = chain(self._receipt.prompt.operations(), self._receipt.answer.operations())
        if any(len(operation.ids) > self._cache.longest_piece for operation in operations):
            raise BadReceipt("context")

    def _read(self) -> Iterator[PromptProgress]:
        total, done = len(self._receipt.prompt.ids), 0
        for operation in self._receipt.prompt.operations():
            self._carry_out(operation)
            done += len(operation.ids)
            if operation.ids:
                yield PromptProgress(id=0, done=done, total=total)

    def _carry_out(self, operation: Operation) -> None:
        match operation.kind:
            case "read":
                for _done in self._cache.evaluate(operation.ids):
                    pass
            case "draft":
                self._cache.append_draft(operation.ids)
            case "cut":
                went = self._cache.take_back(operation.keep)
                if not went:
                    raise BadReceipt("steps")
            case "shift":
                if self._cache.shift(operation.keep) != operation.taken:
                    raise BadReceipt("steps")

    def _write(self) -> None:
        """Draws until all is drawn or something comes out otherwise."""
        draws = self._draws()
        row = next(draws)
        while len(self._drawn) < len(self._expected):
            token = self._draw(row)
            self._drawn.append(token)
            if token != self._expected[len(self._drawn) - 1] or token == _ENDED:
                return
            if len(self._drawn) < len(self._expected):
                row = draws.send(token)

    def _draw(self, row: int) -> int:
        token = self._source.draw(row)
        ends = token is None or (not self._receipt.ignore_end and self._vocabulary.ends_answer(token))
        return _ENDED if ends or token is None else token

    def _draws(self) -> Generator[int, int, None]:
        """Yields the row of the scores from which the next token is drawn; is sent that token."""
        token = yield LAST
        for operation in self._receipt.answer.operations():
            if not operation.ids:
                self._carry_out(operation)
                continue
            if operation.ids[0] != token:
                raise BadReceipt("answer")
            self._carry_out(operation)
            if operation.kind == "read":
                token = yield LAST
                continue
            for row, guess in enumerate((*operation.ids[1:], None)):
                token = yield row
                if token != guess:
                    break
        raise BadReceipt("answer")

    # --- comparing ----------------------------------------------------------------------------------------------

    def _result(self) -> Replayed:
        common = next((at for at, pair in enumerate(zip(self._drawn, self._expected, strict=False))
                       if pair[0] != pair[1]), min(len(self._drawn), len(self._expected)))  # fmt: skip
        text = self._text([token for token in self._drawn if token != _ENDED])
        difference = None
        if common < len(self._expected):
            difference = self._difference(common, self._text(self._drawn[:common]))
        elif text != self._receipt.text:
            difference = self._text_difference(text)
        tokens = min(common, len(self._receipt.ids))  # the end is compared, but is no part of the answer
        return Replayed(id=0, text=text, tokens=tokens, difference=difference)

    def _difference(self, common: int, before: str) -> Difference:
        return Difference(
            tokens=common, character=len(before),
            expected=self._label(self._expected[common]), found=self._label(self._drawn[common]),
        )  # fmt: skip

    def _text_difference(self, text: str) -> Difference:
        """Returns where the text that the receipt claims departs from that of its own tokens."""
        claimed = self._receipt.text
        at = next((at for at, pair in enumerate(zip(text, claimed, strict=False)) if pair[0] != pair[1]),
                  min(len(text), len(claimed)))  # fmt: skip
        return Difference(
            tokens=len(self._receipt.ids), character=at, expected=claimed[at : at + 40], found=text[at : at + 40]
        )

    def _label(self, token: int) -> str:
        return "" if token == _ENDED else self._vocabulary.label(token)

    def _text(self, ids: list[int]) -> str:
        """Returns what these tokens show, as the answer showed them."""
        piece = Speller(self._vocabulary, self._receipt.named).spell
        decoder, matcher = StreamDecoder(), StopMatcher(self._receipt.sampling_params.stop)
        decoder.feed(b"".join(map(piece, self._receipt.continued)))
        text = ""
        for token in ids:
            shown, stopped = matcher.feed(decoder.feed(piece(token)))
            text += shown
            if stopped is not None:
                return text
        shown, stopped = matcher.feed(decoder.finish())
        return text + shown + ("" if stopped is not None else matcher.finish())
