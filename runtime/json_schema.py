"""Checks a JSON schema before an answer is held to it: its size, its depth, and that every keyword is honoured.

llguidance turns schemas into what an answer may be; it skips keywords that it does not know, so those are refused
here, by name. What it knows and cannot do it refuses itself. Knows no model. Imports nothing heavy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from runtime.errors import UserError
from runtime.text import _

MAX_CHARACTERS = 262_144
MAX_DEPTH = 100
MAX_PARTS = 1000  # properties and alternatives, all together: the time to prepare a schema grows with their square
MAX_COUNT = 100_000

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_SCHEMA = frozenset({"additionalProperties", "items"})
_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_PLAIN = frozenset({"type", "enum", "const", "required", "pattern", "format", "$ref"})
_REMARKS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples", "example",
                      "deprecated", "readOnly", "writeOnly"})  # fmt: skip
_LONGEST_REASON = 400  # characters: what repeats a number of the schema may have hundreds of digits
HONOURED = _COUNTS | _SCHEMA | _SCHEMAS | _NAMED | _BOUNDS | _PLAIN


class BadSchema(UserError):
    """A JSON schema that an answer cannot be held to."""

    code = "bad_json_schema"

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(
            _("The JSON schema cannot be used."),
            reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…",
            hint or _("Change the schema, or clear it to write freely. {{}} stands for any JSON.").format(),
        )


@lru_cache(maxsize=8)
def check_schema(text: str) -> None:
    """Raises `BadSchema` unless `text` is a schema that can be handed to llguidance."""
    if len(text) > MAX_CHARACTERS:
        raise BadSchema(_("It has {n:,} characters; {limit:,} are allowed.").format(n=len(text), limit=MAX_CHARACTERS))
    _require_shallow(text)
    schema = _read(text)
    if schema is False:
        raise BadSchema(_("Nothing follows it."))
    parts = 0
    for at, part in _parts(schema, "#"):
        parts += _check_part(part, at)
        if parts > MAX_PARTS:
            words = _("It has more than {limit:,} properties and alternatives.")
            raise BadSchema(words.format(limit=MAX_PARTS))


def _require_shallow(text: str) -> None:
    """Counts brackets outside of strings, before anything that calls itself for each of them reads the text."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found.group(), 0)
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise BadSchema(_("Line {line}: it is nested more than {limit} deep.").format(line=line, limit=MAX_DEPTH))


def _read(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        words = _("Line {line}, column {column}: this is not JSON ({reason}).")
        raise BadSchema(words.format(line=error.lineno, column=error.colno, reason=error.msg)) from error
    except ValueError as error:  # a number with thousands of digits
        raise BadSchema(_("It holds a number that cannot be read.")) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for at, (name, _value) in enumerate(pairs) if name in dict(pairs[:at]))
        raise BadSchema(_("“{name}” stands twice in one object.").format(name=twice))
    return found


def _no_number(word: str) -> Any:
    raise BadSchema(_("“{word}” is no JSON number.").format(word=word))


def _parts(schema: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Yields every schema inside a schema, itself included, with where it stands."""
    yield at, schema
    for key, value in schema.items() if isinstance(schema, dict) else ():
        for name, part in _inside(key, value):
            yield from _parts(part, f"{at}/{key}{name}")


def _inside(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if key in _NAMED and isinstance(value, dict):
        yield from ((f"/{name}", part) for name, part in value.items())
    elif key in _SCHEMAS and isinstance(value, list):
        yield from ((f"/{number}", part) for number, part in enumerate(value))
    elif key in _SCHEMA:
        yield "", value


def _check_part(schema: Any, at: str) -> int:
    """Checks one schema without those inside it; returns how many parts it counts for."""
    if isinstance(schema, bool):
        return 1
    if not isinstance(schema, dict):
        raise BadSchema(_("{place}: a schema is an object, true or false.").format(place=at))
    for key, value in schema.items():
        _check_keyword(key, value, at)
    enum = schema.get("enum", ())
    return 1 + (len(enum) // 10 if isinstance(enum, list) else 0)


def _check_keyword(key: str, value: Any, at: str) -> None:
    if key not in HONOURED | _REMARKS:
        raise BadSchema(_("{place}: “{key}” is not supported.").format(place=at, key=key))
    if key in _COUNTS and not (_is_whole(value) and 0 <= value <= MAX_COUNT):
        words = _("{place}: “{key}” takes a whole number from 0 to {limit:,}.")
        raise BadSchema(words.format(place=at, key=key, limit=MAX_COUNT))
    if not _right_kind(key, value):
        raise BadSchema(_("{place}: “{key}” has a value of the wrong kind.").format(place=at, key=key))
    if key == "$ref" and not value.startswith("#"):
        raise BadSchema(_("{place}: “$ref” may only point into the schema itself.").format(place=at))


def _right_kind(key: str, value: Any) -> bool:
    if key in _NAMED:
        return isinstance(value, dict)
    if key in _SCHEMAS or key in ("required", "enum"):
        return isinstance(value, list)
    if key in _BOUNDS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if key in ("pattern", "format", "$ref"):
        return isinstance(value, str)
    return key != "type" or isinstance(value, str | list)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
