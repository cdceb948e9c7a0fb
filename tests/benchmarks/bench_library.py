"""How long the list of models takes: a thousand files, cold and from the cache, and what it keeps in memory.

    python tests/benchmarks/bench_library.py                        20 vocabularies of 32,000 tokens among the files
    python tests/benchmarks/bench_library.py --vocabularies 1000    each file with its own: nothing can be recognized
    python tests/benchmarks/bench_library.py --hostile              headers that claim more than they hold

The target is under two seconds cold and a fraction of that from the cache, without reading weights; hostile files must
stay below one second and 100 MB.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from raw_gguf import ARRAY, F32, I32, STRING, U32, pack, text, with_keys  # noqa: E402
from runtime.library import Library  # noqa: E402
from runtime.places import places  # noqa: E402

SYLLABLES = ("an", "ber", "co", "dun", "e", "for", "gri", "ho")
LAYERS, Q4_0 = 32, 2
PARTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm")


def ordinary(entries: int, vocabularies: int) -> Iterator[tuple[bytes, int]]:
    """Yields models of 7B parameters with one of so many vocabularies, and the size that each file claims."""
    draw = random.Random(0)
    tokens = [f"{draw.choice(SYLLABLES)}{draw.choice(SYLLABLES)}{n}" for n in range(entries)]
    merges = [f"{token[:3]} {token[3:]}" for token in tokens]
    packed = [[text(word) for word in words] for words in (tokens, merges)]
    for number in count():
        at = number % vocabularies * 31 % entries
        yield model(*(struct.pack("<iQ", STRING, entries) + b"".join(words[at:] + words[:at]) for words in packed),
                    entries)  # fmt: skip


def model(tokens: bytes, merges: bytes, entries: int) -> tuple[bytes, int]:
    """Returns a header in the order in which llama.cpp's converter writes it, and the size of the file."""
    keys = (
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, tokens),
        ("tokenizer.ggml.scores", ARRAY, struct.pack("<iQ", F32, entries) + bytes(4 * entries)),
        ("tokenizer.ggml.token_type", ARRAY, struct.pack("<iQ", I32, entries) + bytes(4 * entries)),
        ("tokenizer.ggml.merges", ARRAY, merges),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.chat_template", STRING, "{{ messages }}" * 200),
        ("general.quantization_version", U32, 2),
        ("general.file_type", U32, 2),
    )
    names = [f"blk.{layer}.{part}.weight" for layer in range(LAYERS) for part in PARTS]
    size = 4096 * 4096 // 32 * 18
    tensors = [(name, (4096, 4096), Q4_0, size * at) for at, name in enumerate(names)]
    header = pack(with_keys(*keys), tensors, b"")
    return header, len(header) + size * len(tensors)


def hostile() -> Iterator[tuple[bytes, int]]:
    """Yields headers that claim giant things."""
    lies = [
        pack(n_kv=10**7),
        pack(with_keys(("general.alignment", U32, 1 << 30))),
        pack([("general.architecture", STRING, (1 << 30).to_bytes(8, "little"))]),
        pack(with_keys(("tokenizer.ggml.tokens", ARRAY, (STRING, [], 10**8)))),
    ]
    return cycle([(lie, len(lie)) for lie in lies])


def main() -> None:
    """Writes the files, and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--vocabulary", type=int, default=32_000, help="tokens, and merges, in every file")
    parser.add_argument("--vocabularies", type=int, default=20, help="different ones among all files")
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_HOME"] = os.environ["HOME"] = folder
        contents = hostile() if options.hostile else ordinary(options.vocabulary, options.vocabularies)
        for number, (content, size) in zip(range(options.files), contents, strict=False):
            path = places().models / f"publisher{number % 20}" / f"Model-{number}-Q4_0.gguf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.truncate(path, size)  # weights that nobody reads take no room
        for look in ("cold", "cached", "cached"):
            measure(look)


def measure(look: str) -> None:
    """Prints the time and the growth of one look."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, computed = time.perf_counter(), time.process_time()
    found = Library(()).models()
    seconds, computed = time.perf_counter() - started, time.process_time() - computed
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    times = f"{seconds:6.3f} s, {computed:6.3f} s of a processor"
    sys.stdout.write(f"{look:7} {len(found):5} models  {times}  {grown:4} MB more\n")


if __name__ == "__main__":
    main()
