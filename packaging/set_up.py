"""Sets Quern up in this folder and starts it: `python packaging/set_up.py [run | test | check | acceptance]`.

This file only finds a Python that is new enough; it keeps to old syntax so that an old one can say so. The work is in
set_up_actions.py. Nothing but Python's own library is needed.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

OLDEST = (3, 11)
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3.14", "python3", "python")
_IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"


def newer_python(
    candidates: "tuple[str, ...]" = CANDIDATES, which: "Callable[[str], str | None]" = shutil.which
) -> "str | None":
    """Returns the path of the first candidate that runs and is new enough, or None."""
    for name in candidates:
        path = which(name)
        # Version managers leave scripts of every name on PATH; only running one tells whether it leads anywhere.
        if path and _runs(path):
            return path
    return None


def _runs(path: str) -> bool:
    try:
        return subprocess.call([path, "-c", _IS_NEW_ENOUGH], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def too_old(version: "Sequence[object]") -> str:
    """Returns the line that tells a person with an old Python what to do."""
    return (
        "Quern needs Python 3.11 or newer; this is Python "
        + ".".join(str(part) for part in version[:2])
        + ". Install a newer one (python.org, or your system's packages) and run this again."
    )


def main() -> None:
    """Hands over to the set-up, under a newer Python where this one is too old."""
    if sys.version_info < OLDEST:
        path = newer_python()
        if path is None:
            sys.exit(too_old(sys.version_info))
        sys.exit(subprocess.call([path, os.path.abspath(__file__), *sys.argv[1:]]))
    from set_up_actions import main as set_up

    sys.exit(set_up(sys.argv[1:]))


if __name__ == "__main__":
    main()
