"""What each part of a bundle costs, as a table of text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bundle_checks import files_below
from bundle_contents import part_of


def sizes(tree: Path) -> dict[str, int]:
    """Returns the bytes of each part, the largest first."""
    counted: Counter[str] = Counter()
    for path in files_below(tree):
        name = path.relative_to(tree).as_posix()
        counted["program and modules" if "/" not in name else part_of(name.removeprefix("_internal/"))] += (
            path.stat().st_size
        )
    return dict(counted.most_common())


def table(tree: Path) -> str:
    """Returns the lines of the table, in megabytes of unpacked files, with their sum."""
    parts = sizes(tree)
    whole = sum(parts.values())
    rows = [*parts.items(), ("all", whole)]
    return "\n".join(f"  {title:36}{size / 1e6:8.1f} MB {size / whole:6.1%}" for title, size in rows)
