"""The quality card's figures against those of llama.cpp's own perplexity tool, on the same two files and text.

    python tests/benchmarks/bench_compare.py REFERENCE CANDIDATE --tool BUILD/bin/llama-perplexity [--text FILE]

Ends with 1 where a figure differs by more than a hundredth; quantiles of the divergence by three, since with a text of
two thousand positions the tool's own move as far when it packs the same weights otherwise (--no-repack).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "resources" / "evaluation" / "text.txt"
QUANTILES = ("kl.median", "kl.p99")
# Ours, the words of the tool's table, and what its numbers are to be multiplied with
FIGURES = (
    ("perplexity.candidate", r"Mean PPL\(Q\)", 1.0), ("perplexity.reference", r"Mean PPL\(base\)", 1.0),
    ("kl.mean", r"Mean\s+KLD", 1.0), ("kl.median", r"Median\s+KLD", 1.0), ("kl.p99", r"99\.0%\s+KLD", 1.0),
    ("kl.max", r"Maximum\s+KLD", 1.0), ("top1_agreement", "Same top p", 0.01), ("probability_rms", "RMS Δp", 0.01),
)  # fmt: skip


def theirs(tool: Path, reference: Path, candidate: Path, text: Path) -> str:
    """Returns what the tool says of the candidate."""
    with tempfile.TemporaryDirectory() as scratch:
        common = [str(tool), "-f", str(text), "-c", "512", "--kl-divergence-base", f"{scratch}/base"]
        subprocess.run([*common, "-m", str(reference)], check=True, capture_output=True)
        done = subprocess.run(
            [*common, "-m", str(candidate), "--kl-divergence"], check=True, capture_output=True, text=True
        )
    return done.stdout + done.stderr


def ours(reference: Path, candidate: Path, text: Path) -> dict[str, object]:
    """Returns what `quern compare` says."""
    words = [str(reference), str(candidate), "--text", str(text), "--json"]
    command = [sys.executable, "-m", "desktop", "compare", *words]
    done = subprocess.run(
        command, check=True, capture_output=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


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
    said = theirs(given.tool, given.reference, given.candidate, given.text)
    mine, worst = ours(given.reference, given.candidate, given.text), 0.0
    for name, words, scale in FIGURES:
        found = re.search(rf"{words}\s*:\s*([-\d.]+)", said)
        if found is None:
            raise SystemExit(f"the tool says nothing of {words}:\n{said[-2000:]}")
        one, other = figure(mine, name), scale * float(found[1])
        worst = max(worst, abs(one / other - 1) / (0.03 if name in QUANTILES else 0.01))
        sys.stdout.write(f"{name:22} {one:10.5f}  llama.cpp {other:10.5f}  {100 * (one / other - 1):+.2f} %\n")
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
