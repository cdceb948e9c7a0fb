"""Writes what a context holds to a file and reads it back, so that a chat need not be read again after a restart.

The file is llama.cpp's own for one sequence, followed by a record of ours, its length, a checksum and a mark. It is
taken back only where everything that decides about its numbers is the same; whatever else comes is refused with the
reason. Knows no conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from runtime import saved_state
from runtime.evaluation import CacheRecord
from runtime.known_answers import Answer
from runtime.llama import library as llama_library
from runtime.llama import long_context
from runtime.llama.cache import TokenCache
from runtime.llama.model import LlamaModel
from runtime.model_files import Stamps
from runtime.saved_state import StateNotSaved, StateRefused
from runtime.text import _


class _Numbers(msgspec.Struct, frozen=True):
    """Everything beside the model's files that decides about the numbers in a cache."""

    kv_type_k: str
    kv_type_v: str
    flash_attention: bool
    swa_full: bool
    rope: tuple[str, float, float, int, float, float, float]
    stretched: bool  # a context so long that the model takes its other set of position factors
    adapters: tuple[tuple[int, int, float], ...]  # size in bytes, time of the last change in nanoseconds, scale

    @classmethod
    def of(cls, model: LlamaModel) -> _Numbers:
        params = model.params
        return cls(
            params.kv_type_k, params.kv_type_v, model.flash_attention, params.swa_full,
            rope=(params.rope_scaling, params.rope_factor, params.rope_base, params.yarn_original_context,
                  params.yarn_ext_factor, params.yarn_beta_fast, params.yarn_beta_slow),
            stretched=long_context.takes_long_factors(model),
            adapters=tuple((*adapter.stamp, adapter.scale) for adapter in model.adapters.active),
        )  # fmt: skip


class _Record(msgspec.Struct, frozen=True):
    """What must be the same for a state to be taken back, and what llama.cpp does not keep of it."""

    build: str
    files: Stamps  # of the model, when it was loaded
    cache: _Numbers
    held: CacheRecord
    answers: tuple[Answer, ...]


_decoder = msgspec.json.Decoder(_Record)


def save(path: Path, model: LlamaModel, cache: TokenCache, answers: Iterable[Answer]) -> tuple[int, int]:
    """Writes the cache's contents beside `path` and renames; returns the number of tokens and of bytes.

    Raises `StateNotSaved`.
    """
    with saved_state.written_beside(path) as part:
        held = cache.save(part)
        if held is None:
            raise StateNotSaved(path, llama_library.log_tail(1))
        saved_state.append_record(part, msgspec.json.encode(_record(model, held, answers)))
        size = part.stat().st_size
    return len(held.ids), size


def load(path: Path, model: LlamaModel, cache: TokenCache) -> tuple[Answer, ...]:
    """Fills the cache from a file and returns the answers in it. Raises `StateRefused`."""
    record = _recorded(path)
    ours = _record(model, record.held, ())
    if record.files != ours.files:
        raise saved_state.refused_as_changed()
    if (record.build, record.cache) != (ours.build, ours.cache):
        raise saved_state.refused_as_other()
    if len(record.held.ids) >= model.context_length:
        raise StateRefused(_("The saved state is longer than the context."))
    if not cache.load(path, record.held):
        raise StateRefused(_("The engine could not take the saved state back."))
    return record.answers


def _recorded(path: Path) -> _Record:
    try:
        return _decoder.decode(saved_state.read_record(path))
    except (msgspec.DecodeError, RecursionError) as error:
        raise saved_state.refused_as_other() from error


def _record(model: LlamaModel, held: CacheRecord, answers: Iterable[Answer]) -> _Record:
    return _Record(
        build=llama_library.build_description(),
        files=model.stamps,
        cache=_Numbers.of(model),
        held=held,
        answers=tuple(answer for answer in answers if held.holds(answer.ids)),
    )
