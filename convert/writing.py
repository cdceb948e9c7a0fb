"""Writes a planned file: reads, packs and writes block by block, and can be stopped between any two. Checks nothing.

What was packed is written by a thread of its own, so that reading and packing go on meanwhile.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Queue
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from convert.gguf_file import ALIGNMENT, Layout
from convert.packing import packed
from convert.plan import Plan
from convert.recipes import Choice
from convert.safe_file import SafeFiles
from convert.tensors import Product
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.text import _

_AHEAD = 3  # pieces that may wait to be written
_SMALL = 1 << 21  # numbers of a tensor that one thread packs as a whole


class ConversionStopped(UserError):
    """The person ended the conversion."""

    code = "conversion_stopped"

    def __init__(self) -> None:
        super().__init__(_("The conversion was stopped; nothing was written."))


class WriteProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`done` of `total` bytes are written; `tensor` is the one at work."""

    done: int
    total: int
    tensor: str


def write(plan: Plan, files: SafeFiles, stop: StopFlag, *, threads: int) -> Iterator[WriteProgress]:
    """Fills the files, one for each of the plan's layouts, and brings them to the disk; they are not published.

    Raises `ConversionStopped`, `NotNumbers`, `WrongNumbers` and `NotWritten`.
    """
    done = 0
    with _Behind() as behind, closing(_packed(plan, stop, threads)) as ready:
        for number, part in enumerate(plan.layouts):
            for piece, tensor in _pieces(part, ready, behind):
                if stop.is_set():
                    raise ConversionStopped
                behind.do(_writing(files, piece, number))
                done += len(piece)
                yield WriteProgress(done=done, total=plan.size, tensor=tensor)
    files.flush()


def _writing(files: SafeFiles, piece: bytes | memoryview, number: int) -> Callable[[], None]:
    return lambda: files.write(piece, file=number)


class _Ready(NamedTuple):
    """A tensor whose bytes are there, or are made while they are taken."""

    name: str
    product: Product
    pieces: Iterable[memoryview]


def _packed(plan: Plan, stop: StopFlag, threads: int) -> Generator[_Ready, None, None]:
    """Yields the tensors in order. Small ones are packed side by side ahead of their turn."""
    waiting: deque[tuple[Choice, Product, Future[list[memoryview]] | None]] = deque()
    pool = ThreadPoolExecutor(threads, "pack")
    try:
        for choice, product in zip(plan.choices, plan.products, strict=True):
            ahead = pool.submit(_whole, plan, choice, product, stop) if _is_small(choice) else None
            waiting.append((choice, product, ahead))
            if len(waiting) > threads + 1:
                yield _ready(plan, *waiting.popleft(), threads)
        while waiting:
            yield _ready(plan, *waiting.popleft(), threads)
    finally:
        pool.shutdown(cancel_futures=True)


def _whole(plan: Plan, choice: Choice, product: Product, stop: StopFlag) -> list[memoryview]:
    """Returns a tensor's bytes. Raises `ConversionStopped`."""
    pieces = []
    for piece in packed(choice, product, importance=plan.weights_of(choice), threads=1):
        if stop.is_set():
            raise ConversionStopped
        pieces.append(piece)
    return pieces


def _ready(
    plan: Plan, choice: Choice, product: Product, ahead: Future[list[memoryview]] | None, threads: int
) -> _Ready:
    if ahead is not None:
        return _Ready(choice.tensor.name, product, ahead.result())
    pieces = packed(choice, product, importance=plan.weights_of(choice), threads=threads)
    return _Ready(choice.tensor.name, product, pieces)


def _is_small(choice: Choice) -> bool:
    return math.prod(choice.tensor.shape) <= _SMALL


def _pieces(part: Layout, ready: Iterator[_Ready], behind: _Behind) -> Iterator[tuple[bytes | memoryview, str]]:
    """Yields a file's bytes in order, each with the name of the tensor at work."""
    yield part.header, ""
    done = len(part.header)
    for placed, (name, product, pieces) in zip(part.tensors, ready, strict=False):
        assert (done, name) == (placed.offset, placed.entry.name)
        for piece in pieces:
            yield piece, name
            done += len(piece)
            behind.do(product.release)  # what was read so far; the rest is read again from the file
        assert done == placed.offset + placed.entry.n_bytes
        yield bytes(-done % ALIGNMENT), name
        done += -done % ALIGNMENT


class _Behind:
    """Does one thing after the other on a thread; `do` waits while too much is undone, and raises what went wrong."""

    def __init__(self) -> None:
        self._queue: Queue[Callable[[], None] | None] = Queue(_AHEAD)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def do(self, task: Callable[[], None]) -> None:
        if self._error is not None:
            raise self._error
        self._queue.put(task)

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            if self._error is None:
                try:
                    task()
                except BaseException as error:  # noqa: BLE001 - it is raised where the work was given
                    self._error = error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._error = self._error or error  # what waits is left undone
        self._queue.put(None)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error
