"""A source's weights with LoRA adapters merged into them, read like any others. Knows no file to write.

    W' = W + scale · B A          (Hu et al. 2021, arXiv 2106.09685)

The sum is made in f32, row by row where a tensor is asked for by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convert.options import ConvertOptions
from runtime.adapter_weights import AdapterWeights, Pair, UnsupportedAdapter, read_adapter_weights
from runtime.adapters import read_adapter
from runtime.architectures.binding import canonical_names
from runtime.architectures.reading import identify
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.lora_files import AdapterMismatch, AdapterMissing
from runtime.model_errors import clean_name
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource, check_rows
from runtime.text import _

_ENDS = {"token_embd.weight": "output.weight", "output.weight": "token_embd.weight"}


def open_source(options: ConvertOptions, *, threads: int) -> Checkpoint:
    """Opens a conversion's source, with its adapters merged.

    Raises what `open_checkpoint` and `read_adapter_weights` raise, `AdapterMissing` and `AdapterMismatch`.
    """
    plain = open_checkpoint(options.source, threads=threads)
    try:
        return _merged(plain, options.lora) if options.lora else plain
    except BaseException:
        plain.close()
        raise


def _merged(plain: Checkpoint, written: tuple[str, ...]) -> Checkpoint:
    tensors = _MergedTensors(plain)
    for chosen in map(read_adapter, written):
        if not chosen.path.exists():
            raise AdapterMissing(chosen.path)
        tensors.add(read_adapter_weights(chosen.path), chosen.scale)
    return Checkpoint(
        plain.path, plain.kind, tensors, config=plain.config, metadata=plain.metadata,
        generation_config=plain.generation_config, notes=plain.notes,
    )  # fmt: skip


@dataclass(frozen=True)
class _Change:
    """What is added to a stored matrix: left (rows, rank) · right (rank, columns), the scale in it."""

    left: F32
    right: F32


class _MergedTensors(TensorSource):
    """The tensors of a checkpoint; those that an adapter changes are given out as f32."""

    def __init__(self, plain: Checkpoint) -> None:
        self._plain = plain
        self._changes: dict[str, list[_Change]] = {}
        self._replaced: dict[str, F32] = {}
        self.infos = {name: plain.info(name) for name in plain.names}

    def add(self, adapter: AdapterWeights, scale: float) -> None:
        """Adds an adapter. Raises `AdapterMismatch` and `UnsupportedAdapter`."""
        if adapter.kind != self._plain.kind:
            raise AdapterMismatch(adapter.path, _("An adapter in a folder changes a model in a folder, and one in a "
                                                  "GGUF file a GGUF file."))  # fmt: skip
        known, given = self._names(adapter)
        for name, stored in given.items():
            place = known.get(name)
            if place is None:
                raise AdapterMismatch(adapter.path, _("It changes the matrix “{name}”, which this model does not "
                                                      "have.").format(name=clean_name(name)))  # fmt: skip
            self._require_own(adapter.path, place)
            if stored in adapter.pairs:
                self._change(adapter.path, place, adapter.pairs[stored], scale)
            else:
                self._replace(adapter.path, place, adapter.replaced[stored], scale)
            shape = self.infos[place].shape
            self.infos = {**self.infos, place: TensorInfo(place, shape, "f32")}

    def _names(self, adapter: AdapterWeights) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns the model's and the adapter's names by those that the family's table has."""
        names = [*adapter.pairs, *adapter.replaced]
        if self._plain.kind == "gguf":
            return {name: name for name in self.infos}, {name: name for name in names}
        architecture, _config = identify(self._plain)
        return canonical_names(architecture, self.infos), canonical_names(architecture, names)

    def _require_own(self, path: Path, place: str) -> None:
        """Raises `AdapterMismatch` for the embedding where it is the head, too: only one of the two was trained."""
        tied = self._plain.config.get("tie_word_embeddings") is True and any(
            part in place for part in ("embed_tokens", "lm_head", "wte", "embed_in", "embed_out")
        )
        if tied or (place in _ENDS and _ENDS[place] not in self.infos):
            raise AdapterMismatch(path, _("It changes the token embedding, which this model shares with its head."))

    def _change(self, path: Path, place: str, pair: Pair, scale: float) -> None:
        left, right = (pair.left * np.float32(scale * pair.scale)), pair.right
        shape = self.infos[place].shape
        if self._is_flipped(place):
            left, right = right.T, left.T
        if shape != (left.shape[0], right.shape[1]):
            raise _wrong_size(path, place)
        self._changes.setdefault(place, []).append(_Change(np.ascontiguousarray(left), np.ascontiguousarray(right)))

    def _is_flipped(self, place: str) -> bool:
        """Whether a folder keeps the matrix as (inputs, outputs), as GPT-2's do."""
        return self._plain.kind == "folder" and self._plain.config.get("model_type") == "gpt2" and ".h." in place

    def _replace(self, path: Path, place: str, values: F32, scale: float) -> None:
        if values.shape != self.infos[place].shape:
            raise _wrong_size(path, place)
        if scale != 1.0:
            raise UnsupportedAdapter(path, _("It replaces whole tensors, which is done by a factor of 1 only."))
        self._replaced[place] = values

    # --- reading ----------------------------------------------------------------------------------------------------

    def raw(self, name: str) -> Bytes:
        if name in self._changes or name in self._replaced:
            return np.ascontiguousarray(self.read(name), np.float32).view(np.uint8).reshape(-1)
        return self._plain.raw(name)

    def decode(self, raw: Bytes, dtype: str) -> F32:
        raise AssertionError("tensors are read, not decoded")

    def read(self, name: str) -> F32:
        if name in self._replaced:
            return self._replaced[name]
        values = self._plain.read(name)
        for change in self._changes.get(name, ()):
            values = values + change.left @ change.right
        return values

    def rows(self, name: str, start: int, stop: int) -> F32:
        check_rows(self.infos[name], start, stop)
        if name in self._replaced:
            return self._replaced[name][start:stop]
        values = self._plain.rows(name, start, stop)
        for change in self._changes.get(name, ()):
            values = values + change.left[start:stop] @ change.right
        return values

    def release(self, name: str) -> None:
        self._plain.release(name)

    def close(self) -> None:
        self._plain.close()


def _wrong_size(path: Path, name: str) -> AdapterMismatch:
    return AdapterMismatch(path, _("Its matrices for “{name}” have other sizes than the model's.").format(name=name))


def adapters_of(options: ConvertOptions) -> Iterator[Path]:
    """Yields the adapters' files or folders."""
    yield from (read_adapter(each).path for each in options.lora)
