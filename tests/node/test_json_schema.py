"""Bodies are read by the schemas that the OpenAPI document shows (N-111)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from aos.node.json_schema import read
from aos.node.problems import Problem
from aos.read.operations.operation import Schema

ANNOTATIONS = {"description", "default", "examples", "title", "format"}
KEYWORDS = ANNOTATIONS | {
    "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "enum", "const", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
    "contentEncoding", "minProperties", "maxProperties",
}  # fmt: skip

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 4, "pattern": "^[a-z/~]+$"},
        "many": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 2},
        "kind": {"enum": ["a", "b"]},
        "flag": {"type": ["boolean", "null"]},
        "one": {"const": True},
        "any": {},
        "inner": {
            "type": "object",
            "properties": {"x": {"type": "integer", "maximum": 9}},
            "required": ["x"],
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 10, "", "a", "abcde", "A", [], {}, [0], [0, 1, 2], [-1], [True],
    {"x": 1}, {"x": 10}, {"x": True}, {"y": 1}, {"x": 1, "y": 1}, "a/", "b",
]  # fmt: skip


@pytest.mark.parametrize("name", [*SCHEMA["properties"], "more"])
def test_it_accepts_the_values_that_the_reference_accepts(name: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for value in VALUES:
        body = {"name": "ab", name: value}
        if validator.is_valid(body):
            assert read(SCHEMA, body) == body
            continue
        with pytest.raises(Problem) as caught:
            read(SCHEMA, body)
        assert caught.value.status == 400
        assert (caught.value.pointer or "").startswith(f"/{name}")


def test_bytes_are_base64_in_json_and_bytes_in_cbor() -> None:
    schema = {"type": "string", "contentEncoding": "base64", "maxLength": 3}

    assert read(schema, "AAEC") == b"\x00\x01\x02"
    assert read(schema, b"\x00") == b"\x00"
    for wrong in ("AAE", "AA E", "AAECAw==", 7, None, b"1234", "\u00e9"):
        with pytest.raises(Problem):
            read(schema, wrong)


def test_a_pointer_escapes_names_and_the_nearest_name_is_given() -> None:
    with pytest.raises(Problem) as caught:
        read(SCHEMA, {"name": "a", "na/me~": 1})
    assert caught.value.pointer == "/na~1me~0"
    with pytest.raises(Problem, match="did you mean flag"):
        read(SCHEMA, {"name": "a", "flog": 1})
    with pytest.raises(Problem) as missing:
        read(SCHEMA, {})
    assert missing.value.pointer == "/name"


def test_of_alternatives_the_one_with_most_fields_explains() -> None:
    one = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    many = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}

    with pytest.raises(Problem, match="b is missing"):
        read({"anyOf": [one, many]}, {"a": 1})
    with pytest.raises(Problem, match="expected a list"):
        read({"anyOf": [one, many]}, {"items": 1})


def check_schema(schema: Schema) -> None:
    """Raise ValueError for a schema that ``read`` would not understand in full."""
    unknown = set(schema) - KEYWORDS
    if unknown:
        raise ValueError(f"keywords that are not read: {sorted(unknown)}")
    for subschema in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        check_schema(subschema)
    if "items" in schema:
        check_schema(schema["items"])


def test_a_schema_that_is_not_read_in_full_is_a_bug() -> None:
    check_schema(SCHEMA)
    wrongs: list[dict[str, Any]] = [
        {"not": {}},
        {"properties": {"a": {"format2": 1}}},
        {"items": {"oneOf": []}},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="keywords that are not read"):
            check_schema(wrong)
