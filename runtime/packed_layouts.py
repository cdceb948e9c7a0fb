"""How packed weights become numbers again: GPTQ, AWQ, compressed-tensors, and f8 or int8 with scales.

Sources: Frantar et al., "GPTQ", 2022, in the layout of AutoGPTQ; Lin et al., "AWQ", 2023, in that of AutoAWQ's "gemm"
version. Shapes: I inputs, O outputs, G groups of inputs that share a scale, N numbers in a 32-bit word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.model_errors import clean_name
from runtime.number_types import ITEM_BYTES
from runtime.tensors import F32, TensorInfo, TensorSource
from runtime.text import _

Config = Mapping[str, Any]
Words = NDArray[np.uint32]
Codes = NDArray[np.uint8]

_WORD_BITS = 32
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # where in a word AutoAWQ puts the outputs 0 to 7
_GPTQ_VERSIONS = ("gptq", "gptq_v2")
_STEP = 1 << 22  # numbers unpacked at once


class Misfit(Exception):
    """Tensors that do not fit together, or a variant that is not read (`unsupported`); the message is a sentence."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.unsupported = unsupported


def unread_format(name: object) -> Misfit:
    """Returns the error for a format of packed weights that is not read."""
    words = _("Its weights are packed in the format “{name}”, which is not read.")
    return Misfit(words.format(name=clean_name(str(name))), unsupported=True)


class Layout(Protocol):
    """One joined tensor, the stored `parts` of it, and how its rows are made of them."""

    info: TensorInfo
    parts: tuple[str, ...]

    def rows(self, start: int, stop: int) -> F32:
        """Returns the rows (outputs) from `start` up to `stop`. Raises `Misfit`."""


