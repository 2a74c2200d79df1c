"""The JSON Schemas of the types of documents (spec/node-api.md, N-101a).

A type becomes a schema of its name among the components of the OpenAPI document, and a reference to
it elsewhere. The schemas are open: later releases add fields.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from aos.node.json_schema import Schema

PREFIX: Final = "#/components/schemas/"

_PLAIN: Final[Mapping[object, str]] = {
    str: "string", int: "integer", bool: "boolean", type(None): "null",
}  # fmt: skip


def reference(kind: type) -> Schema:
    """Return a reference to the schema of a TypedDict."""
    return {"$ref": f"{PREFIX}{kind.__name__}"}


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
            schema_by_name[name] = _object(_TYPES[name])
            todo += sorted(_referred(schema_by_name[name]) - schema_by_name.keys(), reverse=True)
    return dict(sorted(schema_by_name.items()))


def register(*modules: types.ModuleType) -> None:
    """Make the TypedDicts of modules known to ``components``.

    Raises:
        ValueError: Two have the same name.
    """
    for name, kind in (member for module in modules for member in vars(module).items()):
        is_document = is_typeddict(kind) and not name.startswith("_")
        if is_document and _TYPES.setdefault(name, kind) is not kind:
            raise ValueError(f"two types of documents are called {name}")


_TYPES: Final[dict[str, Any]] = {}


def _referred(schema: object) -> set[str]:
    """The names of the types that a schema refers to."""
    names: set[str] = set()
    todo = [schema]
    while todo:
        match todo.pop():
            case {"$ref": str(place)} if place.startswith(PREFIX):
                names.add(place.removeprefix(PREFIX))
            case dict() as fields:
                todo += fields.values()
            case list() | tuple() as items:
                todo += items
    return names & _TYPES.keys()


def _object(kind: Any) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    schema: dict[str, object] = {
        "type": "object",
        **({"description": " ".join(kind.__doc__.split())} if kind.__doc__ else {}),
        "properties": {
            name: _schema(get_args(hint)[0] if name in optional else hint)
            for name, hint in hints.items()
        },
    }
    if required := [name for name in hints if name not in optional]:
        schema["required"] = required
    return schema


def _schema(kind: Any) -> Schema:
    """The schema of the type of a field."""
    if kind is object:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if is_typeddict(kind):
        return reference(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union([_schema(argument) for argument in arguments])
    raise ValueError(f"no schema of {kind}")


def _union(schemas: list[Schema]) -> Schema:
    """One schema of several; plain ones together are a list of types."""
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}
