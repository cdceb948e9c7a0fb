"""Every error that a person can act on, in one loop."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from runtime.errors import ErrorInfo, UserError

ROOT = Path(__file__).resolve().parent.parent


def _files_that_define_errors() -> list[Path]:
    files = (file for folder in ("runtime", "convert", "desktop") for file in (ROOT / folder).rglob("*.py"))
    return [file for file in files if _error_names(file)]


def _error_names(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if any("code" in ast.dump(item) for item in node.body) and _is_error(node)]


def _is_error(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id.endswith("Error") for base in node.bases)


def _all_errors() -> list[type[UserError]]:
    for file in _files_that_define_errors():
        importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    found, todo = [], [UserError]
    while todo:
        for kind in todo.pop().__subclasses__():
            if kind.__module__.split(".")[0] in {"runtime", "convert", "desktop"}:
                found.append(kind)
                todo.append(kind)
    return found


ERRORS = _all_errors()
ABSTRACT = {kind for kind in ERRORS if any(other.__mro__[1] is kind for other in ERRORS)}


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind not in ABSTRACT], ids=lambda kind: kind.__name__)
def test_an_error_has_a_code_and_says_what_it_is(kind: type[UserError]) -> None:
    assert kind.code != UserError.code
    assert kind.code == kind.code.lower().replace(" ", "_")
    assert kind.__doc__


def test_codes_are_unique() -> None:
    counts = Counter(kind.code for kind in ERRORS if kind not in ABSTRACT)
    assert [code for code, count in counts.items() if count > 1] == []


def test_an_error_survives_the_way_through_another_process() -> None:
    info = ErrorInfo(title="It failed.", message="Because.", hint="Do this.", details="log", code="some_code")
    again = UserError.from_info(info)
    assert again.info == info
    assert str(again) == "It failed.\nBecause.\nDo this."
