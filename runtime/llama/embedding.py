"""Makes vectors of texts: embedding models such as BERT, and models that write text by pooling their hidden states.

A text's vector needs the whole text in one evaluation, and llama.cpp keeps room for the scores of each token in it.
So the context is made for the texts at hand, as long as the longest one, and short texts share an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runtime import devices, gguf_header, lora_files, runnable
from runtime.engine import LoadListener, StopFlag
from runtime.llama.batch import Batch
from runtime.llama.model import LlamaModel
from runtime.memory import DEFAULT_CONTEXT
from runtime.params import LoadParams
from runtime.reading import Embedded, EmbedRequest, Pooling, ReadProgress
from runtime.vectors import Vector, checked, normalized, token_lists

_POOLINGS: dict[Pooling, int] = {"mean": 1, "cls": 2, "last": 3}  # enum llama_pooling_type
_TOGETHER = 512  # short texts share an evaluation up to this many tokens
_SEQUENCES = 64  # and up to this many texts


class LlamaEmbedder:
    """One GGUF model that only makes vectors; it need not be able to write. Implements `runtime.engine.Embedder`."""

    def __init__(
        self, path: Path, params: LoadParams, *, listener: LoadListener | None = None, stop: StopFlag | None = None
    ) -> None:
        header = gguf_header.read_header(path)  # refuses what would hurt native code
        runnable.require_vectors(header)
        self._model = LlamaModel(
            header.path, params, context_length=None, threads=params.threads or devices.usable_cores(),
            adapters=lora_files.read_adapters(params.lora, header), listener=listener, stop=stop,
        )  # fmt: skip
        self._limit = params.context_length or DEFAULT_CONTEXT

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        return embed(self._model, request, stop, limit=self._limit, notes=self._model.notes)

    def close(self) -> None:
        self._model.close()


def embed(
    model: LlamaModel, request: EmbedRequest, stop: StopFlag, *, limit: int, notes: Sequence[str] = ()
) -> Iterator[ReadProgress | Embedded]:
    """Yields progress, and `Embedded` last. A text has at most `limit` tokens, and what the model was trained for.

    `notes` about the model come before those about the texts.
    Raises `NothingToEmbed`, `TextTooLong`, `NoRoomForContext`, `ReadingStopped`, `ReadingFailed`, `InvalidNumbers`.
    """
    limit = min(limit, model.trained_context or limit)  # past a table of positions, llama.cpp ends the process
    texts, cuts = token_lists(model.vocabulary, request, limit)
    pooling = pooling_of(model) if request.pooling == "auto" else request.pooling
    if not texts:
        yield Embedded(vectors=(), tokens=(), pooling=pooling, notes=tuple(notes))
        return
    vectors: list[Vector] = []
    done, total = 0, sum(map(len, texts))
    yield ReadProgress(done=0, total=total)
    with _VectorContext(model, texts, pooling, stop) as context:
        for pack in packs_of(texts, most=1 if model.remembers_states else _SEQUENCES):
            vectors += context.vectors(pack)
            done += sum(map(len, pack))
            yield ReadProgress(done=done, total=total)
    finish = normalized if request.normalize else checked
    yield Embedded(
        vectors=tuple(map(finish, vectors)), tokens=tuple(map(len, texts)), pooling=pooling, notes=(*notes, *cuts)
    )


def pooling_of(model: LlamaModel) -> Pooling:
    """Returns what the model's file says, and the mean where it says nothing."""
    said = model.metadata(f"{model.architecture}.pooling_type")
    return next((name for name, number in _POOLINGS.items() if said == str(number)), "mean")


def packs_of(texts: Sequence[list[int]], *, most: int) -> Iterator[list[list[int]]]:
    """Yields the texts in order, in groups of at most `most` that share an evaluation; a long one goes alone."""
    pack: list[list[int]] = []
    for text in texts:
        if pack and (len(pack) == most or sum(map(len, pack)) + len(text) > _TOGETHER):
            yield pack
            pack = []
        pack.append(text)
    if pack:
        yield pack


class _VectorContext:
    """A context that pools hidden states; a context manager that frees it."""

    def __init__(self, model: LlamaModel, texts: Sequence[list[int]], pooling: Pooling, stop: StopFlag) -> None:
        self._model = model
        self._library = model.library
        lengths = [len(text) for text in texts]
        room = min(max(_TOGETHER, *lengths), sum(lengths))
        self._room = -(-room // _SEQUENCES) * _SEQUENCES  # llama.cpp aborts where sequences do not divide the tokens
        self._context = model.new_context(
            self._room, n_batch=self._room, n_ubatch=self._room, embeddings=True, pooling_type=_POOLINGS[pooling],
            n_seq_max=1 if model.remembers_states or len(texts) == 1 else _SEQUENCES, kv_unified=True,
        )  # fmt: skip
        model.watch(stop, context=self._context)

    def __enter__(self) -> _VectorContext:
        return self

    def __exit__(self, *_error: object) -> None:
        self._library.llama_free(self._context)

    def vectors(self, pack: Sequence[list[int]]) -> list[Vector]:
        """Returns the vectors of texts that are evaluated together, each as a sequence of its own."""
        self._library.llama_memory_clear(self._library.llama_get_memory(self._context), False)
        with Batch(self._library, self._room) as batch:
            for sequence, ids in enumerate(pack):
                for position, token in enumerate(ids):
                    batch.add(token, position, sequence=sequence)
            batch.evaluate(self._context)
        return [self._vector(sequence) for sequence in range(len(pack))]

    def _vector(self, sequence: int) -> Vector:
        pointer: Any = self._library.llama_get_embeddings_seq(self._context, sequence)
        return tuple(pointer[: self._model.vector_size])
