"""The only door to packaged data: icons, themes, translations, templates, help, texts. Imports nothing of ours."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parent


def path(*parts: str) -> Path:
    """Returns the path of a packaged file or folder, also in a frozen application."""
    return _ROOT.joinpath(*parts)


def read_text(*parts: str) -> str:
    """Returns a packaged text file. Raises FileNotFoundError where the package lacks it."""
    return path(*parts).read_text(encoding="utf-8")
