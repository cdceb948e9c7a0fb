"""What this copy of Quern is made of, as text: version, build, engines, and whose work is in it under which licence."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

from PySide6.QtCore import qVersion

from runtime.installation import full_version, installation
from runtime.text import _

# Beside Quern's own: what does the work. The licences of everything inside are in the file of `licence_file`.
_ENGINES = ("llama-cpp-python", "torch")
_LIBRARIES = (
    "PySide6-Essentials", "numpy", "tokenizers", "safetensors", "llguidance", "msgspec", "Jinja2", "markdown-it-py",
    "Pygments", "ziamath", "platformdirs", "click", "rich", "prompt_toolkit", "psutil",
)  # fmt: skip
_LICENCES = "THIRD-PARTY-LICENCES.txt"


def about_text() -> str:
    """Returns the facts, one a line. Reads the metadata of installed packages, so it is for a thread."""
    lines = [
        f"Quern {full_version()}",
        _("Licence: {licence}").format(licence="MIT"),
        "",
        _("Engines"),
        *_described(_ENGINES),
        "",
        _("Libraries"),
        f"  Python {platform.python_version()} — PSF-2.0",
        f"  Qt {qVersion()} — LGPL-3.0",
        *_described(_LIBRARIES),
        "",
        _("Starter model"),
        "  SmolLM2-135M-Instruct — Apache-2.0",
    ]
    return "\n".join(lines)


def licence_file() -> Path | None:
    """Returns the file with the full texts of all licences, which packages carry; None from source."""
    file = installation().program / _LICENCES
    return file if installation().is_package and file.is_file() else None


def _described(names: tuple[str, ...]) -> list[str]:
    return [f"  {line}" for line in map(_line, names) if line]


def _line(name: str) -> str:
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    licence = _licence(metadata.json)
    return f"{name} {metadata['Version']}" + (f" — {licence}" if licence else "")


def _licence(metadata: dict[str, str | list[str]]) -> str:
    """Returns the licence's short name: the expression, else a short licence field, else the classifiers' words."""
    if stated := metadata.get("license_expression"):
        return str(stated)
    written = str(metadata.get("license", "")).strip()
    if written and "\n" not in written and len(written) < 60:
        return written
    classifiers = metadata.get("classifier", [])
    return ", ".join(line.rsplit(" :: ", 1)[-1] for line in classifiers if line.startswith("License :: "))
