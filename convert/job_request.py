"""What a conversion's process is asked, as one line of JSON. Light: the window imports it and nothing else of here."""

from __future__ import annotations

import sys

import msgspec


class ConvertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are spelled as `runtime.places.spelled_path` does. A dry run may name several recipes."""

    source: str
    target: str
    recipes: tuple[str, ...]
    agreed: bool = False
    dry_run: bool = False
    verify: bool = False
    card: bool = False
    language: str = ""


def convert_command() -> list[str]:
    """Returns the command line that starts the process, also in a frozen application."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "job", "convert"]
    return [sys.executable, "-m", "convert.worker"]


def first_line(request: ConvertRequest) -> bytes:
    """Returns what the process reads first."""
    return msgspec.json.encode(request) + b"\n"
