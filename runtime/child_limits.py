"""Limits that a child process sets itself before it touches what a stranger wrote. Knows no task."""

from __future__ import annotations

import sys
from pathlib import Path

CAN_LIMIT_MEMORY = sys.platform == "linux"  # elsewhere the limit is missing or not kept; the parent watches


def limit_memory(more: int) -> None:
    """Lets this process take at most so many bytes beyond what it holds now; does nothing where that cannot be set."""
    if not CAN_LIMIT_MEMORY:
        return
    import resource  # not on Windows

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)  # a shell or a cluster may have set some; they only go down
    lowest = min(limit for limit in (held + more, *limits) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (lowest, limits[1]))
