"""Find the hashes in the fields of type ``hash`` of a value (spec/values.md, V-70 to V-73).

Rule 1: only the type decides. Text that looks like a hash, and bytes that are one, do not count.

Rule 2: values of a schema without such a field are not decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from aos.values.cbor import INGRESS_BYTES_MAX, Value
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem
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
from aos.values.sha256 import parse_sha256

_Walk: TypeAlias = Callable[[Any], Iterator[str]]
"""Takes a value in normal form, and yields the hashes in it as text."""

Named: TypeAlias = Callable[[bytes], Hash | None]
"""Returns the blob with a SHA-256 name, if there is one (V-71)."""

_HASH: Final = Scalar("hash")
_BLAKE3: Final = "blake3:"
_SPELLED: Final = re.compile(rb"(?:blake3|sha256):[0-9a-f]{64}")


class HashFields:
    """Finds hashes in values. ``schemas`` has all schemas that their schemas refer to."""

    def __init__(self, schemas: Mapping[str, Schema], blob_by_name: Named = lambda _: None) -> None:
        self._named_so = blob_by_name
        self._types = {name: schema.type for name, schema in schemas.items()}
        self._walks: dict[str, _Walk | None] = {}

    def are_in(self, name: str) -> bool:
        """Whether a value of this schema can name a blob. KeyError for an unknown schema."""
        return self._schema_walk(name) is not None

    def of(self, schema: Schema, data: bytes) -> Iterator[Hash]:
        """The hashes that a value of ``schema`` names, in its order and with repetitions.

        ``data`` is canonical CBOR, or bytes of another program. If they do not fit the schema there
        are no hashes: no one can have read one by this type.
        """
        walk = self._schema_walk(schema.name)
        if walk is not None:
            try:
                value = _value(schema, data)
            except ValueProblem:
                return
            yield from blobs_of(walk(value), self._named_so)

    def below(self, name: str, path: str) -> _Walk | None:
        """A function that finds the hashes at or below the field ``path`` of values of this schema;
        None if there can be none.

        ``path`` has the names of fields, joined by dots. Options, lists, sets, maps and variants on
        the way have no name in it: all that is in them counts.
        """
        return self._below(self._types[name], tuple(path.split(".")))

    def _below(self, type_: Type, path: tuple[str, ...]) -> _Walk | None:
        if not path:
            return self._walk(type_)
        match type_:
            case TypeRef(name):
                return self._below(self._types[name], path)
            case Option(item):
                return _in_option(self._below(item, path))
            case ListOf(item) | SetOf(item):
                return _in_list(self._below(item, path))
            case MapOf(_, item):
                return _in_map(None, self._below(item, path))
            case Record(fields):
                inner = dict(fields).get(path[0])
                walk = None if inner is None else self._below(inner, path[1:])
                return _in_record({} if walk is None else {path[0]: walk})
            case Variant(arms):
                walks = {tag: self._below(arm, path) for tag, arm in arms}
                return _in_variant({tag: walk for tag, walk in walks.items() if walk is not None})
            case Scalar():
                return None

    def _schema_walk(self, name: str) -> _Walk | None:
        if name not in self._walks:
            # References have no cycles (V-25).
            self._walks[name] = self._walk(self._types[name])
        return self._walks[name]

    def _walk(self, type_: Type) -> _Walk | None:
        """A function that finds the hashes in a value of this type; None if it cannot have any."""
        match type_:
            case Scalar():
                return _walk_hash if type_ == _HASH else None
            case TypeRef(name):
                return self._schema_walk(name)
            case Option(item):
                return _in_option(self._walk(item))
            case ListOf(item) | SetOf(item):
                return _in_list(self._walk(item))
            case MapOf(key, item):
                return _in_map(self._walk(key), self._walk(item))
            case Record(fields):
                return _in_record(self._walks_of(fields))
            case Variant(arms):
                return _in_variant(self._walks_of(arms))

    def _walks_of(self, parts: tuple[tuple[str, Type], ...]) -> dict[str, _Walk]:
        walks = {name: self._walk(part) for name, part in parts}
        return {name: walk for name, walk in walks.items() if walk is not None}


def _value(schema: Schema, data: bytes) -> Value:
    try:
        return schema.from_record(data)
    except ValueProblem:
        # A payload from outside may be stored as it was signed, in any spelling.
        return schema.from_ingress_value(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))[1]


def blobs_of(hash_texts: Iterable[str], blob_by_name: Named) -> Iterator[Hash]:
    """The blobs that hashes name; hashes of other algorithms name none."""
    for text in hash_texts:
        name = parse_sha256(text)
        if text.startswith(_BLAKE3):
            yield parse_hash(text)
        elif name is not None and (blob := blob_by_name(name)) is not None:
            yield blob


def spelled_in(data: bytes) -> Iterator[str]:
    """Every hash that occurs in ``data`` as text, whatever the bytes are otherwise (V-74)."""
    for match in _SPELLED.finditer(data):
        yield match[0].decode()


def _walk_hash(value: Any) -> Iterator[str]:
    yield value


def _in_option(item: _Walk | None) -> _Walk | None:
    if item is None:
        return None

    def walk(value: Any) -> Iterator[str]:
        if value is not None:
            yield from item(value)

    return walk


def _in_list(item: _Walk | None) -> _Walk | None:
    if item is None:
        return None

    def walk(value: Any) -> Iterator[str]:
        for element in value:
            yield from item(element)

    return walk


def _in_map(key: _Walk | None, item: _Walk | None) -> _Walk | None:
    if key is None and item is None:
        return None

    def walk(value: Any) -> Iterator[str]:
        for name, element in value.items():
            if key is not None:
                yield from key(name)
            if item is not None:
                yield from item(element)

    return walk


def _in_record(fields: Mapping[str, _Walk]) -> _Walk | None:
    if not fields:
        return None

    def walk(value: Any) -> Iterator[str]:
        for name, field in fields.items():
            yield from field(value[name])

    return walk


def _in_variant(arms: Mapping[str, _Walk]) -> _Walk | None:
    if not arms:
        return None

    def walk(value: Any) -> Iterator[str]:
        arm = arms.get(value["$tag"])
        if arm is not None:
            yield from arm(value["$value"])

    return walk
