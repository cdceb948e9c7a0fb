"""Bounds how long idle threads spin, before a library brings an OpenMP of its own. Loads no engine."""

from __future__ import annotations

import os
from typing import Any

# About a millisecond of GNU's iterations: longer than torch needs from one product of matrices to the next, and than
# it takes to draw a token and make its text.
ITERATIONS = 20_000


def bound_spinning(environment: Any = os.environ) -> None:
    """Limits how long idle OpenMP threads spin; must run before any OpenMP library is loaded.

    Unbounded, two threads beside two busy processes on two cores fall to a hundredth of their speed. Spinning hardly at
    all, they sleep and are woken for each token, or with torch for each product of matrices, which costs a few percent
    of llama.cpp's speed and a quarter of torch's. A value that the person has set stays.
    """
    environment.setdefault("GOMP_SPINCOUNT", str(ITERATIONS))
    environment.setdefault("KMP_BLOCKTIME", "1")  # LLVM and Intel: milliseconds
