"""The llama.cpp engine: answers requests with a GGUF model. Joins model, cache, prompt and sampler."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import chat_formats, devices, draft_file, gguf_header, lora_files, memory, runnable
from runtime.engine import SAMPLING_DEFAULTS, LoadListener, StopFlag
from runtime.llama import library as llama_library
from runtime.llama import state
from runtime.llama.answer_text import AnswerText
from runtime.llama.answers import KnownAnswers
from runtime.llama.cache import Stopped, TokenCache
from runtime.llama.logits import check_score, check_scores
from runtime.llama.model import LlamaModel, mappable
from runtime.llama.prompt import Prompt, PromptBuilder
from runtime.llama.sampler import SamplerChain
from runtime.llama.source import SourceCache, SourcePrompts
from runtime.llama.speculation import Steps, steps_for
from runtime.logits import InvalidNumbers
from runtime.messages import Message
from runtime.model_errors import clean_name
from runtime.model_hash import ModelHashes
from runtime.params import LoadParams, SamplingParams
from runtime.places import shown_path, spelled_path
from runtime.protocol import (
    ContextTrimmed,
    EngineInfo,
    Finished,
    FinishReason,
    GenerationEvent,
    GenerationRequest,
    PromptProgress,
    ReplayEvent,
    StateLoaded,
    StateSaved,
    Usage,
)
from runtime.reading import Embedded, EmbedRequest, ReadingStopped, ReadProgress, Scored
from runtime.reasoning import joined
from runtime.receipt import Receipt, ReplayRefused, deciding
from runtime.seed import used_seed
from runtime.settings import changed
from runtime.source_errors import NoScoreWithoutSource
from runtime.text import _

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from runtime.gguf_header import GgufHeader
    from runtime.llama.constraint import Constraint, Constraints
    from runtime.llama.draft import ModelDrafter


class LlamaEngine:
    """One GGUF model in llama.cpp. Implements `runtime.engine.Engine`."""

    def __init__(
        self,
        path: Path,
        params: LoadParams,
        *,
        listener: LoadListener | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        started = time.monotonic()
        header = gguf_header.read_header(path)  # refuses what would hurt native code
        runnable.require_runnable(header)
        self._header = header
        adapters = lora_files.read_adapters(params.lora, header)
        draft = draft_file.draft_header(params)
        context_length = params.context_length or memory.default_context(
            header, memory.free_memory(), params, draft=draft
        )
        context_length, clamped = _within_table(header, context_length)
        share = header.tensor_bytes / (header.tensor_bytes + draft.tensor_bytes) if draft is not None else 1.0
        params, notes = mappable(params, header.alignment)
        threads = params.threads or devices.usable_cores()
        self._model = LlamaModel(
            header.path,  # the first file of a split set, whichever part was picked
            params,
            context_length=context_length,
            threads=threads,
            adapters=adapters,
            listener=_part_of(listener, 0.0, share),
            stop=stop,
        )
        self._draft: ModelDrafter | None = None
        try:
            if draft is not None and not self._model.remembers_states and not self._model.reads_source:
                self._draft = _load_draft(
                    self._model, draft, params, threads=threads,
                    listener=_part_of(listener, share, 1 - share), stop=stop,
                )  # fmt: skip
        except BaseException:
            self._model.close()
            raise
        self._cache = SourceCache(self._model) if self._model.reads_source else TokenCache(self._model)
        self._steps = steps_for(self._model, self._cache, params, self._draft)
        self._known = KnownAnswers()
        self._prompts = (
            SourcePrompts(self._model) if self._model.reads_source else PromptBuilder(self._model, self._known)
        )
        self._constraints: Constraints | None = None
        self._model.notes.extend([*clamped, *notes])
        self._info = _info_of(
            self._model, self._draft, speculates=self._steps.speculates, threads=threads,
            load_seconds=time.monotonic() - started,
        )  # fmt: skip
        self._deciding = deciding(
            self._model.params.replace(context_length=self._model.context_length, threads=threads)
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        self._model.watch(stop)
        if self._draft is not None:
            self._draft.watch(stop)
        prompt = self._prompts.build(request)
        if prompt.dropped:
            yield ContextTrimmed(id=0, dropped=prompt.dropped)
        answer = _Answer(
            self._model, self._cache, self._steps, request, prompt, stop, constrain=self._constrain(request, prompt),
            receipt=self._receipt(request, prompt) if request.receipt else None,
        )  # fmt: skip
        try:
            yield from answer.events()
            self._remember(answer, request)
        except InvalidNumbers:
            self._cache.clear()  # what led to them may lie in it
            raise
        finally:
            answer.close()

    def _remember(self, answer: _Answer, request: GenerationRequest) -> None:
        """Keeps the ids of an answer in a conversation, for when it is continued or read again."""
        if request.messages and (answer.continued or not request.continue_last):
            for known in answer.text.answers():
                self._known.remember(known)

    def _constrain(self, request: GenerationRequest, prompt: Prompt) -> Callable[[], Constraint] | None:
        """Returns what makes the answer's constraint; None for an answer that is free."""
        return self._constraint(request, _written(request), prompt.continued)

    def _constraint(
        self, request: GenerationRequest, written: str, ids: tuple[int, ...]
    ) -> Callable[[], Constraint] | None:
        if not request.sampling.grammar and not request.sampling.json_schema:
            return None
        if self._constraints is None:
            from runtime.llama.constraint import Constraints  # brings numpy, which other answers do without

            self._constraints = Constraints(self._model.library, self._model.vocabulary)
        return partial(self._constraints.make, request.sampling, written=written, ids=ids)

    def _receipt(self, request: GenerationRequest, prompt: Prompt) -> Callable[..., Receipt]:
        """Returns what makes the answer's receipt from what is known at its end."""
        template = prompt.template.encode("utf-8", "replace")
        return partial(
            Receipt,
            model_path=self._info.path, model_name=self._info.name,
            model_sha256=ModelHashes().known(self._model.path),
            engine=self._info.engine, build=self._info.build,
            template_sha256=hashlib.sha256(template).hexdigest() if template else "",
            load=self._deciding, sampling=changed(request.sampling),
            continued=prompt.continued, written=_written(request), named=prompt.named,
            ignore_end=request.ignore_end, alternatives=request.alternatives,
        )  # fmt: skip

    def replay(self, receipt: Receipt, stop: StopFlag, *, anyway: bool = False) -> Iterator[ReplayEvent]:
        from runtime.llama.replay import Replay

        self._model.watch(stop)
        receipt.check(n_vocab=self._model.vocabulary.size, context_length=self._model.context_length)
        if not anyway:
            self._require_same(receipt, stop)
        request = GenerationRequest(sampling=receipt.sampling_params)
        sampler = SamplerChain(
            self._model.library, self._model.vocabulary, request.sampling, seed=receipt.seed,
            context_length=receipt.load_params.context_length or self._model.context_length,
            constrain=self._constraint(request, receipt.written, receipt.continued), alternatives=receipt.alternatives,
        )  # fmt: skip
        try:
            yield from Replay(self._model, self._cache, receipt, sampler).events()
        except Stopped as error:
            raise ReadingStopped from error
        except InvalidNumbers:
            self._cache.clear()
            raise
        finally:
            sampler.close()

    def _require_same(self, receipt: Receipt, stop: StopFlag) -> None:
        """Raises `ReplayRefused` where the model, the build or a setting of loading is another than it was."""
        if receipt.build != self._info.build:
            raise ReplayRefused("build", then=receipt.build, now=self._info.build)
        then = deciding(receipt.load_params)
        differing = sorted(name for name in then.keys() | self._deciding if then.get(name) != self._deciding.get(name))
        if differing:
            raise ReplayRefused("load", names=", ".join(differing))
        if not receipt.model_sha256:
            raise ReplayRefused("unidentified")
        if receipt.model_sha256 != ModelHashes().of(self._model.path, stop=stop):
            raise ReplayRefused("model")

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return self._model.vocabulary.tokenize(text, special=special)

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._model.vocabulary.label(token) for token in ids]

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        return self._prompts.count(messages, sampling)

    def score(self, text: str, stop: StopFlag) -> Iterator[ReadProgress | Scored]:
        from runtime.llama import scoring  # brings numpy, which answers do without

        self._require_no_source()
        self._model.watch(stop)
        try:
            yield from scoring.score(self._model, text)
        finally:
            self._cache.clear()  # scoring used the context; the next answer reads its prompt anew

    def _require_no_source(self) -> None:
        """Raises `NoScoreWithoutSource` for an encoder-decoder; llama.cpp would end the process."""
        if self._model.reads_source:
            raise NoScoreWithoutSource

    def begin_marks(self) -> list[int]:
        return self._model.vocabulary.tokenize("", add_bos=True)

    def logits(self, ids: Sequence[int], stop: StopFlag, *, first: int, at_most: int) -> Iterator[NDArray[np.float32]]:
        from runtime.llama import scoring

        self._require_no_source()
        self._model.watch(stop)
        try:
            for _read, rows in scoring.Reader(self._model).rows(ids, first, at_most=at_most):
                if len(rows):
                    yield rows
        finally:
            self._cache.clear()

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        from runtime.llama import embedding

        runnable.require_vectors(self._header)
        return embedding.embed(self._model, request, stop, limit=self._model.context_length)

    def save_state(self, path: Path) -> StateSaved:
        if not len(self._cache) or self._model.reads_source:  # what an encoder has read lies in no state
            return StateSaved(id=0, tokens=0)
        tokens, size = state.save(path, self._model, self._cache, self._known)
        return StateSaved(id=0, tokens=tokens, size_bytes=size)

    def load_state(self, path: Path) -> StateLoaded:
        if self._model.reads_source:
            return StateLoaded(id=0, tokens=0, note=_("A model that reads a source keeps no state of it."))
        try:
            answers = state.load(path, self._model, self._cache)
        except state.StateRefused as refusal:
            return StateLoaded(id=0, tokens=0, note=str(refusal))
        for answer in answers:
            self._known.remember(answer)
        return StateLoaded(id=0, tokens=len(self._cache))

    def close(self) -> None:
        self._prompts.close()
        if self._draft is not None:
            self._draft.close()
        self._model.close()


