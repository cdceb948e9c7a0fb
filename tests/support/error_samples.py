"""One example of every error that a person can act on, made from the signature of its class."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

from desktop.engine_crash import ChildEnd
from runtime.errors import UserError
from runtime.llama.backends import LeftOut
from window_kit import LARGE, STARTER

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("runtime", "convert", "desktop")
_BY_NAME: dict[str, Any] = {
    "what": "source", "path": Path("/models/m.gguf"), "kept": Path("/models/kept.gguf"), "names": ("one", "two"),
    "end": ChildEnd(11, crashed=True), "candidates": (STARTER, LARGE), "missing": {"model-1.safetensors": 3},
    "present": (), "found": (2, 3), "wanted": (3, 2), "reason": "It does not say why.",
}  # fmt: skip
_LEFT_OUT = LeftOut("haswell", "unsupported")
_BY_KIND: tuple[tuple[str, Any], ...] = (
    ("Sequence[LeftOut]", (_LEFT_OUT,)), ("LeftOut", _LEFT_OUT),
    ("Path", Path("/models/m.gguf")), ("Sequence", ("one", "two")), ("Iterable", ("one", "two")),
    ("tuple", ("one", "two")), ("list", ["one", "two"]), ("set", {"one"}), ("Exception", OSError(2, "not there")),
    ("OSError", OSError(2, "not there")), ("bool", True), ("int", 7), ("float", 7.0), ("str", "seven"),
)  # fmt: skip


def kinds() -> list[type[UserError]]:
    """Returns every class of errors of ours that no other one is made from."""
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            if _defines_errors(file):
                importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    found, todo = [], [UserError]
    while todo:
        for kind in todo.pop().__subclasses__():
            if kind.__module__.split(".")[0] in FOLDERS:
                found.append(kind)
                todo.append(kind)
    parents = {kind.__mro__[1] for kind in found}
    return sorted((kind for kind in found if kind not in parents), key=lambda kind: kind.code)


def sample(kind: type[UserError], **chosen: Any) -> UserError:
    """Returns an error of a class, with arguments that its signature names. Raises where none are known."""
    given: dict[str, Any] = {}
    positional: list[Any] = []
    for parameter in list(inspect.signature(kind.__init__).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        value = chosen.get(parameter.name, _value(parameter))
        if parameter.kind is parameter.KEYWORD_ONLY:
            given[parameter.name] = value
        else:
            positional.append(value)
    return kind(*positional, **given)


def _value(parameter: inspect.Parameter) -> Any:
    if parameter.default is not parameter.empty and parameter.default not in ("", (), 0, None):
        return parameter.default
    kind = str(parameter.annotation)
    known = [value for name, value in _BY_KIND if kind.startswith(name) or f"| {name}" in kind]
    named = _BY_NAME.get(parameter.name)
    if named is not None and (not known or isinstance(known[0], type(named))):
        return named
    return known[0] if known else parameter.default


def _defines_errors(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    if "Error" not in text or "code" not in text:
        return False
    return any(isinstance(node, ast.ClassDef) for node in ast.parse(text).body)
