"""The llama.cpp that packages carry, for tests of the real thing: found where it was built, run in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find_tree() -> Path | None:
    """Returns the folder that holds the package `llama_cpp`: QUERN_PACKAGE_TREE, or the newest that was built here."""
    if given := os.environ.get("QUERN_PACKAGE_TREE"):
        return Path(given)
    wheels = Path(os.environ.get("QUERN_WHEELS", ROOT / "build" / "wheels"))
    trees = sorted(wheels.glob("*/tree"), key=lambda tree: tree.stat().st_mtime)
    return trees[-1] if trees else None


def in_process(
    tree: Path, *words: str, python: tuple[str, ...] = (sys.executable,), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `python WORDS` with the tree's llama.cpp in place of the installed one, and with this profile."""
    paths = [environment.pop("PYTHONPATH", ""), str(tree), str(ROOT), str(ROOT / "tests" / "support")]
    return subprocess.run(
        [*python, *words], capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
    )  # fmt: skip
