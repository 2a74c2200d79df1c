"""The JSON Schemas of the API: bodies are read by them, and types of documents become them
(spec/node-api.md, N-101a, N-111).

Bodies are read by a subset of JSON Schema 2020-12, enough for the node's own: ``type``,
``properties``, ``required``, ``minProperties``, ``maxProperties``, ``additionalProperties: false``,
``items``, ``minItems``, ``maxItems``, ``enum``,
``const``, ``minimum``, ``maximum``, ``minLength``, ``maxLength``, ``pattern``, ``anyOf``, and
``contentEncoding: base64`` for bytes. No body of the API has a schema with another keyword,
as a test checks.

A type of documents becomes a schema of its name among the components of the OpenAPI document, and a
reference to it elsewhere. These schemas are open: later releases add fields.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Mapping
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from aos.errors import excerpt
from aos.node.problems import Problem
from aos.read.operations.operation import Schema
from aos.values.spelling import base64_bytes

SCHEMA_PREFIX: Final = "#/components/schemas/"

_TYPE_WORDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}

_KINDS: Final[Mapping[type, str]] = {
    dict: "object", list: "array", str: "string", int: "integer", bool: "boolean",
    type(None): "null",
}  # fmt: skip
"""The kind of a parsed value by its type. Any other type is bytes."""

Place: TypeAlias = "tuple[()] | tuple[Place, str]"
"""The place of a value in a body: the place of the value around it, and its name or index there.
It becomes text only if there is a problem."""

_PLAIN_TYPES: Final[Mapping[object, str]] = {
    str: "string", int: "integer", bool: "boolean", type(None): "null",
}  # fmt: skip

_DOCUMENT_TYPES: Final[dict[str, Any]] = {}


def read(schema: Schema, value: object, place: Place = ()) -> object:
    """Check a value by a schema and return it, with base64 text decoded to bytes.

    Raises:
        Problem: The value does not fit (400); its pointer names the place.
    """
    if "anyOf" in schema:
        return _read_any(schema["anyOf"], value, place)
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        raise _misfit(place, repr(schema["const"]), value)
    if "enum" in schema and value not in schema["enum"]:
        raise _misfit(place, "one of " + ", ".join(map(str, schema["enum"])), value)
    if "contentEncoding" in schema:
        return _read_bytes(schema, value, place)
    kinds = schema.get("type")
    if kinds is None:
        return value
    kind = _KINDS.get(type(value), "bytes")
    if kind != kinds and (isinstance(kinds, str) or kind not in kinds):
        words = [kinds] if isinstance(kinds, str) else kinds
        raise _misfit(place, " or ".join(_TYPE_WORDS[word] for word in words), value)
    match kind:
        case "object":
            return _read_object(schema, cast("dict[object, object]", value), place)
        case "array":
            return _read_list(schema, cast("list[object]", value), place)
        case "integer":
            number = cast("int", value)
            _check_range(place, number, schema.get("minimum"), schema.get("maximum"), "")
        case "string":
            text = cast("str", value)
            _check_range(
                place, len(text), schema.get("minLength"), schema.get("maxLength"), "characters"
            )
            if "pattern" in schema and not re.search(schema["pattern"], text):
                raise _misfit(place, f"text that matches {schema['pattern']}", value)
    return value


def _read_any(schemas: list[Schema], value: object, place: Place) -> object:
    """Read a value by the alternative that has most of its fields: its problem explains best. One
    whose constants it has comes before all others."""
    members: dict[object, object] = value if isinstance(value, dict) else {}

    def fit(schema: Schema) -> tuple[bool, int]:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        has_constants = False
        for name, member_schema in properties.items():
            if "const" in member_schema:
                if members.get(name) != member_schema["const"]:
                    return False, len(members.keys() & properties.keys())
                has_constants = True
        return has_constants, len(members.keys() & properties.keys())

    return read(max(schemas, key=fit), value, place)


def _read_bytes(schema: Schema, value: object, place: Place) -> bytes:
    content = value
    if isinstance(value, str):
        content = base64_bytes(value)
    if not isinstance(content, bytes):
        raise _misfit(place, "bytes: in JSON as base64 text", value)
    _check_range(place, len(content), schema.get("minLength"), schema.get("maxLength"), "bytes")
    return content


def _read_object(schema: Schema, value: dict[object, object], place: Place) -> dict[object, object]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if schema.get("additionalProperties", True) is False:
        for name in value:
            if name not in properties:
                raise _unknown_field(place, name, properties)
    for name in schema.get("required", ()):
        if name not in value:
            raise Problem(
                400, "body_is_invalid", f"{_body_path(place)}: {name} is missing",
                pointer=_pointer((place, name)),
            )  # fmt: skip
    _check_range(
        place, len(value), schema.get("minProperties"), schema.get("maxProperties"), "fields"
    )
    return {
        name: read(properties[name], item, (place, name))
        if isinstance(name, str) and name in properties
        else item
        for name, item in value.items()
    }


def _read_list(schema: Schema, value: list[object], place: Place) -> list[object]:
    _check_range(place, len(value), schema.get("minItems"), schema.get("maxItems"), "items")
    items = schema.get("items", {})
    return [read(items, element, (place, str(index))) for index, element in enumerate(value)]


def _check_range(place: Place, actual: int, low: int | None, high: int | None, unit: str) -> None:
    if (low is None or actual >= low) and (high is None or actual <= high):
        return
    if high is None:
        expected = f"at least {low}"
    elif low is None:
        expected = f"at most {high}"
    else:
        expected = f"{low} to {high}"
    raise Problem(
        400, "body_is_invalid",
        f"{_body_path(place)}: expected {expected}{' ' if unit else ''}{unit}, found {actual}",
        pointer=_pointer(place),
    )  # fmt: skip


def _unknown_field(place: Place, name: object, properties: Mapping[str, Schema]) -> Problem:
    name_text = excerpt(str(name), characters_max=60)
    near = difflib.get_close_matches(name_text, properties, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return Problem(
        400, "body_is_invalid",
        f"{_body_path(place)}: {name_text!r} is unknown here: expected "
        f"{', '.join(properties)}{hint}",
        pointer=_pointer((place, name_text)),
    )  # fmt: skip


def _misfit(place: Place, expected: str, value: object) -> Problem:
    kind = _KINDS.get(type(value), "bytes")
    actual = _TYPE_WORDS.get(kind, "bytes")
    if kind in ("string", "integer", "boolean"):
        actual = excerpt(repr(value), characters_max=60)
    return Problem(
        400, "body_is_invalid", f"{_body_path(place)}: expected {expected}, found {actual}",
        pointer=_pointer(place),
    )  # fmt: skip


def _body_path(place: Place) -> str:
    return f"body {_pointer(place)}" if place else "body"


def _pointer(place: Place) -> str:
    """The place as a JSON Pointer (RFC 6901)."""
    if not place:
        return ""
    outer, name = place
    return f"{_pointer(outer)}/{name.replace('~', '~0').replace('/', '~1')}"


def reference(kind: type) -> Schema:
    """Return a reference to the schema of a TypedDict."""
    return {"$ref": f"{SCHEMA_PREFIX}{kind.__name__}"}


def one_of(*kinds: type) -> Schema:
    """Return the schema of an answer that is one of several documents."""
    return {"anyOf": [reference(kind) for kind in kinds]}


def union_of(kinds: types.UnionType) -> Schema:
    """Return the schema of an answer that is one of the documents of a union."""
    return one_of(*get_args(kinds))


def components(schemas: object) -> dict[str, Schema]:
    """Return the schema of each type that ``schemas`` refer to, and of those that these refer to,
    by name. ``schemas`` is any document with references that ``reference`` has made."""
    schema_by_name: dict[str, Schema] = {}
    todo = sorted(_referred(schemas), reverse=True)
    while todo:
        name = todo.pop()
        if name not in schema_by_name:
            schema_by_name[name] = _document_schema(_DOCUMENT_TYPES[name])
            todo += sorted(_referred(schema_by_name[name]) - schema_by_name.keys(), reverse=True)
    return dict(sorted(schema_by_name.items()))


def register(*modules: types.ModuleType) -> None:
    """Make the TypedDicts of modules known to ``components``.

    Raises:
        ValueError: Two have the same name.
    """
    for name, kind in (member for module in modules for member in vars(module).items()):
        is_document = is_typeddict(kind) and not name.startswith("_")
        if is_document and _DOCUMENT_TYPES.setdefault(name, kind) is not kind:
            raise ValueError(f"two types of documents are called {name}")


def _referred(schema: object) -> set[str]:
    """The names of the types that a schema refers to."""
    names: set[str] = set()
    todo = [schema]
    while todo:
        match todo.pop():
            case {"$ref": str(place)} if place.startswith(SCHEMA_PREFIX):
                names.add(place.removeprefix(SCHEMA_PREFIX))
            case dict() as fields:
                todo += fields.values()
            case list() | tuple() as items:
                todo += items
    return names & _DOCUMENT_TYPES.keys()


def _document_schema(kind: Any) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    schema: dict[str, object] = {
        "type": "object",
        **({"description": " ".join(kind.__doc__.split())} if kind.__doc__ else {}),
        "properties": {
            name: _field_schema(get_args(hint)[0] if name in optional else hint)
            for name, hint in hints.items()
        },
    }
    if required := [name for name in hints if name not in optional]:
        schema["required"] = required
    return schema


def _field_schema(kind: Any) -> Schema:
    """The schema of the type of a field."""
    if kind is object:
        return {}
    if kind in _PLAIN_TYPES:
        return {"type": _PLAIN_TYPES[kind]}
    if is_typeddict(kind):
        return reference(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": _field_schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _field_schema(arguments[1])}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union_schema([_field_schema(argument) for argument in arguments])
    raise ValueError(f"no schema of {kind}")


def _union_schema(schemas: list[Schema]) -> Schema:
    """One schema of several; plain ones together are a list of types."""
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}
