"""Lets a child process find our packages while it stays in the current folder, which paths may start from."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parent.parent)


def with_our_packages(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns an environment in which a child that is started with Python's -P imports what this process does."""
    if sysconfig.get_path("purelib") == _ROOT:  # installed: found without help, and ahead of Python's own it would harm
        return dict(environment)
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, environment.get("PYTHONPATH"))))}
