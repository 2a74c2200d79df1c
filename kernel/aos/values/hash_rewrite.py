"""Replace the hashes in the fields of type ``hash`` of a value.

Only the type decides what is a hash, as in ``hash_fields``. A value of a schema without such a
field is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aos.values.cbor import Value
from aos.values.expressions import (
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
)
from aos.values.schema import Schema

Change: TypeAlias = Callable[[str], str]
_Write: TypeAlias = Callable[[Any, Change], Any]
"""Takes a value in normal form. Parts of another shape are kept: they may belong to another version
of the schema."""

_HASH: Final = Scalar("hash")


class HashRewrite:
    """Rewrites values. ``schemas`` has the schemas that the values' schemas refer to; those that it
    lacks are assumed to have no hashes."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._types = {name: schema.type for name, schema in schemas.items()}
        self._writes: dict[str, _Write | None] = {}

    def has_hashes(self, schema: Schema) -> bool:
        return self._of(schema) is not None

    def rewritten(self, schema: Schema, value: Value, change: Change) -> Value:
        """The value of ``schema`` with each hash in it changed. Sets keep their order."""
        write = self._of(schema)
        return value if write is None else write(value, change)

    def _of(self, schema: Schema) -> _Write | None:
        is_known = schema.name in self._types
        return self._schema_write(schema.name) if is_known else self._write(schema.type)

    def _schema_write(self, name: str) -> _Write | None:
        # References have no cycles (V-25). A chain of aliases may be as long as a manifest.
        names = [name]
        while names[-1] not in self._writes:
            type_ = self._types.get(names[-1])
            if isinstance(type_, TypeRef):
                names.append(type_.name)
            else:
                self._writes[names[-1]] = None if type_ is None else self._write(type_)
        write = self._writes[names[-1]]
        self._writes.update(dict.fromkeys(names, write))
        return write

    def _write(self, type_: Type) -> _Write | None:
        match type_:
            case Scalar():
                return _write_hash if type_ == _HASH else None
            case TypeRef(name):
                return self._schema_write(name)
            case Option(item):
                return _in_option(self._write(item))
            case ListOf(item) | SetOf(item):
                return _in_list(self._write(item))
            case MapOf(key, item):
                return _in_map(self._write(key), self._write(item))
            case Record(fields):
                return _in_record(self._writes_of(fields))
            case Variant(arms):
                return _in_variant(self._writes_of(arms))

    def _writes_of(self, parts: tuple[tuple[str, Type], ...]) -> dict[str, _Write]:
        writes = {name: self._write(part) for name, part in parts}
        return {name: write for name, write in writes.items() if write is not None}


def _write_hash(value: Any, change: Change) -> Any:
    return change(value) if isinstance(value, str) else value


def _in_option(item: _Write | None) -> _Write | None:
    if item is None:
        return None
    return lambda value, change: None if value is None else item(value, change)


def _in_list(item: _Write | None) -> _Write | None:
    if item is None:
        return None
    return lambda value, change: (
        [item(element, change) for element in value] if isinstance(value, list) else value
    )


def _in_map(key: _Write | None, item: _Write | None) -> _Write | None:
    if key is None and item is None:
        return None

    def write(value: Any, change: Change) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name if key is None else key(name, change): element
            if item is None
            else item(element, change)
            for name, element in value.items()
        }

    return write


def _in_record(fields: Mapping[str, _Write]) -> _Write | None:
    if not fields:
        return None

    def write(value: Any, change: Change) -> Any:
        if not isinstance(value, dict):
            return value
        present_fields = {name: field for name, field in fields.items() if name in value}
        return value | {name: field(value[name], change) for name, field in present_fields.items()}

    return write


def _in_variant(arms: Mapping[str, _Write]) -> _Write | None:
    if not arms:
        return None

    def write(value: Any, change: Change) -> Any:
        if not isinstance(value, dict) or "$value" not in value:
            return value
        arm = arms.get(str(value.get("$tag")))
        if arm is None:
            return value
        return value | {"$value": arm(value["$value"], change)}

    return write
