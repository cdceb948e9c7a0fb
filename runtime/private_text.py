"""Takes out of logs what is nobody's business: the names of files in the person's folder, and values in exceptions.

What lies in the program's own folders stays legible, since it says where a fault is. Knows no log and no format.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from functools import lru_cache
from pathlib import Path
from types import TracebackType

_ENDINGS = "gguf|safetensors|bin|json|jinja|txt|md|py|log|db|state|toml|png|lock"
_QUOTES = "\"'“”‘’"
# A name ends with a known ending, or else where a sentence goes on behind a path.
_NAME = (
    rf"(?=[/\\])(?:[^\n{_QUOTES}]*?(?P<ending>\.(?:{_ENDINGS}))(?![\w.])"
    rf"|[^\n{_QUOTES}]*?(?=: |, | \(|[{_QUOTES}\n]|$))"
)
# The messages of these speak of code, types and files, never of what a person wrote.
_PLAIN = (AttributeError, ImportError, NameError, OSError, TypeError, MemoryError)
_OF_QT = ("Internal C++ object", "libshiboken:")
_LONGEST = 200


def without_private(text: str) -> str:
    """Returns text in which files in the home folder have lost their names; their endings stay."""
    for folder, words in _own_folders():
        text = text.replace(folder, words)
    return _at_home(str(Path.home())).sub(lambda found: f"~/…{found.group('ending') or ''}", text)


def plain_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """Returns an exception with the places in the code, and its message only where that can hold nothing private."""
    lines = ["Traceback (most recent call last):"]
    frames = traceback.extract_tb(trace)
    lines += (f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in frames)
    plain = isinstance(error, _PLAIN) or str(error).startswith(_OF_QT)
    said = str(error)[:_LONGEST] if plain else "(its message is not logged)"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return without_private("\n".join((*lines, f"{name}: {said}")))


@lru_cache(maxsize=1)
def _own_folders() -> tuple[tuple[str, str], ...]:
    """Returns where the program and its Python lie, the longest first, and what stands for them."""
    found = {str(Path(__file__).resolve().parents[1]): "<quern>"}
    for folder in (sysconfig.get_path("purelib"), sys.prefix, sys.base_prefix):
        found.setdefault(folder, "<python>")
    return tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))


@lru_cache(maxsize=4)
def _at_home(home: str) -> re.Pattern[str]:
    """Returns what finds paths in the home folder, spelled as they are, through links, or with doubled backslashes."""
    spellings = {home, os.path.realpath(home)}
    spellings |= {spelling.replace("\\", "\\\\") for spelling in spellings}
    either = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True) if len(spelling) > 1)
    return re.compile(f"(?:{either or '(?!)'}){_NAME}", re.MULTILINE)