class _Answer:
    """One answer on its way: reads the prompt, then draws tokens until something ends it."""

    def __init__(
        self, model: LlamaModel, cache: TokenCache, steps: Steps, request: GenerationRequest, prompt: Prompt,
        stop: StopFlag, *, constrain: Callable[[], Constraint] | None, receipt: Callable[..., Receipt] | None,
    ) -> None:  # fmt: skip
        self._model = model
        self._cache = cache
        self._steps = steps
        self._prompt = prompt
        self._stop = stop
        self._params = request.sampling
        self._make_receipt = receipt
        self._begun: int | None = None  # what had been done with the cache when the first token was drawn
        ignores_end = request.ignore_end and constrain is None  # nothing can follow the end of a grammar
        self._ends_answer = (lambda token: False) if ignores_end else model.vocabulary.ends_answer
        self._seed = used_seed(request.sampling)
        # An answer that is held to a form cannot think first.
        spoken = prompt if constrain is None else replace(prompt, families=(), inside=None, named=())
        self.text = AnswerText(model.vocabulary, spoken, stop=request.sampling.stop, before=_written(request))
        self._sampler = SamplerChain(
            model.library, model.vocabulary, request.sampling, seed=self._seed, context_length=model.context_length,
            constrain=constrain, alternatives=request.alternatives,
        )  # fmt: skip
        self._cached = self._shifted = 0
        self._stuck = False
        self._reuse_note = ""
        self._started = self._read_at = self._ended = time.perf_counter()

    def events(self) -> Iterator[GenerationEvent]:
        try:
            yield from self._read_prompt()
            self._steps.begin()
            self._sampler.remember(self._prompt.ids[self._prompt.source :])
            reason = yield from self._write()
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
    def continued(self) -> tuple[int, ...]:
        """The ids with which an answer that is continued began, where they are known."""
        return self._prompt.continued

    def close(self) -> None:
        self._steps.end()
        self._sampler.close()

    def _read_prompt(self) -> Iterator[GenerationEvent]:
        ids = self._prompt.ids
        self._cached, self._reuse_note = self._cache.keep_common(ids)
        yield PromptProgress(id=0, done=self._cached, total=len(ids), cached=self._cached)
        self._started = self._read_at = time.perf_counter()
        for done in self._cache.evaluate(ids[self._cached :]):
            self._read_at = time.perf_counter()
            yield PromptProgress(id=0, done=self._cached + done, total=len(ids), cached=self._cached)

    def _write(self) -> Generator[GenerationEvent, None, FinishReason]:
        """Yields text; returns why the answer ended."""
        vocabulary, context, limit = self._model.vocabulary, self._model.context, self._limit()
        self._begun = self._cache.mark()
        check_scores(self._scores(), vocabulary.size)
        while not self._stop.is_set():
            token = self._sampler.sample(context, self._steps.row)
            if token is None:
                return FinishReason.GRAMMAR
            check_score(self._scores(), token)
            if self._sampler.drawn is not None:
                yield self._sampler.drawn
            if self._ends_answer(token):
                return FinishReason.END
            yield from self.text.add(token)
            if self.text.stop_text:
                return FinishReason.STOP_TEXT
            if self.text.generated >= limit:
                return FinishReason.LENGTH
            if self._steps.length >= self._model.context_length and not self._make_room():
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

    def _scores(self) -> Any:
        return self._model.library.llama_get_logits_ith(self._model.context, self._steps.row)

    def _limit(self) -> float:
        return self._params.max_tokens if self._params.max_tokens > 0 else float("inf")

    def _finished(self, reason: FinishReason) -> Finished:
        evaluated = max(len(self._prompt.ids) - self._cached, 0)
        usage = Usage(
            prompt_tokens=len(self._prompt.ids),
            cached_tokens=self._cached,
            evaluated_tokens=evaluated,
            generated_tokens=self.text.generated,
            reasoning_tokens=self.text.reasoning_tokens,
            prompt_seconds=self._read_at - self._started,
            generation_seconds=max(self._ended - self._read_at, 0.0),
            context_used=len(self._cache),
            context_length=self._model.context_length,
            reuse_note=self._reuse_note,
            drafted_tokens=self._steps.drafted,
            accepted_tokens=self._steps.accepted,
        )
        return Finished(
            id=0, reason=reason, usage=usage, seed=self._seed, stop_text=self.text.stop_text,
            notes=tuple(self._notes()), receipt=self._receipt(reason),
        )  # fmt: skip

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


