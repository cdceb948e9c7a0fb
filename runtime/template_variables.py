"""A chat template's own switches, as in `enable_thinking=false`: which ones it reads, and the values people give.

Reading a template for its variables runs nothing of it: Jinja's own search would compute constant expressions, and a
stranger's template may hold one that never ends. Knows no model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import jinja2
import msgspec
from jinja2 import nodes

from runtime.chat_template import SOURCE_LIMIT, syntax_environment
from runtime.errors import UserError
from runtime.text import _

MAX_VARIABLES = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What is not the person's to set: it is the conversation itself, or comes with every template.
_GIVEN = frozenset({
    "messages", "add_generation_prompt", "continue_final_message", "bos_token", "eos_token", "tools", "documents",
    "strftime_now", "raise_exception", "namespace", "dict", "range", "lipsum", "cycler", "joiner", "loop", "self",
    "caller", "varargs", "kwargs",
})  # fmt: skip


class BadVariable(UserError):
    """A template variable that cannot be read."""

    code = "bad_template_variable"

    def __init__(self, written: str, reason: str) -> None:
        short = written if len(written) <= 60 else written[:60] + "…"
        super().__init__(
            _("The template variable “{written}” cannot be used.").format(written=short),
            reason,
            _("Write a name, “=” and a value, as in enable_thinking=false or reasoning_effort=high."),
        )


def read_variables(written: Iterable[str]) -> dict[str, Any]:
    """Returns what people wrote as NAME=VALUE by name; a value is JSON, and a text where it is none.

    The last value of a name counts. Raises `BadVariable`.
    """
    return dict(map(_read, written))


def check_variables(written: tuple[str, ...]) -> None:
    """Raises `BadVariable` where one cannot be read, or there are too many."""
    if len(written) > MAX_VARIABLES:
        words = _("There are {n:,} of them; {limit:,} are allowed.")
        raise BadVariable("…", words.format(n=len(written), limit=MAX_VARIABLES))
    read_variables(written)


def _read(written: str) -> tuple[str, Any]:
    name, sign, value = written.partition("=")
    name = name.strip()
    if not sign or not _NAME.fullmatch(name):
        raise BadVariable(written, _("It needs a name of letters, digits and underscores, and “=”."))
    if name in _GIVEN:
        raise BadVariable(written, _("“{name}” is not for you to set: it comes from the conversation or the model.")
                          .format(name=name))  # fmt: skip
    found = _value(written, value)
    try:
        msgspec.json.encode(found)
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError) as error:
        raise BadVariable(written, _("Its value is a number or a text that cannot be passed on.")) from error
    return name, found


def _value(written: str, value: str) -> Any:
    try:
        return json.loads(value, parse_constant=str)
    except RecursionError as error:
        raise BadVariable(written, _("It is nested too deeply.")) from error
    except ValueError:
        return value


@lru_cache(maxsize=16)
def variables_of(source: str) -> tuple[str, ...]:
    """Returns the variables that a template reads and does not set itself, sorted; none where it cannot be read."""
    if len(source) > SOURCE_LIMIT:
        return ()
    try:
        template = syntax_environment().parse(source)
        walk = _Walk(macros=[macro.name for macro in template.find_all(nodes.Macro)])
        walk.visit(template)
    except (jinja2.TemplateError, RecursionError, ValueError):
        return ()
    return tuple(sorted(walk.read - _GIVEN))


class _Walk:
    """Follows a template in the order in which it runs, and notes names that are read before they are set."""

    def __init__(self, macros: Iterable[str]) -> None:
        """`macros` may be called by others that are written before them."""
        self.read: set[str] = set()
        self._set = set(macros)

    def visit(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Name):
            self._name(node)
        elif isinstance(node, nodes.Macro | nodes.CallBlock):
            self._inner(node)
        else:
            for child in _children(node):
                self.visit(child)

    def _name(self, node: nodes.Name) -> None:
        if node.ctx != "load":
            self._set.add(node.name)
        elif node.name not in self._set:
            self.read.add(node.name)

    def _inner(self, node: nodes.Macro | nodes.CallBlock) -> None:
        """A macro's arguments and what it sets are its own."""
        outer = set(self._set)
        self._set |= {argument.name for argument in node.args}
        for child in (*node.defaults, *([node.call] if isinstance(node, nodes.CallBlock) else []), *node.body):
            self.visit(child)
        self._set = outer


def _children(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yields what a node consists of, values before the names that they are given."""
    if isinstance(node, nodes.Assign):
        return iter((node.node, node.target))
    if isinstance(node, nodes.For):
        own = [node.iter, node.target, *([node.test] if node.test is not None else []), *node.body, *node.else_]
        return iter(own)
    return node.iter_child_nodes()
