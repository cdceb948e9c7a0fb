"""Which tests show that a setting works, by their `shows` markers. Reads the tests' source and runs none of them.

    @pytest.mark.shows("top_k", "top_p")

stands on tests that look at the effect of a setting, not on those that look at its bounds. Run as a program, this file
prints the table: `python tests/support/shown_settings.py`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS.parent))

from runtime.params import LoadParams, SamplingParams  # noqa: E402 - run as a program, the path comes first
from runtime.settings import fields_of  # noqa: E402


def setting_names() -> list[str]:
    """Returns the settings that need a test, in the order of their declaration."""
    return [declared.name for group in (SamplingParams, LoadParams) for declared in fields_of(group)]


@cache
def claims(folder: Path = TESTS) -> dict[str, list[str]]:
    """Returns for each claimed name the tests that claim it, as "runtime/test_x.py::test_y"."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        for test in _tests(ast.parse(source)) if "mark.shows(" in source else ():
            for name in _claimed(test):
                found[name].append(f"{file.relative_to(folder).as_posix()}::{test.name}")
    return dict(found)


def _tests(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def _claimed(test: ast.FunctionDef) -> list[str]:
    """Returns the names in a test's markers, those on single cases included, each once."""
    calls = [node for decorator in test.decorator_list for node in ast.walk(decorator) if isinstance(node, ast.Call)]
    marks = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "shows"]
    return list(dict.fromkeys(ast.literal_eval(name) for mark in marks for name in mark.args))


def _table() -> Iterator[str]:
    shown = claims()
    for name in setting_names():
        first, *others = shown.get(name, ["-"])
        yield f"{name:<24}{first}"
        yield from (f"{'':<24}{other}" for other in others)


if __name__ == "__main__":
    print("\n".join(_table()))  # noqa: T201 - the program's output
