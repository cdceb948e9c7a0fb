"""How long the list of models takes: a thousand files, cold and from the cache, and what it keeps in memory.

    python tests/benchmarks/bench_library.py                      small headers
    python tests/benchmarks/bench_library.py --vocabulary 32000   with a vocabulary and as many merges in every file
    python tests/benchmarks/bench_library.py --hostile            headers that claim more than they hold

The target is under two seconds cold and a fraction of that from the cache, without reading weights; hostile files must
stay below one second and 100 MB.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from raw_gguf import ARRAY, F32, STRING, U32, pack, with_keys  # noqa: E402
from runtime.library import Library  # noqa: E402
from runtime.places import places  # noqa: E402


def ordinary(entries: int) -> Iterator[bytes]:
    """Yields the same model again and again."""
    tokens = [f"token{n}" for n in range(entries)]
    keys = (
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [0.0] * entries)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, ["to ken"] * entries)),
    )
    return cycle([pack(with_keys(*keys))])


def hostile() -> Iterator[bytes]:
    """Yields headers that claim giant things."""
    return cycle([
        pack(n_kv=10**7),
        pack(with_keys(("general.alignment", U32, 1 << 30))),
        pack([("general.architecture", STRING, (1 << 30).to_bytes(8, "little"))]),
        pack(with_keys(("tokenizer.ggml.tokens", ARRAY, (STRING, [], 10**8)))),
    ])


def main() -> None:
    """Writes the files, and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--vocabulary", type=int, default=2, help="tokens, and merges, in every file")
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_HOME"] = os.environ["HOME"] = folder
        contents = hostile() if options.hostile else ordinary(options.vocabulary)
        for number, content in zip(range(options.files), contents, strict=False):
            path = places().models / f"publisher{number % 20}" / f"Model-{number}-Q4_0.gguf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for look in ("cold", "cached", "cached"):
            measure(look)


def measure(look: str) -> None:
    """Prints the time and the growth of one look."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = Library(()).models()
    seconds = time.perf_counter() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    sys.stdout.write(f"{look:7} {len(found):5} models  {seconds:6.3f} s  {grown:4} MB more\n")


if __name__ == "__main__":
    main()
