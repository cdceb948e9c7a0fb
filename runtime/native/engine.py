"""The native engine: answers requests with our own Transformer. Joins model, cache, prompt and sampler.

Implements `runtime.engine.Engine`; what answers, prompts and replays are is every engine's (`runtime.answering` …).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from runtime import chat_formats
from runtime.answering import Answer, stopped_unread, written
from runtime.base_engine import BaseEngine
from runtime.conditions import Conditions
from runtime.config import ModelForm
from runtime.constraint import Matchers
from runtime.engine import LoadListener, StopFlag
from runtime.evaluation import Draw, Stopped
from runtime.known_answers import Answer as KnownAnswer
from runtime.known_answers import KnownAnswers
from runtime.logits import InvalidNumbers
from runtime.model_errors import clean_name
from runtime.native import beams, embedding, state
from runtime.native.cache_draw import CacheDraw
from runtime.native.decode import TokenCache
from runtime.native.drafting import Draft, load_draft, steps_for
from runtime.native.dry import Breakers, breakers_of
from runtime.native.model import NativeModel
from runtime.native.reader import CacheReader
from runtime.native.sampling import TokenSampler
from runtime.native.source import SourceCache
from runtime.params import LoadParams, SamplingParams
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
from runtime.replay import Replay, require_same
from runtime.seed import used_seed
from runtime.source import SourcePrompts
from runtime.speculation import Steps
from runtime.token_ids import UnknownToken

if TYPE_CHECKING:

    from runtime.constraint import Matcher

_FORMS: tuple[ModelForm, ...] = ("decoder", "encoder-decoder")


class NativeEngine(BaseEngine):
    """One model in our own Transformer. Implements `runtime.engine.Engine`."""

    _model: NativeModel
    _prompts: PromptBuilder | SourcePrompts
    _cache: TokenCache

    def __init__(
        self, path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
    ) -> None:
        """Raises `UserError` where the files or the machine do not allow it."""
        started = time.monotonic()
        self._model = NativeModel(path, params, forms=_FORMS, listener=listener, stop=stop)
        self._cache = SourceCache(self._model) if self._model.reads_source else TokenCache(self._model)
        try:
            made = self._model.params.replace(threads=self._model.threads)
            self._conditions = Conditions.of(self._model.path, made, stamps=self._model.stamps, stop=stop)
            self._draft = load_draft(self._model, stop=stop)
        except BaseException:
            self._model.close()
            raise
        self._steps = steps_for(self._model, self._cache, self._draft)
        self._known = KnownAnswers()
        self._prompts = _prompts_of(self._model, self._known)
        self._matchers: Matchers | None = None
        self._breakers: tuple[tuple[str, ...], Breakers] = ((), {})
        self._info = _info_of(
            self._model, self._draft, speculates=self._steps.speculates, load_seconds=time.monotonic() - started
        )

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        self._cache.watch(stop)
        if self._draft is not None:
            self._draft.cache.watch(stop)
        try:
            prompt = self._prompts.build(request, stop.is_set)
        except Stopped:
            yield stopped_unread(request)
            return
        self._require_known(prompt.ids)
        if prompt.dropped:
            yield ContextTrimmed(id=0, dropped=prompt.dropped)
        seed = used_seed(request.sampling)
        constrain = self._constraint(request.sampling, written(request), prompt.continued)
        draw, steps = self._ways(request, prompt, seed, constrain, stop)
        answer = Answer(
            request, prompt, vocabulary=self._model.vocabulary, context_length=self._model.context_length,
            cache=self._cache, steps=steps, draw=draw, seed=seed, is_held=constrain is not None,
            receipt=self._receipt(request, prompt),
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

    def _ways(
        self, request: GenerationRequest, prompt: Prompt, seed: int, constrain: Callable[[], Matcher] | None,
        stop: StopFlag,
    ) -> tuple[Draw, Steps]:  # fmt: skip
        """Returns how an answer's tokens are chosen and evaluated. Raises `BeamsAreFree`."""
        if request.beams.beams == 1:
            return self._draw(request.sampling, seed, constrain, request.alternatives), self._steps
        whole = beams.answer_of(request, prompt, self._model, self._cache, stop)
        return whole, whole

    def _require_known(self, ids: Sequence[int]) -> None:
        """Raises `UnknownToken` for a token that the tokenizer has and the model's embedding lacks."""
        size = self._model.config.vocab_size
        if size < self._model.vocabulary.size and max(ids) >= size:
            raise UnknownToken(max(ids), size)

    def _draw(
        self, sampling: SamplingParams, seed: int, constrain: Callable[[], Matcher] | None, alternatives: int,
        *, context_length: int = 0,
    ) -> CacheDraw:  # fmt: skip
        sampler = TokenSampler(
            self._model.vocabulary, sampling, seed=seed, context_length=context_length or self._model.context_length,
            constrain=constrain, alternatives=alternatives, breakers=self._breakers_of(sampling),
        )  # fmt: skip
        return CacheDraw(self._cache, sampler)

    def _breakers_of(self, sampling: SamplingParams) -> Breakers:
        """Returns the ways in which tokens hold DRY's breakers, looked for once: that takes a while."""
        if sampling.dry_multiplier <= 0:
            return {}
        if self._breakers[0] != sampling.dry_breakers:
            self._breakers = sampling.dry_breakers, breakers_of(sampling.dry_breakers, self._model.vocabulary)
        return self._breakers[1]

    def _constraint(
        self, sampling: SamplingParams, written: str, ids: tuple[int, ...]
    ) -> Callable[[], Matcher] | None:
        """Returns what makes the answer's constraint; None for an answer that is free."""
        if not sampling.grammar and not sampling.json_schema:
            return None
        if self._matchers is None:
            self._matchers = Matchers(self._model.vocabulary)
        return partial(self._matchers.make, sampling, written=written, ids=ids)

    def replay(self, receipt: Receipt, stop: StopFlag, *, anyway: bool = False) -> Iterator[ReplayEvent]:
        self._cache.watch(stop)
        model, sampling = self._model, receipt.sampling_params
        self._check_receipt(receipt, n_vocab=model.config.vocab_size)
        if not anyway:
            require_same(receipt, self._info, self._conditions, stop=stop)
        draw = self._draw(
            sampling, receipt.seed, self._constraint(sampling, receipt.written, receipt.continued),
            receipt.alternatives, context_length=receipt.load_params.context_length,
        )  # fmt: skip
        try:
            yield from Replay(receipt, model.vocabulary, self._cache, draw).events()
        except Stopped as error:
            raise ReadingStopped from error
        except InvalidNumbers:
            self._cache.clear()
            raise
        finally:
            draw.close()

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        return embedding.embed(self._model, request, stop, limit=self._model.context_length)

    def _reader(self, stop: StopFlag) -> CacheReader:
        self._cache.watch(stop)
        return CacheReader(self._cache)

    def _write_state(self, path: Path) -> tuple[int, int]:
        return state.save(path, self._model, self._cache, self._known, build=self._info.build)

    def _read_state(self, path: Path) -> tuple[KnownAnswer, ...]:
        return state.load(path, self._model, self._cache, build=self._info.build)

    def close(self) -> None:
        self._prompts.close()
        if self._draft is not None:
            self._draft.close()
        self._model.close()
        self._cache.close()
        gc.collect()  # modules refer to each other in circles


