"""One answer on its way: reads the prompt, then draws tokens until something ends it. The same for every engine.

Knows caches, steps and draws only by what `runtime.evaluation` and `runtime.speculation` say of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from runtime.answer_text import AnswerText
from runtime.conditions import Conditions
from runtime.evaluation import Cache, Draw, Stopped
from runtime.model_hash import ModelHashes
from runtime.prompt import Prompt
from runtime.protocol import (
    EngineInfo,
    Finished,
    FinishReason,
    GenerationEvent,
    GenerationRequest,
    PromptProgress,
    Usage,
)
from runtime.reasoning import joined
from runtime.receipt import Receipt
from runtime.seed import used_seed
from runtime.settings import changed
from runtime.speculation import Steps
from runtime.text import _

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer


class Answer:
    """One answer to a request whose prompt is built. `seed` is the one that `draw` was made with."""

    def __init__(
        self, request: GenerationRequest, prompt: Prompt, *, vocabulary: Tokenizer, context_length: int,
        cache: Cache, steps: Steps, draw: Draw, seed: int, is_held: bool, receipt: Callable[..., Receipt] | None,
    ) -> None:  # fmt: skip
        """`is_held` tells of an answer that has to follow a grammar or a schema.

        `receipt` makes its receipt from what is known at its end; None where nobody asked for one.
        """
        self._request = request
        self._prompt = prompt
        self._context_length = context_length
        self._cache = cache
        self._steps = steps
        self._draw = draw
        self._seed = seed
        self._params = request.sampling
        self._make_receipt = receipt
        self._begun: int | None = None  # what had been done with the cache when the first token was drawn
        ignores_end = request.ignore_end and not is_held  # nothing can follow the end of a grammar
        self._ends_answer = (lambda token: False) if ignores_end else vocabulary.ends_answer
        # An answer that is held to a form cannot think first.
        spoken = replace(prompt, families=(), inside=None, named=()) if is_held else prompt
        self.text = AnswerText(vocabulary, spoken, stop=request.sampling.stop, before=written(request))
        self._cached = self._shifted = 0
        self._stuck = False
        self._reuse_note = ""
        self._started = self._read_at = self._ended = time.perf_counter()

    def events(self, is_stopped: Callable[[], bool]) -> Iterator[GenerationEvent]:
        """Yields progress and text, and `Finished` last. Raises what cache and draw raise, after the text so far."""
        try:
            yield from self._read_prompt()
            self._steps.begin()
            self._draw.remember(self._prompt.ids[self._prompt.source :])
            reason = yield from self._write(is_stopped)
        except Stopped:
            reason = FinishReason.STOPPED
        except Exception:  # whatever it is: what was written before stays valid, to the last character
            yield from self.text.release()
            raise
        self._ended = time.perf_counter()
        self._steps.end()
        yield from self.text.release()
        yield self._finished(reason)

    @property
    def is_kept(self) -> bool:
        """Whether the answer's ids are worth remembering: all of it, in a conversation."""
        return bool(self._request.messages) and (bool(self._prompt.continued) or not self._request.continue_last)

    def close(self) -> None:
        """Leaves the cache with what was said, and frees the draw. May be called at any moment."""
        self._steps.end()
        self._draw.close()

    def _read_prompt(self) -> Iterator[GenerationEvent]:
        ids = self._prompt.ids
        self._cached, self._reuse_note = self._cache.keep_common(ids)
        yield PromptProgress(id=0, done=self._cached, total=len(ids), cached=self._cached)
        self._started = self._read_at = time.perf_counter()
        for done in self._cache.evaluate(ids[self._cached :]):
            self._read_at = time.perf_counter()
            yield PromptProgress(id=0, done=self._cached + done, total=len(ids), cached=self._cached)

    def _write(self, is_stopped: Callable[[], bool]) -> Generator[GenerationEvent, None, FinishReason]:
        """Yields text; returns why the answer ended."""
        limit = self._params.max_tokens if self._params.max_tokens > 0 else float("inf")
        self._begun = self._cache.mark()
        self._draw.check()
        while not is_stopped():
            token = self._draw.draw(self._steps.row)
            if token is None:
                return FinishReason.GRAMMAR
            if self._draw.drawn is not None:
                yield self._draw.drawn
            if self._ends_answer(token):
                return FinishReason.END
            yield from self.text.add(token)
            if self.text.stop_text:
                return FinishReason.STOP_TEXT
            if self.text.generated >= limit:
                return FinishReason.LENGTH
            if self._steps.length >= self._context_length and not self._make_room():
                return FinishReason.CONTEXT
            self._steps.append(token, wanted=limit - self.text.generated)
        return FinishReason.STOPPED

    def _make_room(self) -> bool:
        """Shifts the full context where that was chosen and can be done."""
        if self._params.context_policy != "shift":
            return False
        taken = self._steps.shift(self._prompt.keep)
        self._shifted += taken
        self._stuck = not taken
        return taken > 0

    def _notes(self) -> Iterator[str]:
        yield from self._prompt.notes
        if self._shifted:
            note = _("The context filled up while the answer was written, so its {n} oldest tokens were let go.")
            yield note.format(n=f"{self._shifted:,}")
        if self._stuck:
            yield _("The context could not roll on: this model, or its beginning that has to stay, leaves no way to.")

    def _finished(self, reason: FinishReason) -> Finished:
        return Finished(
            id=0, reason=reason, usage=self._usage(), seed=self._seed, stop_text=self.text.stop_text,
            notes=tuple(self._notes()), receipt=self._receipt(reason),
        )  # fmt: skip

    def _usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self._prompt.ids),
            cached_tokens=self._cached,
            evaluated_tokens=max(len(self._prompt.ids) - self._cached, 0),
            generated_tokens=self.text.generated,
            reasoning_tokens=self.text.reasoning_tokens,
            prompt_seconds=self._read_at - self._started,
            generation_seconds=max(self._ended - self._read_at, 0.0),
            context_used=len(self._cache),
            context_length=self._context_length,
            reuse_note=self._reuse_note,
            drafted_tokens=self._steps.drafted,
            accepted_tokens=self._steps.accepted,
        )

    def _receipt(self, reason: FinishReason) -> Receipt | None:
        if self._make_receipt is None or self._begun is None:
            return None
        schedules = self._cache.schedules(self._begun)
        if schedules is None:
            return None
        prompt, answer = schedules
        return self._make_receipt(
            seed=self._seed, prompt=prompt, answer=answer, ids=tuple(self.text.ids[len(self._prompt.continued) :]),
            text=self.text.raw, reason=reason.value, stop_text=self.text.stop_text,
        )  # fmt: skip


def stopped_unread(request: GenerationRequest) -> Finished:
    """Returns the end of an answer that was stopped before its prompt was even made."""
    return Finished(id=0, reason=FinishReason.STOPPED, usage=Usage(), seed=used_seed(request.sampling))


def written(request: GenerationRequest) -> str:
    """Returns the text of the answer that is continued."""
    return joined(request.messages[-1]) if request.continue_last and request.messages else ""


def receipt_of(
    request: GenerationRequest, prompt: Prompt, info: EngineInfo, conditions: Conditions
) -> Callable[..., Receipt]:
    """Returns what makes an answer's receipt from what is known at its end."""
    template = prompt.template.encode("utf-8", "replace")
    hashes = ModelHashes().known(conditions.model) if conditions.still_there else ()
    return partial(
        Receipt,
        model_path=info.path, model_name=info.name, model_sha256=hashes,
        adapters_sha256=conditions.adapters,
        engine=info.engine, build=info.build,
        template_sha256=hashlib.sha256(template).hexdigest() if template else "",
        load=conditions.settings, sampling=changed(request.sampling),
        continued=prompt.continued, written=written(request), named=prompt.named,
        ignore_end=request.ignore_end, alternatives=request.alternatives,
    )  # fmt: skip
