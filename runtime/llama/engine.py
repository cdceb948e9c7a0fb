"""The llama.cpp engine: answers requests with a GGUF model. Joins model, cache, prompt and sampler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import chat_formats, devices, draft_file, gguf_header, lora_files, memory, runnable
from runtime.answering import Answer, stopped_unread, written
from runtime.base_engine import BaseEngine
from runtime.beams import NoBeamSearch
from runtime.conditions import Conditions
from runtime.engine import LoadListener, StopFlag
from runtime.evaluation import Stopped
from runtime.known_answers import Answer as KnownAnswer
from runtime.known_answers import KnownAnswers
from runtime.llama import fitting, mapping, state
from runtime.llama import library as llama_library
from runtime.llama.cache import TokenCache
from runtime.llama.draw import ContextDraw
from runtime.llama.model import LlamaModel, LoadFailed, NoRoomForContext
from runtime.llama.placement import AUTO, cards_for
from runtime.llama.sampler import SamplerChain
from runtime.llama.source import SourceCache
from runtime.llama.steps import steps_for
from runtime.logits import InvalidNumbers
from runtime.model_errors import clean_name
from runtime.params import LoadParams
from runtime.places import shown_path, spelled_path
from runtime.prompt import Prompt, PromptBuilder
from runtime.protocol import (
    ContextTrimmed,
    EngineInfo,
    GenerationEvent,
    GenerationRequest,
    ReplayEvent,
)
from runtime.reading import Embedded, EmbedRequest, ReadingStopped, ReadProgress
from runtime.receipt import Receipt
from runtime.seed import used_seed
from runtime.source import SourcePrompts
from runtime.text import _

if TYPE_CHECKING:

    from runtime.gguf_header import GgufHeader
    from runtime.llama.constraint import Constraint, Constraints
    from runtime.llama.draft import ModelDrafter
    from runtime.scoring import Reader


class LlamaEngine(BaseEngine):
    """One GGUF model in llama.cpp. Implements `runtime.engine.Engine`."""

    _model: LlamaModel
    _prompts: PromptBuilder | SourcePrompts
    _cache: TokenCache

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
        params, notes = mapping.resolved(params, header, context_length, draft=draft)
        threads = params.threads or devices.usable_cores()
        load = partial(
            LlamaModel,
            header.path,  # the first file of a split set, whichever part was picked
            context_length=context_length,
            threads=threads,
            adapters=adapters,
            listener=_part_of(listener, 0.0, share),
            stop=stop,
        )
        llama_library.load_library_for(params)
        fitted, fit_notes = fitting.fitted(params, header, context_length)
        self._model, params, card_notes = _with_or_without_cards(load, fitted)
        notes += [*fit_notes, *card_notes]
        self._draft: ModelDrafter | None = None
        try:
            made = self._model.params.replace(context_length=self._model.context_length, threads=threads)
            self._conditions = Conditions.of(self._model.path, made, stamps=self._model.stamps, stop=stop)
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
            _source_prompts(self._model) if self._model.reads_source else _prompts_of(self._model, self._known)
        )
        self._constraints: Constraints | None = None
        self._model.notes.extend([*clamped, *notes])
        self._info = _info_of(
            self._model, self._draft, speculates=self._steps.speculates, threads=threads,
            load_seconds=time.monotonic() - started,
        )  # fmt: skip

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        if request.beams.beams > 1:
            raise NoBeamSearch
        self._model.watch(stop)
        if self._draft is not None:
            self._draft.watch(stop)
        try:
            prompt = self._prompts.build(request, stop.is_set)
        except Stopped:
            yield stopped_unread(request)
            return
        if prompt.dropped:
            yield ContextTrimmed(id=0, dropped=prompt.dropped)
        constrain, seed = self._constrain(request, prompt), used_seed(request.sampling)
        sampler = SamplerChain(
            self._model.library, self._model.vocabulary, request.sampling, seed=seed,
            context_length=self._model.context_length, constrain=constrain, alternatives=request.alternatives,
        )  # fmt: skip
        answer = Answer(
            request, prompt, vocabulary=self._model.vocabulary, context_length=self._model.context_length,
            cache=self._cache, steps=self._steps, draw=ContextDraw(self._model, sampler), seed=seed,
            is_held=constrain is not None, receipt=self._receipt(request, prompt),
        )  # fmt: skip
        try:
            yield from answer.events(stop.is_set)
            if answer.is_kept:
                self._known.remember_all(answer.text.answers())
        except InvalidNumbers:
            self._cache.clear()  # what led to them may lie in it
            raise
        finally:
            answer.close()

    def _constrain(self, request: GenerationRequest, prompt: Prompt) -> Callable[[], Constraint] | None:
        """Returns what makes the answer's constraint; None for an answer that is free."""
        return self._constraint(request, written(request), prompt.continued)

    def _constraint(
        self, request: GenerationRequest, written: str, ids: tuple[int, ...]
    ) -> Callable[[], Constraint] | None:
        if not request.sampling.grammar and not request.sampling.json_schema:
            return None
        if self._constraints is None:
            from runtime.llama.constraint import Constraints  # brings numpy, which other answers do without

            self._constraints = Constraints(self._model.library, self._model.vocabulary)
        return partial(self._constraints.make, request.sampling, written=written, ids=ids)

    def replay(self, receipt: Receipt, stop: StopFlag, *, anyway: bool = False) -> Iterator[ReplayEvent]:
        from runtime.replay import Replay, require_same  # brings numpy, which answers do without

        self._model.watch(stop)
        self._check_receipt(receipt, n_vocab=self._model.vocabulary.size)
        if not anyway:
            require_same(receipt, self._info, self._conditions, stop=stop)
        request = GenerationRequest(sampling=receipt.sampling_params)
        sampler = SamplerChain(
            self._model.library, self._model.vocabulary, request.sampling, seed=receipt.seed,
            context_length=receipt.load_params.context_length or self._model.context_length,
            constrain=self._constraint(request, receipt.written, receipt.continued), alternatives=receipt.alternatives,
        )  # fmt: skip
        try:
            draw = ContextDraw(self._model, sampler)
            yield from Replay(receipt, self._model.vocabulary, self._cache, draw).events()
        except Stopped as error:
            raise ReadingStopped from error
        except InvalidNumbers:
            self._cache.clear()
            raise
        finally:
            sampler.close()

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        from runtime.llama import embedding

        runnable.require_vectors(self._header)
        return embedding.embed(self._model, request, stop, limit=self._model.context_length)

    def _reader(self, stop: StopFlag) -> Reader:
        from runtime.llama.reader import ContextReader  # brings numpy, which answers do without

        self._model.watch(stop)
        return ContextReader(self._model)

    def _write_state(self, path: Path) -> tuple[int, int]:
        return state.save(path, self._model, self._cache, self._known)

    def _read_state(self, path: Path) -> tuple[KnownAnswer, ...]:
        return state.load(path, self._model, self._cache)

    def close(self) -> None:
        self._prompts.close()
        if self._draft is not None:
            self._draft.close()
        self._model.close()


