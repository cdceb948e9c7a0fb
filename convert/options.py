"""What a person asks of a conversion. Knows no file's content."""

from __future__ import annotations

from pathlib import Path

import msgspec

from convert.recipes import Wishes


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`recipe` is a name of `convert.recipes.PLAIN_TYPE`; `agreed` says yes to replacing files and to losing twice.

    `importance` is an importance matrix's file. With `dry_run` nothing is written.
    """

    source: Path
    target: Path
    recipe: str
    wishes: Wishes = Wishes()
    importance: Path | None = None
    agreed: bool = False
    dry_run: bool = False
    threads: int = 0  # 0: all usable cores
