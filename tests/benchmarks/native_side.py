"""One side of bench_native.py: a process that holds a model, and measures what it is told on its standard input.

    python native_side.py native|transformers FOLDER DTYPE THREADS

It prints one JSON line when the model is loaded, and one for every command: {"do": "prompt", "tokens": 512} and so on.
Both sides get the same random tokens, take the likeliest next one, and ask for the logits of the last position only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from runtime.spinning import BETWEEN_PRODUCTS, bound_spinning  # noqa: E402

bound_spinning(iterations=BETWEEN_PRODUCTS)  # before torch comes: its threads then spin as in the engine, on both sides

import psutil  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from runtime.checkpoint import open_checkpoint  # noqa: E402
from runtime.native.kv_cache import KVCache  # noqa: E402
from runtime.native.lending import Lending  # noqa: E402
from runtime.native.load import load_model  # noqa: E402
from runtime.native.one_token import OneToken  # noqa: E402

_FLOATS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_STREAMED = 512 << 20  # bytes that the measured reading goes through: more than caches hold


class Side(Protocol):
    """A model with the text it has read."""

    def clear(self, room: int) -> None:
        """Begins a new text, of at most so many tokens."""

    def pretend(self, tokens: int) -> None:
        """Fills the cache as if so many tokens had been read."""

    def read(self, ids: Tensor) -> Tensor:
        """Reads tokens (1, T) and returns the logits (V) behind the last one."""

    def settle(self) -> None:
        """Waits for what loading left to be done."""


class Native:
    """Our own Transformer, loaded as the engine loads it."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._lending = Lending() if dtype in _FLOATS else None
        self.model = load_model(open_checkpoint(folder), dtype=dtype, lending=self._lending)
        self.float = dtype if dtype in _FLOATS else "bf16"
        self._shorten()
        if self._lending is not None:
            self._lending.move(then=self._shorten)

    def _shorten(self) -> None:
        self.one_token = OneToken.of(self.model)

    def settle(self) -> None:
        if self._lending is not None:
            self._lending.wait()

    def clear(self, room: int) -> None:
        self.cache = KVCache(self.model.config, capacity=room, k_type=self.float, v_type=self.float,
                             dtype=_FLOATS[self.float])  # fmt: skip

    def pretend(self, tokens: int) -> None:
        config = self.model.config
        vectors = torch.randn(1, config.n_kv_heads, tokens, config.head_dim, dtype=_FLOATS[self.float])
        for layer in range(config.n_layers):
            self.cache.append(layer, vectors, vectors)
        self.cache.advance(tokens)

    def read(self, ids: Tensor) -> Tensor:
        with nullcontext() if self._lending is None else self._lending.read():
            if ids.numel() == 1 and self.one_token is not None:
                logits = self.one_token(ids, self.cache)
            else:
                logits = self.model(ids, cache=self.cache, last_only=True)
        self.cache.advance(ids.shape[1])
        return logits[0, -1]


class Transformers:
    """The same weights in transformers, with the attention it chooses and the cache it makes."""

    def __init__(self, folder: Path, dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=_FLOATS[dtype]).eval()

    def settle(self) -> None:
        """Everything was done at once."""

    def clear(self, room: int) -> None:
        from transformers import DynamicCache

        self.cache = DynamicCache(config=self.model.config)

    def pretend(self, tokens: int) -> None:
        config = self.model.config
        dtype = next(self.model.parameters()).dtype
        vectors = torch.randn(1, config.num_key_value_heads, tokens, config.head_dim, dtype=dtype)
        for layer in range(config.num_hidden_layers):
            self.cache.update(vectors, vectors, layer)

    def read(self, ids: Tensor) -> Tensor:
        return self.model(ids, cache=self.cache, use_cache=True, logits_to_keep=1).logits[0, -1]


@contextmanager
def timed(report: dict[str, float]) -> Any:
    """Adds the seconds and the processor seconds that the block takes."""
    wall, processor = time.perf_counter(), time.process_time()
    yield
    report["seconds"] = time.perf_counter() - wall
    report["processor_seconds"] = time.process_time() - processor


def measure_prompt(side: Side, tokens: int) -> dict[str, float]:
    side.clear(tokens)
    ids = torch.randint(1000, 40_000, (1, tokens), generator=torch.Generator().manual_seed(tokens))
    report: dict[str, float] = {}
    with timed(report):
        side.read(ids)
    return report


def measure_generation(side: Side, tokens: int, context: int) -> dict[str, float]:
    side.clear(context + tokens + 1)
    if context:
        side.pretend(context)
    token = side.read(torch.tensor([[1]])).argmax().view(1, 1)
    report: dict[str, float] = {}
    with timed(report):
        for _ in range(tokens):
            token = side.read(token).argmax().view(1, 1)
            token.item()  # whoever shows text needs to know it
    return report


def measure_bandwidth(repetitions: int) -> dict[str, float]:
    """Times the fastest reading of a long row of numbers that is known here: a product of a large f32 matrix."""
    matrix, vector = torch.ones(_STREAMED // 4 // 1024, 1024), torch.ones(1024)
    best = float("inf")
    for _ in range(repetitions):
        started = time.perf_counter()
        torch.mv(matrix, vector)
        best = min(best, time.perf_counter() - started)
    return {"bytes_per_second": _STREAMED / best}


def weight_bytes(side: Native) -> int:
    """Returns what a token reads: every matrix once, of an embedding that is not the head nothing to speak of."""
    tensors = {t.data_ptr(): t.nbytes for t in (*side.model.parameters(), *side.model.buffers())}
    if side.model.head is not None and isinstance(side.model.embedding, torch.nn.Embedding):
        tensors.pop(side.model.embedding.weight.data_ptr(), None)
    return sum(tensors.values())


def most_memory() -> int:
    """Returns the most memory this process has held, mapped files included (Linux; elsewhere what it holds now)."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    peak = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    return peak or psutil.Process().memory_info().rss


def loaded(kind: str, folder: Path, dtype: str) -> tuple[Side, dict[str, float]]:
    """Loads a model; tells the time until it is there, until it has read a token, and until it has given an answer.

    The processor time and the memory are those of all of it, with what loading left to be done.
    """
    make: Callable[[Path, str], Side] = Native if kind == "native" else Transformers
    if kind != "native":
        from transformers import LlamaForCausalLM  # noqa: F401  # imports are not what is measured
    before = psutil.Process().memory_info().rss
    report: dict[str, float] = {}
    with timed(report):
        side = make(folder, dtype)
        loading = time.perf_counter()
        side.clear(8)
        side.read(torch.tensor([[1]]))
        report["first_token_seconds"] = time.perf_counter() - loading
    report["answer_seconds"] = report["seconds"] + sum(
        each["seconds"] for each in (measure_prompt(side, 64), measure_generation(side, 32, 0))
    )
    side.settle()
    report["load_seconds"] = report["seconds"] - report["first_token_seconds"]
    report["peak_bytes"] = most_memory() - before
    if isinstance(side, Native):
        report["weight_bytes"] = weight_bytes(side)
    return side, report


def main() -> None:
    kind, folder, dtype, threads = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    with torch.inference_mode():
        side, report = loaded(kind, folder, dtype)
        answer(report)
        for line in sys.stdin:
            command = json.loads(line)
            kind = command.pop("do")
            if kind == "prompt":
                answer(measure_prompt(side, **command))
            elif kind == "generate":
                answer(measure_generation(side, **command))
            else:
                answer(measure_bandwidth(**command))


def answer(report: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
