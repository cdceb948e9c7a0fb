"""What a JSON schema may be before an answer is held to it. Nothing is ignored without a word."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from runtime.json_schema import MAX_DEPTH, MAX_PARTS, BadSchema, check_schema
from runtime.params import SamplingParams, UnusableText

PERSON = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A person",
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 5},
        "kind": {"enum": ["a", {"unknown": 1}], "default": {"also": "unknown"}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"yes": True},
}


@pytest.mark.parametrize("schema", [{}, True, PERSON, {"anyOf": [{"const": {"foo": 1}}, {"type": ["null", "string"]}]}])
def test_good_schemas_pass(schema: Any) -> None:
    check_schema(json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"not": {}}, "#: “not”"),
        ({"properties": {"a": {"uniqueItems": True}}}, "#/properties/a: “uniqueItems”"),
        ({"items": {"anyOf": [{}, {"minlength": 1}]}}, "#/items/anyOf/1: “minlength”"),
        ({"$defs": {"a": {"nullable": True}}}, "#/$defs/a: “nullable”"),
        ({"if": {}, "then": {}}, "“if”"),
        ({"items": [{}]}, "#/items: a schema is an object"),
        ({"x-guidance": {"lenient": True}}, "“x-guidance”"),
        ({"minLength": -1}, "“minLength”"),
        ({"minItems": 10**9}, "“minItems”"),
        ({"maxItems": True}, "“maxItems”"),
        ({"minimum": 3, "exclusiveMinimum": True}, "“exclusiveMinimum”"),
        ({"$ref": "https://example.org/x"}, "“$ref”"),
        ({"properties": []}, "“properties”"),
        ({"allOf": {}}, "“allOf”"),
        ([], "object, true or false"),
        (False, "Nothing follows"),
        ("text", "object, true or false"),
    ],
)
def test_what_would_not_be_honoured_is_refused_by_name(schema: Any, words: str) -> None:
    with pytest.raises(BadSchema) as caught:
        check_schema(json.dumps(schema))
    assert words in caught.value.info.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "type": }', "Line 2, column 11"),
        ("", "Line 1"),
        ('{"minimum": NaN}', "NaN"),
        ('{"type": "string", "type": "null"}', "“type” stands twice"),
        ('{"minimum": ' + "9" * 5000 + "}", "number"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadSchema) as caught:
        check_schema(text)
    assert words in caught.value.info.message


@pytest.mark.parametrize(
    "text",
    [
        '{"items":' * 10_000 + "{}" + "}" * 10_000,
        '{"items":' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH,
        "[" * 100_000,
        json.dumps({"properties": {f"p{at}": {} for at in range(MAX_PARTS)}}),
        json.dumps({"enum": list(range(20_000))}),
        '{"title": "' + "x" * 300_000 + '"}',
    ],
    ids=["10k deep", "one too deep", "brackets alone", "properties", "values", "long"],
)
def test_a_schema_without_measure_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BadSchema):
        check_schema(text)
    assert time.process_time() - started < 5


def test_brackets_inside_texts_do_not_count_as_depth() -> None:
    check_schema(json.dumps({"title": '[{"' * 1000, "type": "string"}))


def test_the_settings_refuse_a_bad_schema_and_name_the_setting() -> None:
    with pytest.raises(UnusableText) as caught:
        SamplingParams(json_schema="{").validated()
    assert (caught.value.field, caught.value.info.code) == ("json_schema", "bad_json_schema")


def test_a_reason_that_repeats_a_number_without_end_is_cut() -> None:
    assert len(BadSchema("The minimum is " + "9" * 100_000).info.message) < 500
