"""The quality card's figures against those of llama.cpp's own perplexity tool, on the same two files and text.

    python tests/benchmarks/bench_compare.py REFERENCE CANDIDATE --tool BUILD/bin/llama-perplexity [--text FILE]

The tool keeps the reference's log-probabilities in 16 bits, in steps of 16 / 65,535, and leaves out tokens less likely
than e^-16. The card computes exactly. For the divergence both are shown: exact, and from our logits kept as the tool
keeps them; the second is what the tool's must equal.

The tool runs with the library that our engines load, and reads a chunk at a time, as they do: with its own build, and
four chunks at once, the mean divergence differed by five hundredths. A quantized model makes tenths of a logit of the
last bit, so that both must read in groups of tokens that llama.cpp multiplies in the same way.
Ends with 1 where a figure differs by more than a hundredth.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from convert.compare import CHUNK, chunks_of  # noqa: E402
from runtime import engines  # noqa: E402
from runtime.engine import Engine, StopFlag  # noqa: E402
from runtime.params import LoadParams  # noqa: E402

TEXT = ROOT / "resources" / "evaluation" / "text.txt"
_STEPS, _FURTHEST = np.float32(65535), np.float32(16)
F32 = NDArray[np.float32]
# Ours, the words of the tool's table, and what its numbers are to be multiplied with
FIGURES = (
    ("perplexity.candidate", r"Mean PPL\(Q\)", 1.0), ("perplexity.reference", r"Mean PPL\(base\)", 1.0),
    ("kl.mean", r"Mean\s+KLD", 1.0), ("kl.median", r"Median\s+KLD", 1.0), ("kl.p99", r"99\.0%\s+KLD", 1.0),
    ("kl.max", r"Maximum\s+KLD", 1.0), ("top1_agreement", "Same top p", 0.01), ("probability_rms", "RMS Δp", 0.01),
)  # fmt: skip


def theirs(tool: Path, reference: Path, candidate: Path, text: Path) -> str:
    """Returns what the tool says of the candidate."""
    with tempfile.TemporaryDirectory() as scratch:
        size = ["-c", str(CHUNK), "-b", str(CHUNK)]
        common = [str(tool), "-f", str(text), *size, "--kl-divergence-base", f"{scratch}/base"]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library()), "GOMP_SPINCOUNT": "2000"}
        subprocess.run([*common, "-m", str(reference)], check=True, capture_output=True, env=environment)
        command = [*common, "-m", str(candidate), "--kl-divergence"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout + done.stderr


def library() -> Path:
    """Returns where the library lies that our engines load."""
    found = find_spec("llama_cpp")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "lib"


def ours(reference: Path, candidate: Path, text: Path) -> dict[str, object]:
    """Returns what `quern compare` says."""
    words = [str(reference), str(candidate), "--text", str(text), "--json"]
    command = [sys.executable, "-m", "desktop", "compare", *words]
    done = subprocess.run(
        command, check=True, capture_output=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def log_probabilities(logits: F32) -> F32:
    scaled = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(scaled - np.log(np.exp(scaled).sum(axis=1, dtype=np.float64, keepdims=True)).astype(np.float32))


def kept_in_16_bits(logits: F32) -> F32:
    """Returns the log-probabilities (n, V) that the tool reads again after having written those of logits (n, V)."""
    most = logits.max(axis=1, keepdims=True)
    least = np.maximum(logits.min(axis=1, keepdims=True), most - _FURTHEST)
    total = np.log(np.exp(logits - most).sum(axis=1, dtype=np.float64, keepdims=True)).astype(np.float32)
    step = (most - least) / _STEPS
    return np.asarray(step * np.rint(np.maximum(logits - least, 0) / step) + (least - most - total))


def divergences(reference: Path, candidate: Path, text: Path) -> NDArray[np.float64]:
    """Returns the divergence at every position, from our logits by the tool's arithmetic."""
    params = LoadParams(context_length=CHUNK).validated()
    one, other = (engines.open_engine(path, params) for path in (reference, candidate))
    found = []
    try:
        for chunk in chunks_of(one.tokenize(text.read_text("utf-8")), one.begin_marks()):
            p, q = kept_in_16_bits(scored(one, chunk.ids)), log_probabilities(scored(other, chunk.ids))
            found.append(np.where(p > -_FURTHEST, np.exp(p) * (p - q), 0).sum(axis=1, dtype=np.float64))
    finally:
        one.close()
        other.close()
    return np.concatenate(found)


def scored(engine: Engine, ids: Sequence[int]) -> F32:
    """Returns the logits of a chunk's second half but for its last token, after which nothing comes."""
    pieces = engine.logits(ids, StopFlag(), first=len(ids) // 2, at_most=len(ids))
    return np.concatenate([piece.copy() for piece in pieces])[:-1]


def figure(found: object, name: str) -> float:
    for part in name.split("."):
        assert isinstance(found, dict)
        found = found[part]
    assert isinstance(found, int | float)
    return float(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path)
    parser.add_argument("candidate", type=Path)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--text", type=Path, default=TEXT)
    given = parser.parse_args()
    files = given.reference, given.candidate, given.text
    said, mine, kl = theirs(given.tool, *files), ours(*files), divergences(*files)
    rounded = {"kl.mean": kl.mean(), "kl.median": np.median(kl), "kl.p99": np.quantile(kl, 0.99), "kl.max": kl.max()}
    worst = 0.0
    for name, words, scale in FIGURES:
        found = re.search(rf"{words}\s*:\s*([-\d.]+)", said)
        if found is None:
            raise SystemExit(f"the tool says nothing of {words}:\n{said[-2000:]}")
        exact, other = figure(mine, name), scale * float(found[1])
        compared = float(rounded.get(name, exact))
        worst = max(worst, abs(compared / other - 1))
        columns = (f"{way} {value:10.6f} {100 * (value / other - 1):+.2f} %"
                   for way, value in (("exact", exact), ("as the tool keeps it", compared)))  # fmt: skip
        sys.stdout.write(f"{name:22} {'   '.join(columns)}   llama.cpp {other:10.6f}\n")
    return int(worst > 0.01)


if __name__ == "__main__":
    raise SystemExit(main())