def _written(request: GenerationRequest) -> str:
    """Returns the text of the answer that is continued."""
    return joined(request.messages[-1]) if request.continue_last and request.messages else ""


def _part_of(listener: LoadListener | None, start: float, share: float) -> LoadListener | None:
    """Returns a listener for one of two loads, which together are shown as one."""
    return None if listener is None else lambda fraction: listener(start + share * fraction)


def _load_draft(
    model: LlamaModel, header: GgufHeader, params: LoadParams, *, threads: int,
    listener: LoadListener | None, stop: StopFlag | None,
) -> ModelDrafter | None:  # fmt: skip
    from runtime.llama.draft import load_drafter  # brings numpy, which answers do without

    return load_drafter(model, header, params, threads=threads, listener=listener, stop=stop)


def _within_table(header: GgufHeader, context_length: int) -> tuple[int, list[str]]:
    """Returns a context length that a table of positions allows, and a note where it is shorter than was asked for."""
    most = header.n_positions
    if not most or context_length <= most:
        return context_length, []
    note = _("This model has a table of {most} positions, so its context has {most} tokens instead of {n}.")
    return most, [note.format(most=f"{most:,}", n=f"{context_length:,}")]


def _info_of(
    model: LlamaModel, draft: ModelDrafter | None, *, speculates: bool, threads: int, load_seconds: float
) -> EngineInfo:
    return EngineInfo(
        engine="llama",
        build=llama_library.build_description(),
        path=spelled_path(model.path),
        name=clean_name(model.metadata("general.name")) or clean_name(shown_path(Path(model.path.stem))),
        architecture=model.architecture,
        description=model.description,
        size_bytes=model.size_bytes,
        n_params=model.n_params,
        n_vocab=model.vocabulary.size,
        context_length=model.context_length,
        trained_context=model.trained_context,
        kv_type_k=model.params.kv_type_k,
        kv_type_v=model.params.kv_type_v,
        flash_attention=model.flash_attention,
        threads=threads,
        devices=llama_library.device_names(),
        has_template=bool(model.template_names()),
        adapters=model.adapters.words,
        reads_source=model.reads_source,
        templates=tuple(map(clean_name, model.template_names())),
        template_guess="" if model.template_names() else chat_formats.guess(model.vocabulary.is_token),
        memory_bytes=model.memory_bytes + (draft.memory_bytes if draft is not None else 0),
        load_seconds=load_seconds,
        speculation=model.params.speculation if speculates else "off",
        draft_path=spelled_path(draft.path) if draft is not None else "",
        notes=tuple(model.notes),
    )
