"""An answer by beam search: found as a whole, and then handed out token by token as if it were drawn.

Implements `runtime.evaluation.Draw` and `runtime.speculation.Steps`: the answer around them is any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import torch
from torch import Tensor

from runtime.beams import BeamParams, BeamsAreFree
from runtime.engine import StopFlag
from runtime.evaluation import LAST, Stopped
from runtime.logits import require_numbers
from runtime.native.beam_search import Hypothesis, beam_search
from runtime.native.decode import TokenCache
from runtime.native.model import NativeModel
from runtime.prompt import Prompt
from runtime.protocol import GenerationRequest, TokenDrawn


class BeamAnswer:
    """One answer's draw and steps, and the texts side by side that the search reads (`beam_search.Beams`).

    The cache holds the prompt before and after the search.
    """

    speculates = False
    row = LAST
    drafted = accepted = 0
    drawn: TokenDrawn | None = None

    def __init__(
        self, cache: TokenCache, params: BeamParams, *, ends_answer: Callable[[int], bool], size: int, given: int,
        suppressed: Sequence[int], stop: StopFlag,
    ) -> None:  # fmt: skip
        """`size` is the vocabulary's, `given` how many tokens of the text stand in the prompt; see `beam_search`."""
        self._cache = cache
        self._params = params
        self._ends = [token for token in range(size) if ends_answer(token)]
        self._given = given
        self._suppressed = torch.tensor(suppressed, dtype=torch.long)
        self._stop = stop
        self._found: list[int] | None = None
        self._handed_out = 0

    # --- the draw -----------------------------------------------------------------------------------------------

    def remember(self, ids: Sequence[int]) -> None:
        """Nothing is drawn, so nothing is penalized."""

    def check(self) -> None:
        require_numbers(self._cache.scores())

    def draw(self, row: int = LAST) -> int | None:
        """Returns the next token of the best text. Raises `Stopped` where the search was stopped."""
        if self._found is None:
            self._found = list(self.search().ids)
            if self._stop.is_set():
                raise Stopped
        at = self._handed_out
        return self._found[at] if at < len(self._found) else None

    def close(self) -> None:
        """Frees nothing."""

    def search(self) -> Hypothesis:
        """Returns the best text that follows what is in the cache."""
        length = len(self._cache)
        first = torch.from_numpy(self._cache.scores())
        try:
            best = beam_search(
                self._allowed(first), self, params=self._params, ends=self._ends, given=self._given, stop=self._stop
            )
        finally:
            self._cache.leave_beams(length)
        return best[0]

    def _allowed(self, logits: Tensor) -> Tensor:
        return logits.index_fill(-1, self._suppressed, -torch.inf)

    # --- several texts side by side -----------------------------------------------------------------------------

    def reorder(self, rows: Tensor) -> None:
        self._cache.kv.reorder(rows)

    def step(self, ids: Tensor) -> Tensor:
        return self._allowed(self._cache.step(ids))

    # --- the steps ----------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        return len(self._cache) + self._handed_out

    def begin(self) -> None:
        pass

    def append(self, token: int, *, wanted: float) -> None:
        self._handed_out += 1

    def shift(self, keep: int) -> int:
        return 0

    def end(self) -> None:
        pass


def answer_of(
    request: GenerationRequest, prompt: Prompt, model: NativeModel, cache: TokenCache, stop: StopFlag
) -> BeamAnswer:
    """Returns the draw and steps of a request for a beam search. Raises `BeamsAreFree` where it is to be held."""
    sampling = request.sampling
    held = {"grammar": sampling.grammar, "json_schema": sampling.json_schema, "alternatives": request.alternatives,
            "logit_bias": sampling.logit_bias}  # fmt: skip
    for name, value in held.items():
        if value:
            raise BeamsAreFree(name)
    read = len(prompt.ids) - prompt.source
    room = max(1, model.context_length - read + 1)  # the last token is not read any more
    most = min(room, sampling.max_tokens) if sampling.max_tokens > 0 else room
    ends = (lambda token: False) if request.ignore_end else model.vocabulary.ends_answer
    return BeamAnswer(
        cache, msgspec.structs.replace(request.beams, max_tokens=most), ends_answer=ends, size=model.vocabulary.size,
        given=len(model.target_start) - 1 if model.reads_source else 0, suppressed=model.vocabulary.suppressed,
        stop=stop,
    )  # fmt: skip
