"""Bounds how long idle threads spin, before a library brings an OpenMP of its own. Loads no engine."""

from __future__ import annotations

import os
from typing import Any


def bound_spinning(environment: Any = os.environ) -> None:
    """Limits how long idle OpenMP threads spin; must run before any OpenMP library is loaded.

    Unbounded, two threads beside two busy processes on two cores fall to a hundredth of their speed. A value that the
    person has set stays.
    """
    environment.setdefault("GOMP_SPINCOUNT", "2000")  # GNU: iterations
    environment.setdefault("KMP_BLOCKTIME", "1")  # LLVM and Intel: milliseconds
