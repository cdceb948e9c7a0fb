"""Reads the fields of a GGUF file one after the other, never believing a number. Knows no model.

Every count and length is held against the bytes that are left in the file before anything is allocated, and the
file is read, not mapped: a file that shrinks while it is read ends in an error and not in a bus error.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from runtime import gguf_strings
from runtime.gguf_types import ARRAY, BOOL, SCALARS, STRING, UINT32, VALUE_TYPE_NAMES
from runtime.model_errors import DamagedModel, clean_name
from runtime.text import _

MAX_ENTRIES = 1 << 21  # strings in all arrays together; the largest vocabularies have 2^18 tokens and 2^19 merges
_MAX_NAME_BYTES = 65535  # the format's own limit for keys
_KEPT_TEXT_BYTES = 1 << 20  # longer texts stay in the file until somebody asks for them
_KEPT_TOTAL_BYTES = 1 << 24
_NUMBER_BYTES = 64  # about what a number costs in a Python tuple
_KEPT_NUMBERS, _KEPT_STRINGS = 1024, 64
_CHUNK = 1 << 16
_ROOM_PER_TEXT = 64  # bytes, on average, in which the end of a list is looked for
_UNSEEN = "The end of a list does not show."  # for nobody: the file is then read without guessing
MAX_TENSOR_NAME, MAX_DIMS = 63, 4  # ggml keeps names in 64 bytes
_MOST_TENSOR_BYTES = 8 + MAX_TENSOR_NAME + 4 + 8 * MAX_DIMS + 4 + 8
_LENGTH = struct.Struct("<Q")

Scalar = int | float | bool | str


class Lie(Exception):
    """A field that cannot be true; the message is the reason, a sentence for people."""


@dataclass(frozen=True, slots=True)
class GgufArray:
    """An array that stays in the file until its values are asked for."""

    path: Path
    item_type: str
    count: int
    offset: int
    n_bytes: int

    def __len__(self) -> int:
        return self.count

    def values(self) -> list[Scalar]:
        """Returns all items; bytes that are no UTF-8 come as U+FFFD. Raises `DamagedModel`, `OSError`."""
        return list(self)

    def __iter__(self) -> Iterator[Scalar]:
        with self._cursor() as cursor:
            yield from cursor.items(_TYPE_BY_NAME[self.item_type], self.count)

    def raw_strings(self) -> Iterator[bytes]:
        """Yields the texts of an array of strings as they are in the file. Raises like `values`."""
        with self._cursor() as cursor:
            yield from cursor.raw_strings(self.count)

    def raw_bytes(self) -> bytes:
        """Returns an array of numbers as it is in the file. Raises `OSError`."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.n_bytes)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        try:
            with self.path.open("rb") as file:
                yield Cursor(file, self.offset + self.n_bytes, self.offset)
        except Lie as lie:
            raise DamagedModel(self.path, str(lie)) from lie


