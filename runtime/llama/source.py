"""What models that read a source text whole and then write a target, such as T5, have read.

The encoder's output lies in the context, beside the cache of the target, and serves as long as the source stays the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.evaluation import Stopped
from runtime.llama import library as llama_library
from runtime.llama.batch import Batch
from runtime.llama.cache import EvaluationFailed, TokenCache
from runtime.llama.model import LlamaModel
from runtime.schedule import Schedule, after_source
from runtime.text import _

_ABORTED = 2  # llama_encode: the abort callback said stop


class SourceCache(TokenCache):
    """The evaluated tokens of a target, and the source that it is about."""

    def __init__(self, model: LlamaModel) -> None:
        super().__init__(model)
        self._source: tuple[int, ...] | None = None  # what the encoder has read

    @property
    def longest_piece(self) -> int:
        """The longest source, and the token that begins the target: the encoder reads a source as a whole."""
        return self._model.context_length + 1

    def keep_common(self, prompt: Sequence[int]) -> tuple[int, str]:
        """Empties the target's cache; returns the length of the source if it need not be read again, else the reason.

        The last token of the prompt begins the target, the others are the source.
        """
        self.clear()
        source, known = tuple(prompt[:-1]), self._source
        if source == known:
            return len(source), ""
        self._source = None
        return 0, _("The source text is another one, so it was read.") if known is not None else ""

    def evaluate(self, ids: Sequence[int]) -> Iterator[int]:
        """Has the encoder read the source, at once, and evaluates the token that begins the target.

        Raises `Stopped` and `EvaluationFailed`.
        """
        *source, start = ids
        if source:
            self._encode(source)
            yield len(source)
        self._decode((start,))
        yield len(ids)

    def schedules(self, mark: int) -> tuple[Schedule, Schedule] | None:
        """Returns the schedules as of a source that is read once, together with what begins the target."""
        found = super().schedules(mark)
        return None if found is None or self._source is None else (after_source(self._source, found[0]), found[1])

    def _encode(self, source: Sequence[int]) -> None:
        self.clear()  # llama.cpp takes positions from 0 only for an empty memory
        with Batch(self._library, len(source)) as batch:
            for position, token in enumerate(source):
                batch.add(token, position)
            status = batch.encode(self._model.context)
        if status == _ABORTED or self._model.stopped:
            raise Stopped
        if status != 0:
            raise EvaluationFailed(status, llama_library.log_tail())
        self._source = tuple(source)

    def _decode(self, piece: Sequence[int], *, draft: bool = False) -> None:
        if self._source is None:  # llama.cpp would end the process
            raise EvaluationFailed(-1, "no source was read")
        super()._decode(piece, draft=draft)