def _part_of(listener: LoadListener | None, start: float, share: float) -> LoadListener | None:
    """Returns a listener for one of two loads, which together are shown as one."""
    return None if listener is None else lambda fraction: listener(start + share * fraction)


def _prompts_of(model: LlamaModel, known: KnownAnswers) -> PromptBuilder:
    templates = {name: model.template(name) for name in model.template_names()}
    return PromptBuilder(model.vocabulary, known, templates=templates, context_length=model.context_length)


def _source_prompts(model: LlamaModel) -> SourcePrompts:
    return SourcePrompts(model.vocabulary, context_length=model.context_length, start=(model.start_token,))


def _load_draft(
    model: LlamaModel, header: GgufHeader, params: LoadParams, *, threads: int,
    listener: LoadListener | None, stop: StopFlag | None,
) -> ModelDrafter | None:  # fmt: skip
    from runtime.llama.draft import load_drafter  # brings numpy, which answers do without

    return load_drafter(model, header, params, threads=threads, listener=listener, stop=stop)


def _with_or_without_cards(
    load: Callable[[LoadParams], LlamaModel], params: LoadParams
) -> tuple[LlamaModel, LoadParams, list[str]]:
    """Loads on the graphics cards that are there, or, should they fail, on the processor alone, with a note.

    A person who named cards is told of the failure instead.
    """
    try:
        return load(params), params, []
    except (LoadFailed, NoRoomForContext) as error:
        if any(name.lower() != AUTO for name in params.devices) or not cards_for(params, llama_library.devices()):
            raise
        reason = error.info.message
    alone = params.replace(devices=("CPU",))
    model = load(alone)
    note = _("The graphics card failed, so the processor does everything: {reason}")
    return model, alone, [note.format(reason=reason)]


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
        backends=tuple(llama_library.backend_report().lines()),
    )
