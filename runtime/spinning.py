"""Bounds how long idle threads spin, before a library brings an OpenMP of its own. Loads no engine."""

from __future__ import annotations

import os
from typing import Any

BRIEFLY = 2_000  # of GNU's iterations: a tenth of a millisecond, enough between llama.cpp's own steps
BETWEEN_PRODUCTS = 20_000  # a millisecond: longer than torch needs from one product of matrices to the next


def bound_spinning(environment: Any = os.environ, *, iterations: int = BRIEFLY) -> None:
    """Limits how long idle OpenMP threads spin; must run before any OpenMP library is loaded.

    Unbounded, two threads beside two busy processes on two cores fall to a hundredth of their speed. Spinning briefly,
    torch's threads sleep between products, which costs a quarter of its speed on a quiet computer; llama.cpp, which
    does all of a token in one go, gains nothing measurable from more. A value that the person has set stays; the brief
    one, which llama.cpp's library or a parent process may have set before torch comes, gives way to a longer one.
    """
    if environment.get("GOMP_SPINCOUNT") in (None, str(BRIEFLY)):
        environment["GOMP_SPINCOUNT"] = str(iterations)
    environment.setdefault("KMP_BLOCKTIME", "1")  # LLVM and Intel: milliseconds
