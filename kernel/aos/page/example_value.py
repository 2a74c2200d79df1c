"""An example of a type as authoring JSON, to begin with (spec/page.md, PG-71).

{"record": {"order_id": text, "items": list of Item, "note": option of text}}
{"order_id": "text", "items": [{"sku": "text", "quantity": 1}], "note": null}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.manifest.builtins import CONTINUATIONS
from aos.values.expressions import (
    UNIT,
    ListOf,
    MapOf,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
    resolve,
)
from aos.values.schema import Schema

PARTS_MAX: Final = 1_000
"""Parts of the largest example. A few small types that refer to each other can have very many."""

_SCALARS: Final[Mapping[str, object]] = {
    "bool": False,
    "int": 1,
    "nat": 1,
    "dec128": "1.5",
    "bytes": "AA==",
    "text": "text",
    "time": "2026-01-02T03:04:05Z",
    "duration": "1m30s",
    "hash": f"blake3:{'0' * 64}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "unit": None,
}


def example_value(schema: Schema, schemas: Mapping[str, Schema]) -> object | None:
    """Return JSON that the schema reads; None if it would have more than ``PARTS_MAX`` parts.

    ``schemas`` has those that it refers to. Options are null; lists, sets and maps have one item;
    of a variant it is the first arm that an event from outside may have.
    """
    try:
        return _Example(schemas).of(schema.type)
    except _TooLargeError:
        return None


class _TooLargeError(Exception):
    pass


class _Example:
    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._types = {name: schema.type for name, schema in schemas.items()}
        self._parts_left = PARTS_MAX

    def of(self, type_: Type) -> object:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise _TooLargeError
        match resolve(type_, self._types):
            case Scalar(name):
                return _SCALARS[name]
            case Record(fields):
                return {name: self.of(field) for name, field in fields}
            case Variant(arms):
                return self._arm(arms)
            case ListOf(item) | SetOf(item):
                return [self.of(item)]
            case MapOf(key, item) if key.name in ("int", "nat"):
                return [[self.of(key), self.of(item)]]
            case MapOf(key, item):
                return {str(self.of(key)): self.of(item)}
        return None  # an option

    def _arm(self, arms: tuple[tuple[str, Type], ...]) -> object:
        plain_arms = [(tag, type_) for tag, type_ in arms if not _is_continuation(type_)]
        tag, type_ = (plain_arms or arms)[0]
        return tag if resolve(type_, self._types) == UNIT else {tag: self.of(type_)}


def _is_continuation(type_: Type) -> bool:
    return isinstance(type_, TypeRef) and type_.name in CONTINUATIONS