class _Grouped:
    """A matrix (O, I) of few bits, I in groups that share a scale and a zero point for each output."""

    info: TensorInfo

    def rows(self, start: int, stop: int) -> F32:
        inputs = self.info.shape[1]
        weight = np.empty((stop - start, inputs), np.float32)
        step = max(8, _STEP // max(inputs, 1) // 8 * 8)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            weight[first - start : last - start] = self.block(first, last)
        return weight

    def block(self, start: int, stop: int) -> F32:
        """Returns a few rows."""
        raise NotImplementedError


class Gptq(_Grouped):
    """GPTQ: words hold N inputs of one output. `g_idx` gives each input its group, in the order of activations.

    The first version of the format stores zero points less one; "gptq_v2" stores them as they are.
    """

    def __init__(self, stored: TensorSource, prefix: str, config: Config) -> None:
        """Raises `Misfit`."""
        self._stored, self._prefix = stored, prefix
        self._bits = _bits(self._own_bits() if config.get("dynamic") else config.get("bits", 4), (2, 4, 8))
        self._zero_offset = 0 if _gptq_version(config) == "gptq_v2" else 1
        inputs, outputs = self._sizes()
        self.info = TensorInfo(prefix + "weight", (outputs, inputs), "gptq")
        names = ("qweight", "qzeros", "scales", "g_idx")
        self.parts = tuple(prefix + name for name in names if prefix + name in stored.infos)
        self._group = _group_of_inputs(stored, prefix + "g_idx", config, inputs, self._groups)

    def _own_bits(self) -> float:
        """Returns the bits of this matrix, where the config gives some matrices others, by its zero points' words."""
        zero_words = _matrix_shape(self._stored, self._prefix + "qzeros", "i32")[1]
        outputs = _matrix_shape(self._stored, self._prefix + "scales")[1]
        bits = zero_words * _WORD_BITS / max(outputs, 1)
        return int(bits) if bits.is_integer() else bits

    def _sizes(self) -> tuple[int, int]:
        words, outputs = _matrix_shape(self._stored, self._prefix + "qweight", "i32")
        self._groups, scaled = _matrix_shape(self._stored, self._prefix + "scales")
        groups, zero_words = _matrix_shape(self._stored, self._prefix + "qzeros", "i32")
        per_word = _WORD_BITS // self._bits
        if scaled != outputs or groups != self._groups or zero_words * per_word != outputs:
            raise _no_fit(self._prefix)
        return words * per_word, outputs

    def block(self, start: int, stop: int) -> F32:
        codes = _unpack_rows(_words(self._stored, self._prefix + "qweight")[:, start:stop], self._bits)  # (I, o)
        scales = _columns(self._stored, self._prefix + "scales", start, stop)  # (G, o)
        per_word = _WORD_BITS // self._bits
        first = start // per_word
        words = _words(self._stored, self._prefix + "qzeros")[:, first : -(-stop // per_word)]
        zeros = _unpack_columns(words, self._bits)[:, start - first * per_word :][:, : stop - start]  # (G, o)
        offset = zeros.astype(np.float32) + self._zero_offset
        weight: F32 = ((codes - offset[self._group]) * scales[self._group]).T
        return weight


class Awq(_Grouped):
    """AWQ: words hold N outputs of one input, in an order of their own."""

    def __init__(self, stored: TensorSource, prefix: str, config: Config) -> None:
        """Raises `Misfit`."""
        self._stored, self._prefix = stored, prefix
        _bits(config.get("bits", config.get("w_bit", 4)), (4,))
        version = str(config.get("version", "gemm")).lower()
        if version != "gemm":
            raise Misfit(_("Its weights are in AWQ's “{version}” layout; only “gemm” is read.").format(
                version=clean_name(version)), unsupported=True)  # fmt: skip
        inputs, words = _matrix_shape(stored, prefix + "qweight", "i32")
        groups, outputs = _matrix_shape(stored, prefix + "scales")
        if outputs != words * 8 or _matrix_shape(stored, prefix + "qzeros", "i32") != (groups, words):
            raise _no_fit(prefix)
        self.info = TensorInfo(prefix + "weight", (outputs, inputs), "awq")
        self.parts = tuple(prefix + name for name in ("qweight", "qzeros", "scales"))
        self._group = _equal_groups(prefix, inputs, groups)

    def block(self, start: int, stop: int) -> F32:
        codes, zeros = self._columns("qweight", start, stop), self._columns("qzeros", start, stop)  # (I, o), (G, o)
        scales = _columns(self._stored, self._prefix + "scales", start, stop)
        weight: F32 = ((codes - zeros.astype(np.float32)[self._group]) * scales[self._group]).T
        return weight

    def _columns(self, name: str, start: int, stop: int) -> Codes:
        first = start // 8
        words = _words(self._stored, self._prefix + name)[:, first : -(-stop // 8)]
        numbers = _unpack_columns(words, 4).reshape(len(words), -1, 8)[:, :, _AWQ_ORDER].reshape(len(words), -1)
        return numbers[:, start - first * 8 :][:, : stop - start]


class Compressed(_Grouped):
    """compressed-tensors' "pack-quantized": words hold N inputs of one output, signed numbers plus 2^(bits-1)."""

    def __init__(self, stored: TensorSource, prefix: str, config: Config) -> None:
        """Raises `Misfit`."""
        self._stored, self._prefix = stored, prefix
        self._bits = _bits(_compressed_bits(config), (2, 4, 8))
        outputs, words = _matrix_shape(stored, prefix + "weight_packed", "i32")
        scaled, groups = _matrix_shape(stored, prefix + "weight_scale")
        inputs = self._inputs(words, outputs)
        names = ("weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape")
        self.parts = tuple(prefix + name for name in names if prefix + name in stored.infos)
        self._has_zeros = prefix + "weight_zero_point" in stored.infos
        if scaled != outputs or (self._has_zeros and self._zero_shape() != (-(-outputs * self._bits // 32), groups)):
            raise _no_fit(prefix)
        self.info = TensorInfo(prefix + "weight", (outputs, inputs), "compressed")
        self._group = _group_of_inputs(stored, prefix + "weight_g_idx", {}, inputs, groups)

    def _zero_shape(self) -> tuple[int, int]:
        return _matrix_shape(self._stored, self._prefix + "weight_zero_point", "i32")

    def _inputs(self, words: int, outputs: int) -> int:
        """Returns how many inputs there are: the last word of a row may hold fewer than it can."""
        room, name = words * (_WORD_BITS // self._bits), self._prefix + "weight_shape"
        if name not in self._stored.infos:
            return room
        shape = self._stored.read(name).astype(int).tolist()
        if len(shape) != 2 or shape[0] != outputs or not room - _WORD_BITS // self._bits < shape[1] <= room:
            raise _no_fit(self._prefix)
        return int(shape[1])

    def block(self, start: int, stop: int) -> F32:
        words = _words(self._stored, self._prefix + "weight_packed")[start:stop]
        codes = _unpack_columns(words, self._bits)[:, : self.info.shape[1]]  # (o, I)
        scales = self._stored.rows(self._prefix + "weight_scale", start, stop)  # (o, G)
        weight: F32 = (codes - self._zeros(start, stop)[:, self._group]) * scales[:, self._group]
        return weight

    def _zeros(self, start: int, stop: int) -> F32:
        if not self._has_zeros:
            groups = self._stored.infos[self._prefix + "weight_scale"].shape[1]
            return np.full((stop - start, groups), 1 << (self._bits - 1), np.float32)
        words = _words(self._stored, self._prefix + "weight_zero_point")  # packed along O
        return _unpack_rows(words, self._bits)[start:stop].astype(np.float32)


class Scaled:
    """f8 or int8 numbers and their scales: one for all, one for each row, or one for each block of a matrix."""

    def __init__(self, stored: TensorSource, name: str, scale: str, config: Config) -> None:
        """Raises `Misfit`."""
        self._stored, self._name, self._scale = stored, name, scale
        shape = stored.infos[name].shape
        self.info = TensorInfo(name, shape, "scaled")
        zero = name + "_zero_point"
        self._zero = zero if zero in stored.infos else None
        self.parts = (name, scale, *([zero] if self._zero else []))
        self._block = self._block_size(shape, stored.infos[scale].shape, config)

    def _block_size(self, shape: tuple[int, ...], scales: tuple[int, ...], config: Config) -> tuple[int, int] | None:
        """Returns the block's rows and columns; None where the scales are for rows or for the whole."""
        if np.prod(scales) == 1 or (scales[:1] == shape[:1] and np.prod(scales[1:], dtype=int) == 1):
            return None
        rows, columns = _said_block(config)
        if len(shape) != 2 or scales != (-(-shape[0] // rows), -(-shape[1] // columns)):
            raise _no_fit(self._name.removesuffix("weight"))
        return rows, columns

    def rows(self, start: int, stop: int) -> F32:
        numbers = self._stored.rows(self._name, start, stop)
        if self._zero is not None:
            numbers -= self._factors(self._zero, numbers, start, stop)
        numbers *= self._factors(self._scale, numbers, start, stop)
        return numbers

    def _factors(self, name: str, numbers: F32, start: int, stop: int) -> F32:
        factors = self._stored.read(name)
        if self._block is None:
            flat = factors.reshape(-1)
            return flat if flat.size == 1 else flat[start:stop].reshape(-1, *[1] * (numbers.ndim - 1))
        rows, columns = self._block
        return factors[np.arange(start, stop) // rows].repeat(columns, axis=1)[:, : numbers.shape[1]]


# --- what configs say -------------------------------------------------------------------------------------------


def _bits(said: object, readable: tuple[int, ...]) -> int:
    if isinstance(said, int) and said in readable:
        return said
    raise Misfit(_("Its weights have {bits} bits; {readable} are read.").format(
        bits=clean_name(str(said)), readable=", ".join(map(str, readable))), unsupported=True)  # fmt: skip


def require_known_gptq(config: Config) -> None:
    """Raises `Misfit` for GPTQ weights that were repacked for one kind of graphics card, or into other words."""
    version, word = _gptq_version(config), config.get("pack_dtype") or "int32"
    if version not in _GPTQ_VERSIONS or config.get("is_marlin_format"):
        raise unread_format("marlin" if config.get("is_marlin_format") else version)
    if word != "int32":
        raise unread_format(word)


def _gptq_version(config: Config) -> object:
    return config.get("checkpoint_format") or config.get("format") or "gptq"


def _weights_of_groups(config: Config) -> list[Mapping[str, Any]]:
    groups = config.get("config_groups")
    found = groups.values() if isinstance(groups, dict) else ()
    return [group["weights"] for group in found if isinstance(group, dict) and isinstance(group.get("weights"), dict)]


def _compressed_bits(config: Config) -> object:
    bits = {str(weights.get("num_bits")): weights.get("num_bits") for weights in _weights_of_groups(config)}
    if len(bits) > 1:
        raise Misfit(_("Its layers are packed with different numbers of bits."), unsupported=True)
    return next(iter(bits.values()), 4)


def _said_block(config: Config) -> tuple[int, int]:
    said = [weights.get("block_structure") for weights in _weights_of_groups(config)]
    for block in (config.get("weight_block_size"), *said):
        if isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) and n > 0 for n in block):
            return block[0], block[1]
    return 128, 128


# --- words and groups -------------------------------------------------------------------------------------------


def _no_fit(prefix: str) -> Misfit:
    return Misfit(_("The packed tensors of “{name}” do not fit together.").format(name=clean_name(prefix.rstrip("."))))


def _matrix_shape(stored: TensorSource, name: str, dtype: str = "") -> tuple[int, int]:
    info = stored.infos.get(name)
    if info is None or len(info.shape) != 2 or (dtype and info.dtype != dtype):
        raise _no_fit(name.rpartition(".")[0])
    return info.shape[0], info.shape[1]


def _words(stored: TensorSource, name: str) -> Words:
    words: Words = stored.raw(name).view("<u4").reshape(stored.infos[name].shape)
    return words


def _columns(stored: TensorSource, name: str, start: int, stop: int) -> F32:
    info, raw = stored.infos[name], stored.raw(name)
    cells = raw.reshape(info.shape[0], info.shape[1] * ITEM_BYTES[info.dtype])
    size = ITEM_BYTES[info.dtype]
    piece = np.ascontiguousarray(cells[:, start * size : stop * size]).reshape(-1)
    return stored.decode(piece, info.dtype).reshape(info.shape[0], stop - start)


def _unpack_rows(words: Words, bits: int) -> Codes:
    """Returns (N · rows, columns) of words (rows, columns), the lowest bits first."""
    shifts = np.arange(0, _WORD_BITS, bits, dtype=np.uint32)[:, None]
    codes = (words[:, None, :] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(-1, words.shape[1])


def _unpack_columns(words: Words, bits: int) -> Codes:
    """Returns (rows, N · columns) of words (rows, columns), the lowest bits first."""
    shifts = np.arange(0, _WORD_BITS, bits, dtype=np.uint32)
    codes = (words[:, :, None] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(len(words), -1)


def _equal_groups(prefix: str, inputs: int, groups: int) -> NDArray[np.int64]:
    if groups < 1 or inputs % groups:
        raise _no_fit(prefix)
    return np.arange(inputs) // (inputs // groups)


def _group_of_inputs(
    stored: TensorSource, name: str, config: Config, inputs: int, groups: int
) -> NDArray[np.int64]:
    """Returns the group of each input: as `name` says, or in order."""
    if name not in stored.infos:
        size = config.get("group_size", 0)
        if isinstance(size, int) and size > 0 and -(-inputs // size) == groups:  # the last group may be smaller
            return np.arange(inputs) // size
        return _equal_groups(name.rpartition(".")[0] + ".", inputs, groups)
    group = stored.read(name).astype(np.int64)
    if group.shape != (inputs,) or (inputs and not 0 <= group.min() <= group.max() < groups):
        raise _no_fit(name.rpartition(".")[0] + ".")
    return group
