"""Has an engine's process take its memory in large pages, where the system gives them to whoever asks. Knows no engine.

A token reads every weight and all of the cache. In pages of 4 kB the processor has to look up where each 4 kB lies, in
a virtual machine twice over; in pages of 2 MB it does so once for 500 of them. Most Linux systems give large pages only
to memory that is asked for with `madvise`; neither llama.cpp nor Python asks, but the C library does it for all of them
where a variable says so before the process begins (GNU's C library from 2.35 on; others take no notice).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_VARIABLE = "GLIBC_TUNABLES"
_TUNABLE = "glibc.malloc.hugetlb"
_BY_ADVICE = "1"  # 2 would take pages that an administrator has set aside


def with_large_pages(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns an environment for a process that loads models; what the person has set there stays."""
    tunables = environment.get(_VARIABLE, "")
    if sys.platform != "linux" or _TUNABLE in tunables:
        return dict(environment)
    return {**environment, _VARIABLE: ":".join(filter(None, (tunables, f"{_TUNABLE}={_BY_ADVICE}")))}
