"""A file of weights, mapped into memory and read-only. Knows nothing of what it holds."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runtime.model_errors import DamagedModel, ModelUnreadable
from runtime.text import _

Bytes = NDArray[np.uint8]


class MappedFile:
    """Gives out pieces of a file as read-only arrays, which stay valid when the object is closed.

    Raises `ModelUnreadable` where the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise ModelUnreadable(path, _("The system says: {error}.").format(error=error)) from error
        self._bytes: Bytes = np.frombuffer(self._map, np.uint8)

    def piece(self, offset: int, n_bytes: int, *, align: int = 1) -> Bytes:
        """Returns the bytes at `offset`; a copy where their address is no multiple of `align`.

        Raises `DamagedModel` where the file does not reach so far, or has become shorter since it was opened: to read
        beyond its end would kill the process.
        """
        if offset + n_bytes > min(self._bytes.size, self._map.size()):
            raise DamagedModel(self.path, _("The file became shorter while it was read."))
        piece = self._bytes[offset : offset + n_bytes]
        return piece if piece.ctypes.data % align == 0 else _read_only_copy(piece)

    def release(self, offset: int, n_bytes: int) -> None:
        """Lets the system take back the memory of these bytes; whoever reads them again reads from the file.

        Pieces that were given out may be let go like this after `close`, too.
        """
        if n_bytes and hasattr(mmap, "MADV_DONTNEED"):  # Windows takes back what it needs by itself
            start = offset // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, start, min(offset + n_bytes, len(self._map)) - start)

    def close(self) -> None:
        """Forgets the file; the map itself goes when the last piece of it does."""
        self._bytes = self._bytes[:0]


def _read_only_copy(piece: Bytes) -> Bytes:
    copy = piece.copy()
    copy.flags.writeable = False
    return copy
