"""Writes what a cache holds to a file and reads it back, so that a chat need not be read again after a restart.

The file is the cache's numbers one after the other, in the frame of `runtime.saved_state`. It is taken back only where
everything that decides about them is the same; whatever else comes is refused with the reason. Knows no conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import torch

from runtime import saved_state
from runtime.evaluation import CacheRecord
from runtime.known_answers import Answer
from runtime.model_files import Stamps
from runtime.native.decode import TokenCache
from runtime.native.kv_cache import KVCache
from runtime.native.model import NativeModel
from runtime.rope import depends_on_length
from runtime.saved_state import StateNotSaved, StateRefused
from runtime.text import _

__all__ = ["StateNotSaved", "StateRefused", "load", "save"]


class _Buffer(msgspec.Struct, frozen=True):
    """One buffer of the cache, as it lies in the file."""

    dtype: str
    shape: tuple[int, ...]


class _Record(msgspec.Struct, frozen=True):
    """What must be the same for a state to be taken back, and how its numbers are laid out."""

    build: str
    numbers: tuple[str, ...]  # the settings and adapters that decide about the cache, as texts
    files: Stamps  # of the model, when it was loaded
    held: CacheRecord
    starts: tuple[int, ...]  # the first position that each layer keeps
    buffers: tuple[_Buffer, ...]
    answers: tuple[Answer, ...]


_decoder = msgspec.json.Decoder(_Record)


def save(
    path: Path, model: NativeModel, cache: TokenCache, answers: Iterable[Answer], *, build: str
) -> tuple[int, int]:
    """Writes the cache beside `path` and renames; returns the number of tokens and of bytes. Raises `StateNotSaved`."""
    held, kv = cache.record(), cache.kv
    starts, tensors = kv.contents()
    kept = tuple(answer for answer in answers if held.holds(answer.ids))
    buffers = tuple(_Buffer(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for tensor in tensors)
    with saved_state.written_beside(path) as part:
        with part.open("wb") as file:
            for tensor in tensors:
                file.write(tensor.contiguous().cpu().view(torch.uint8).numpy().data)
        record = _Record(build, _numbers(model), model.stamps, held, tuple(starts), buffers, kept)
        saved_state.append_record(part, msgspec.json.encode(record))
        size = part.stat().st_size
    return len(held.ids), size


def load(path: Path, model: NativeModel, cache: TokenCache, *, build: str) -> tuple[Answer, ...]:
    """Fills the cache from a file and returns the answers in it. Raises `StateRefused`."""
    record = _recorded(path)
    if record.files != model.stamps:
        raise saved_state.refused_as_changed()
    if (record.build, record.numbers) != (build, _numbers(model)):
        raise saved_state.refused_as_other()
    if len(record.held.ids) >= model.context_length:
        raise StateRefused(_("The saved state is longer than the context."))
    kv = model.new_cache()
    if not record.held.adds_up or not _filled(kv, path, record):
        raise StateRefused(_("The engine could not take the saved state back."))
    cache.take(kv, record.held)
    return record.answers


def _recorded(path: Path) -> _Record:
    try:
        return _decoder.decode(saved_state.read_record(path))
    except (msgspec.DecodeError, RecursionError) as error:
        raise saved_state.refused_as_other() from error


def _filled(kv: KVCache, path: Path, record: _Record) -> bool:
    """Fills an empty cache; False where the file's numbers are not those of such a cache."""
    try:
        with path.open("rb") as file:
            tensors = [_read(file, buffer) for buffer in record.buffers]
        kv.restore(record.held.ids, record.starts, tensors)
    except (OSError, ValueError, RuntimeError, AttributeError, TypeError):
        return False
    return True


def _read(file: Any, buffer: _Buffer) -> torch.Tensor:
    dtype = getattr(torch, buffer.dtype)
    count = torch.empty(0, dtype=dtype).element_size()
    for size in buffer.shape:
        count *= size
    data = bytearray(file.read(count))
    return torch.frombuffer(data, dtype=dtype).view(buffer.shape)


def _numbers(model: NativeModel) -> tuple[str, ...]:
    """Returns everything beside the model's files that decides about the numbers in a cache, as texts."""
    params, rope = model.params, model.config.rope
    length = depends_on_length(rope, model.context_length) if model.config.position == "rope" else 0
    decides = (params.dtype, params.kv_type_k, params.kv_type_v, params.swa_full, rope, length, model.adapters.stamps)
    return tuple(map(repr, decides))