@dataclass(frozen=True, slots=True)
class GgufText:
    """A text too long to be kept; stays in the file until it is asked for."""

    path: Path
    offset: int
    n_bytes: int

    def text(self) -> str:
        """Returns the text. Raises `OSError`."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.n_bytes).decode("utf-8", "replace")


Value = Scalar | tuple[Scalar, ...] | GgufArray | GgufText
_TYPE_BY_NAME = {name: number for number, name in VALUE_TYPE_NAMES.items()}


def _unknown_type(key: str, number: int) -> Lie:
    return Lie(_("The value of “{key}” has the unknown type {type}.").format(key=clean_name(key), type=number))


def _is_small(array: GgufArray) -> bool:
    if array.item_type != "string":
        return array.count <= _KEPT_NUMBERS
    return array.count <= _KEPT_STRINGS and array.n_bytes <= _CHUNK


class Cursor:
    """A position in an open file of `size` bytes, with a small buffer behind it.

    With `guess` long lists of texts are taken to end where the next key seems to begin.
    """

    def __init__(self, file: BufferedIOBase, size: int, position: int = 0, *, guess: bool = False) -> None:
        self._file = file
        self._size = size
        self._guess = guess
        self._buffer = b""
        self._start = position  # where in the file the buffer begins
        self._at = 0
        self._kept = 0
        self._entries = 0
        file.seek(position)

    @property
    def position(self) -> int:
        return self._start + self._at

    @property
    def left(self) -> int:
        """Bytes between here and the end of the file."""
        return self._size - self.position

    def take(self, n: int) -> bytes:
        """Returns the next `n` bytes. Raises `Lie` where the file ends before."""
        if n > len(self._buffer) - self._at:
            self._fill(n)
        data = self._buffer[self._at : self._at + n]
        self._at += n
        return data

    def skip(self, n: int) -> None:
        """Moves on without reading."""
        self._check(n)
        if n <= len(self._buffer) - self._at:
            self._at += n
            return
        self._start, self._at, self._buffer = self.position + n, 0, b""
        self._file.seek(self._start)

    def number(self, value_type: int) -> int | float:
        """Returns one number of a scalar type."""
        packed = SCALARS[value_type]
        value: int | float = packed.unpack(self.take(packed.size))[0]
        return value

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def name(self) -> str:
        """Returns a key or a tensor's name. Raises `Lie` for one that is empty, too long or no UTF-8."""
        length = self.u64()
        self._check(length)
        if not 0 < length <= _MAX_NAME_BYTES:
            raise Lie(_("A name is {length} bytes long; names have 1 to 65,535.").format(length=f"{length:,}"))
        if not self._keeps(length):
            raise Lie(_("Its header holds more names than any model has."))
        raw = self.take(length)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Lie(_("A name in its header is not UTF-8 text.")) from error
        if "\0" in name:  # native code would see another, shorter name
            raise Lie(_("The name “{name}” in its header holds a zero byte.").format(name=clean_name(name)))
        return name

    def tensors(self, count: int) -> Iterator[tuple[str, bytes, int]]:
        """Yields of each tensor its name, its number of dimensions, dimensions and type as bytes, and its offset."""
        unpack, unpack_u32 = _LENGTH.unpack_from, SCALARS[UINT32].unpack_from
        while count:
            buffer, at, last = self._buffer, self._at, len(self._buffer) - _MOST_TENSOR_BYTES
            while count and at <= last:
                after = at + 8 + unpack(buffer, at)[0]
                name = buffer[at + 8 : after]
                n_dims = unpack_u32(buffer, after)[0] if 0 < len(name) <= MAX_TENSOR_NAME else 0
                if not 0 < n_dims <= MAX_DIMS or not name.isascii() or 0 in name:
                    break
                end = after + 4 + 8 * n_dims + 4
                at, count = end + 8, count - 1
                yield name.decode("ascii"), buffer[after:end], unpack(buffer, end)[0]
            self._at = at
            if count and at > last and self.left >= _MOST_TENSOR_BYTES:
                self._fill(_MOST_TENSOR_BYTES)
            elif count:
                yield self._odd_tensor()
                count -= 1

    def _odd_tensor(self) -> tuple[str, bytes, int]:
        """Does the same field by field: for tensors at the end of the file, with other names, or wrong ones."""
        name = self.name()
        length = len(name.encode())
        if length > MAX_TENSOR_NAME:
            raise Lie(_("A tensor's name is {n} bytes long; {limit} are allowed.").format(
                n=length, limit=MAX_TENSOR_NAME))  # fmt: skip
        counted = self.take(4)
        n_dims = int.from_bytes(counted, "little")
        if not 1 <= n_dims <= MAX_DIMS:
            raise Lie(_("Tensor “{name}” has {n} dimensions; 1 to 4 are possible.").format(
                name=clean_name(name), n=f"{n_dims:,}"))  # fmt: skip
        return name, counted + self.take(8 * n_dims + 4), self.u64()

    def value(self, path: Path, key: str, value_type: int) -> Value:
        """Returns the value of a key; long ones as `GgufArray` or `GgufText`."""
        if value_type == STRING:
            return self._text(path)
        if value_type == ARRAY:
            return self._array(path, key)
        return self._scalar(value_type, key)

    def items(self, item_type: int, count: int) -> Iterator[Scalar]:
        """Yields the items of an array."""
        if item_type == STRING:
            for raw in self.raw_strings(count):
                yield raw.decode("utf-8", "replace")
            return
        packed = SCALARS[item_type]
        step = _CHUNK // packed.size
        for first in range(0, count, step):
            for (value,) in packed.iter_unpack(self.take(min(step, count - first) * packed.size)):
                yield bool(value) if item_type == BOOL else value

    def raw_strings(self, count: int) -> Iterator[bytes]:
        """Yields the texts of an array as they are in the file."""
        while count:
            buffer, at, unpack = self._buffer, self._at, _LENGTH.unpack_from
            last = len(buffer) - _LENGTH.size
            while count and at <= last:
                start = at + _LENGTH.size
                after = start + unpack(buffer, at)[0]
                if after > len(buffer):
                    break
                yield buffer[start:after]
                at, count = after, count - 1
            self._at = at
            if count:
                yield self._string_beyond_buffer()
                count -= 1

    def _string_beyond_buffer(self) -> bytes:
        length = self._length()
        if length > _KEPT_TEXT_BYTES:
            raise Lie(_("An entry of a list is {n} bytes long.").format(n=f"{length:,}"))
        return self.take(length)

    def _scalar(self, value_type: int, key: str) -> Scalar:
        if value_type not in SCALARS:
            raise _unknown_type(key, value_type)
        value = self.number(value_type)
        return bool(value) if value_type == BOOL else value

    def _text(self, path: Path) -> str | GgufText:
        length = self._length()
        if length > _KEPT_TEXT_BYTES or not self._keeps(length):
            text = GgufText(path, self.position, length)
            self.skip(length)
            return text
        return self.take(length).decode("utf-8", "replace")

    def _array(self, path: Path, key: str) -> tuple[Scalar, ...] | GgufArray:
        item_type, count = self.u32(), self.u64()
        if item_type == ARRAY:
            raise Lie(
                _("The value of “{key}” is a list of lists, which the format does not allow.").format(
                    key=clean_name(key)
                )
            )
        if item_type != STRING and item_type not in SCALARS:
            raise _unknown_type(key, item_type)
        size = _LENGTH.size if item_type == STRING else SCALARS[item_type].size
        if count * size > self.left:
            raise Lie(
                _("“{key}” claims {count} entries; the file has only {left} bytes left there.").format(
                    key=clean_name(key), count=f"{count:,}", left=f"{self.left:,}"
                )
            )
        start = self.position
        if item_type == STRING:
            self._skip_strings(key, count)
        else:
            self.skip(count * size)
        array = GgufArray(path, VALUE_TYPE_NAMES[item_type], count, start, self.position - start)
        if _is_small(array) and self._keeps(array.n_bytes + count * _NUMBER_BYTES):
            return self._kept_items(array, item_type)
        return array

    def _keeps(self, n_bytes: int) -> bool:
        """Says whether that much more may stay in memory, and counts it."""
        if self._kept + n_bytes > _KEPT_TOTAL_BYTES:
            return False
        self._kept += n_bytes
        return True

    def _kept_items(self, array: GgufArray, item_type: int) -> tuple[Scalar, ...]:
        end = self.position
        self._move(array.offset)
        values = tuple(self.items(item_type, array.count))
        self._move(end)
        return values

    def _move(self, position: int) -> None:
        if self._start <= position <= self._start + len(self._buffer):
            self._at = position - self._start
            return
        self._start, self._at, self._buffer = position, 0, b""
        self._file.seek(position)

    def _skip_strings(self, key: str, count: int) -> None:
        self._entries += count
        if self._entries > MAX_ENTRIES:
            raise Lie(
                _("“{key}” claims {count} entries, more than any model has.").format(
                    key=clean_name(key), count=f"{count:,}"
                )
            )
        if self._guess and count > _KEPT_STRINGS:
            self._skip_to_next_key(count)
            return
        while count:
            self._at, left = gguf_strings.passed(self._buffer, self._at, count)
            if left == count:  # the next text reaches beyond what was read
                self.skip(self._length())
                left -= 1
            count = left

    def _skip_to_next_key(self, count: int) -> None:
        """Passes over a list without asking its texts. Raises `Lie` where its end does not show."""
        start = self.position
        self._file.seek(start)
        end = gguf_strings.end_by_next_key(self._file, start, start + count * _ROOM_PER_TEXT)
        if end < start + count * _LENGTH.size:
            raise Lie(_UNSEEN)
        self._start, self._at, self._buffer = end, 0, b""
        self._file.seek(end)

    def _length(self) -> int:
        length = self.u64()
        self._check(length)
        return length

    def _check(self, n: int) -> None:
        if n > self.left:
            raise Lie(
                _("A field at byte {position} claims {n} bytes; the file ends {left} bytes later.").format(
                    position=f"{self.position:,}", n=f"{n:,}", left=f"{self.left:,}"
                )
            )

    def _fill(self, n: int) -> None:
        self._check(n)
        kept = self._buffer[self._at :]
        self._start, self._at = self.position, 0
        self._buffer = kept + self._file.read(max(n - len(kept), _CHUNK))
        if len(self._buffer) < n:
            raise Lie(_("The file became shorter while it was read."))
