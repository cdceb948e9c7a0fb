"""What a person asks of a conversion. Knows no file's content."""

from __future__ import annotations

from pathlib import Path

import msgspec

from convert.recipes import Wishes


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`recipe` is a name of `convert.recipes.PLAIN_TYPE`; `agreed` says yes to replacing files and to losing twice.

    `lora` are adapters that are merged into the weights, as `read_adapter` reads them, such as "style=0.5". `base` is
    the model of an adapter that is converted by itself. `importance` is an importance matrix's file. A result larger
    than `split_max_size` bytes is divided. With `verify` it is held against its source before it gets its name; with
    `card` what a quantization cost is measured on `text` (a text of our own where that is None) and kept in the file.
    With `check_values` every weight is read and looked at before anything is written. With `dry_run` nothing is.
    """

    source: Path
    target: Path
    recipe: str
    wishes: Wishes = Wishes()
    lora: tuple[str, ...] = ()
    base: Path | None = None
    importance: Path | None = None
    split_max_size: int = 0
    agreed: bool = False
    dry_run: bool = False
    check_values: bool = False
    verify: bool = False
    card: bool = False
    text: Path | None = None
    threads: int = 0  # 0: all usable cores
