"""Where other programs keep their models, as data: one row for each program. Reads their settings, and no model.

How the files lie inside such a folder is the matter of `model_layouts.py`. Nothing here is ever written.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.small_files import read_json, read_text

# Where a variable points that the system leaves unset.
_USUAL = {
    "XDG_CACHE_HOME": "~/.cache", "XDG_CONFIG_HOME": "~/.config", "XDG_DATA_HOME": "~/.local/share",
    "APPDATA": "~/AppData/Roaming", "LOCALAPPDATA": "~/AppData/Local",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """What the places depend on: `platform` is Python's word for it ("linux", "darwin", "win32")."""

    platform: str
    home: Path
    environment: Mapping[str, str]

    @classmethod
    def here(cls) -> System:
        """Returns this computer and this person."""
        return cls(sys.platform, Path(os.path.expanduser("~")), os.environ)

    def folder(self, spelled: str) -> Path | None:
        """Returns the folder that a row of the table means; None where its variable is not set, or is no whole path.

        A row begins with "~", with "$NAME", or with the root.
        """
        first, _slash, rest = spelled.partition("/")
        if first == "~":
            base: Path | None = self.home
        elif first.startswith("$"):
            base = self._variable(first[1:])
        else:
            base = Path("/")
        return base / rest if base is not None and base.is_absolute() else None

    def _variable(self, name: str) -> Path | None:
        value = self.environment.get(name, "").strip()
        if not value:
            return self.folder(_USUAL[name]) if name in _USUAL else None
        return self.home / value[2:] if value.startswith(("~/", "~\\")) else Path(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A program that keeps models. `name` is a word for programs, and every folder is spelled as `System` reads it.

    A variable that is set takes the place of the usual folders, as it does for the program itself. `chosen` yields the
    folders that a person chose in the program's own settings.
    """

    name: str
    variables: tuple[str, ...] = ()
    everywhere: tuple[str, ...] = ()
    linux: tuple[str, ...] = ()
    mac: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    chosen: Callable[[System], Iterator[Path]] = lambda _system: iter(())

    def roots(self, system: System) -> list[Path]:
        """Returns the folders to look in, each once; whether they exist is for the reader to find out."""
        by_variable = [folder for folder in map(system.folder, self.variables) if folder is not None]
        own = {"darwin": self.mac, "win32": self.windows}.get(system.platform, self.linux)
        usual = [system.folder(spelled) for spelled in (*self.everywhere, *own)]
        found = by_variable[:1] or [folder for folder in usual if folder is not None]
        return list(dict.fromkeys([*found, *self.chosen(system)]))


# --- what programs say in their settings ------------------------------------------------------------------------


def _lm_studio(system: System) -> Iterator[Path]:
    """LM Studio names its home in a file of one line, and a chosen models folder as "downloadsFolder"."""
    homes = [system.folder("~/.lmstudio"), system.folder("~/.cache/lm-studio")]
    pointed = _first_line(system.home / ".lmstudio-home-pointer")
    if pointed is not None:
        homes.insert(0, pointed)
        yield pointed / "models"
    older = {"darwin": "~/Library/Application Support/LM Studio", "win32": "$APPDATA/LM Studio"}
    homes.append(system.folder(older.get(system.platform, "$XDG_CONFIG_HOME/LM Studio")))
    for home in filter(None, homes):
        yield from _whole(read_json(home / "settings.json").get("downloadsFolder"))


def _jan(system: System) -> Iterator[Path]:
    """Jan names its data folder in a file beside it."""
    places = {"darwin": ("~/Library/Application Support/Jan",), "win32": ("$APPDATA/Jan",)}
    for spelled in places.get(system.platform, ("$XDG_CONFIG_HOME/Jan", "$XDG_DATA_HOME/Jan")):
        folder = system.folder(spelled)
        for data in _whole(read_json(folder / "settings.json").get("data_folder")) if folder else ():
            yield data / "llamacpp" / "models"
            yield data / "models"


def _gpt4all(system: System) -> Iterator[Path]:
    """GPT4All keeps its settings as Qt's INI files, in which text with signs such as commas is quoted."""
    places = {"darwin": "~/.config/gpt4all.io", "win32": "$APPDATA/nomic.ai"}
    folder = system.folder(places.get(system.platform, "$XDG_CONFIG_HOME/nomic.ai"))
    found = re.search(r"^modelPath=(.+)$", read_text(folder / "GPT4All.ini") if folder else "", re.MULTILINE)
    yield from _whole(found[1].strip().strip('"') if found else None)


def _whole(path: object) -> Iterator[Path]:
    """Yields a path that is given from the root on, and nothing for all else."""
    if isinstance(path, str) and "\0" not in path and Path(path).is_absolute():
        yield Path(path)


def _first_line(file: Path) -> Path | None:
    lines = read_text(file).splitlines()
    return next(_whole(lines[0].strip()), None) if lines else None


# --- the table --------------------------------------------------------------------------------------------------

# Sources: the programs' documentation and their own code; llama.cpp's common/common.cpp and common/hf-cache.cpp.
OTHER_PROGRAMS = (
    Source(name="lm-studio", everywhere=("~/.lmstudio/models", "~/.cache/lm-studio/models"), chosen=_lm_studio),
    Source(
        name="ollama",
        variables=("$OLLAMA_MODELS",),
        everywhere=("~/.ollama/models",),
        linux=("/usr/share/ollama/.ollama/models", "/var/lib/ollama"),
    ),
    Source(
        name="jan",
        everywhere=("~/jan/models",),
        linux=(
            "$XDG_DATA_HOME/Jan/data/llamacpp/models", "$XDG_DATA_HOME/Jan/data/models",
            "$XDG_CONFIG_HOME/Jan/data/llamacpp/models", "$XDG_CONFIG_HOME/Jan/data/models",
        ),
        mac=(
            "~/Library/Application Support/Jan/data/llamacpp/models", "~/Library/Application Support/Jan/data/models",
        ),
        windows=("$APPDATA/Jan/data/llamacpp/models", "$APPDATA/Jan/data/models"),
        chosen=_jan,
    ),
    Source(
        name="gpt4all",
        everywhere=("~/.cache/gpt4all",),
        linux=("$XDG_DATA_HOME/nomic.ai/GPT4All",),
        mac=("~/Library/Application Support/nomic.ai/GPT4All",),
        windows=("$LOCALAPPDATA/nomic.ai/GPT4All",),
        chosen=_gpt4all,
    ),
    Source(
        name="llama.cpp",
        variables=("$LLAMA_CACHE",),
        linux=("$XDG_CACHE_HOME/llama.cpp",),
        mac=("~/Library/Caches/llama.cpp",),
        windows=("$LOCALAPPDATA/llama.cpp",),
    ),
    Source(
        name="hugging-face",
        variables=("$HF_HUB_CACHE", "$HUGGINGFACE_HUB_CACHE", "$HF_HOME/hub"),
        everywhere=("$XDG_CACHE_HOME/huggingface/hub",),
    ),
)  # fmt: skip