def _prompts_of(model: NativeModel, known: KnownAnswers) -> PromptBuilder | SourcePrompts:
    if model.reads_source:
        return SourcePrompts(model.vocabulary, context_length=model.context_length, start=model.target_start)
    return PromptBuilder(
        model.vocabulary, known, templates=model.templates, context_length=model.context_length
    )  # fmt: skip


def _info_of(model: NativeModel, draft: Draft | None, *, speculates: bool, load_seconds: float) -> EngineInfo:
    config = model.config
    models = [model] if draft is None else [model, draft.model]
    n_params = sum(slot.tensor.numel() for slot in model.transformer.slots().values())
    return EngineInfo(
        engine="native",
        build=build_description(model.device),
        path=spelled_path(model.path),
        name=clean_name(model.name) or clean_name(shown_path(Path(model.path.stem))),
        architecture=model.architecture,
        description=f"{model.architecture} {model.params.dtype}",
        size_bytes=model.size_bytes,
        n_params=n_params,
        n_vocab=model.vocabulary.size,
        context_length=model.context_length,
        trained_context=config.context_length,
        kv_type_k=model.params.kv_type_k,
        kv_type_v=model.params.kv_type_v,
        flash_attention=not config.attention_softcap,
        threads=model.threads,
        devices=(model.device,),
        reads_source=model.reads_source,
        has_template=bool(model.templates),
        adapters=model.adapters.words,
        templates=tuple(map(clean_name, model.templates)),
        template_guess="" if model.templates else chat_formats.guess(model.vocabulary.is_token),
        memory_bytes=sum(each.weight_bytes + each.cache_bytes for each in models),
        load_seconds=load_seconds,
        speculation=model.params.speculation if speculates else "off",
        draft_path=spelled_path(draft.model.path) if draft is not None else "",
        notes=tuple(model.notes),
    )


def build_description(device: str = "cpu") -> str:
    """Returns everything beside the model and the settings that decides about numbers, on one line."""
    try:
        ours = version("quern")
    except PackageNotFoundError:
        ours = "?"
    kind = torch.backends.cpu.get_cpu_capability() if device == "cpu" else device
    return f"Quern {ours} · PyTorch {torch.__version__} · {kind}"
