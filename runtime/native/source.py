"""What an encoder-decoder has read and written: the tokens of a target, and the source that it is about.

The encoder reads a source once. Each layer of the decoder makes keys and values of its output, and these serve as long
as the source stays the same. Implements `runtime.evaluation.Cache`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from runtime.native.decode import TokenCache, threads
from runtime.native.model import NativeModel
from runtime.native.stopping import stoppable
from runtime.schedule import Schedule, after_source
from runtime.text import _


class SourceCache(TokenCache):
    """The evaluated tokens of a target. A prompt's last tokens begin the target, the others are the source."""

    def __init__(self, model: NativeModel) -> None:
        super().__init__(model)
        self._n_start = len(model.target_start)
        self._source: tuple[int, ...] | None = None  # what the encoder has read

    @property
    def longest_piece(self) -> int:
        """The longest source, and what begins the target: the encoder reads a source as a whole."""
        return self._model.context_length + self._n_start

    def keep_common(self, prompt: Sequence[int]) -> tuple[int, str]:
        """Empties the target; returns the length of the source if it need not be read again, else the reason."""
        source, known = tuple(prompt[: -self._n_start]), self._source
        if source == known:
            self.take_back(0)
            return len(source), ""
        self.clear()
        return 0, _("The source text is another one, so it was read.") if known is not None else ""

    def evaluate(self, ids: Sequence[int]) -> Iterator[int]:
        """Has the encoder read the source, at once, and reads the tokens that begin the target. Raises `Stopped`."""
        source, start = ids[: -self._n_start], ids[-self._n_start :]
        if source:
            self._encode(source)
            yield len(source)
        self._read_long(start)
        self._log.evaluate(start)
        self._encoded = None  # the layers hold what they made of it
        yield len(ids)

    def schedules(self, mark: int) -> tuple[Schedule, Schedule] | None:
        """Returns the schedules as of a source that is read once, together with what begins the target."""
        found = super().schedules(mark)
        return None if found is None or self._source is None else (after_source(self._source, found[0]), found[1])

    def shift(self, keep: int) -> int:
        """0: a target that does not fit cannot begin anew in its middle."""
        return 0

    def clear(self) -> None:
        super().clear()
        self._source = self._encoded = None

    def _encode(self, source: Sequence[int]) -> None:
        model = self._model
        given = torch.tensor([source], device=self._kv.device)
        with torch.inference_mode(), stoppable(model.transformer, self._stop), \
                threads(model.prompt_threads, model.threads):  # fmt: skip
            self._encoded = model.transformer.encode(given)
        self._source = tuple(source)
