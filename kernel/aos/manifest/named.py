"""Find the blobs that values of a world name, under all its manifests (spec/state.md, RT-12).

Rule 1: a value is read with every version of its schema that any manifest of this world had. So it
does not matter under which one it was written; keeping a blob that is not named does no harm.

Rule 2: versions that cannot name a blob cost nothing, and equal versions count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from aos.manifest.effective import Effective
from aos.values.digests import Hash, content_hash
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
from aos.values.hash_fields import HashFields, blobs_of, spelled_in
from aos.values.hash_fields import Named as ByName
from aos.values.schema import Schema

_Versions: TypeAlias = dict[Hash, tuple[HashFields, Schema]]
"""The versions of one schema whose values can name blobs, by shape."""


_MAP: Final = 0xA0


class BlobReferences:
    """Add every manifest, then query. ``blob_by_name`` finds the blob with a SHA-256 name."""

    def __init__(self, blob_by_name: ByName = lambda _: None) -> None:
        self._by_name = blob_by_name
        self._opaque: set[str] = set()
        self._events: dict[str, _Versions] = {}
        self._states: dict[str, _Versions] = {}
        self._annotations: dict[str, _Versions] = {}
        self._keys: dict[str, _Versions] = {}
        self._params: dict[str, _Versions] = {}

    def add(self, manifest: Effective) -> None:
        """Add a manifest of the world."""
        fields = HashFields(manifest.schemas, self._by_name)
        shapes = _Shapes(manifest.schemas)

        def take(into: dict[str, _Versions], name: str, schema: Schema | None) -> None:
            if schema is not None and fields.are_in(schema.name):
                into.setdefault(name, {})[shapes.of(schema.name)] = (fields, schema)

        for name, schema in manifest.schemas.items():
            take(self._events, name, schema)
        for name, workflow in manifest.workflows.items():
            take(self._states, name, workflow.state)
            if workflow.has_opaque_state:
                self._opaque.add(name)
            take(self._annotations, name, workflow.annotations)
            take(self._keys, name, workflow.key)
        for name, effect in manifest.effects.items():
            take(self._params, name, effect.params)

    def value(self, schema: str, data: bytes) -> Iterator[Hash]:
        """The blobs that a value of this schema names: an event, a receipt's payload."""
        return _in(self._events, schema, data)

    def state(self, workflow: str, data: bytes) -> Iterator[Hash]:
        """The blobs that a state of this workflow names. An opaque one names every hash in it."""
        if workflow in self._opaque:
            return blobs_of(spelled_in(data), self._by_name)
        return _in(self._states, workflow, data)

    def annotations(self, workflow: str, data: bytes) -> Iterator[Hash]:
        return _in(self._annotations, workflow, data)

    def key(self, workflow: str, data: bytes) -> Iterator[Hash]:
        return _in(self._keys, workflow, data)

    def params(self, effect: str, data: bytes) -> Iterator[Hash]:
        return _in(self._params, effect, data)

    def has_states(self, workflow: str) -> bool:
        """Whether a state of this workflow can name a blob; otherwise it need not be read."""
        return workflow in self._states or workflow in self._opaque

    def has_values(self, schema: str) -> bool:
        return schema in self._events

    def has_annotations(self, workflow: str) -> bool:
        return workflow in self._annotations

    def has_keys(self, workflow: str) -> bool:
        return workflow in self._keys

    def has_params(self, effect: str) -> bool:
        return effect in self._params


def is_document(data: bytes) -> bool:
    """Whether a blob of a world's manifests is a document (a map in CBOR) rather than a module."""
    return bool(data) and data[0] & 0xE0 == _MAP


def _in(versions: Mapping[str, _Versions], name: str, data: bytes) -> Iterator[Hash]:
    for fields, schema in versions.get(name, {}).values():
        yield from fields.of(schema, data)


class _Shapes:
    """Hashes of schemas, with the schemas that they refer to."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._hash_by_name: dict[str, Hash] = {}

    def of(self, name: str) -> Hash:
        shape_hash = self._hash_by_name.get(name)
        if shape_hash is None:
            type_ = self._schemas[name].type
            parts = [repr(type_).encode(), *(self.of(ref) for ref in _refs(type_))]
            shape_hash = self._hash_by_name[name] = content_hash(b"".join(parts))
        return shape_hash


def _refs(type_: Type) -> Iterator[str]:
    match type_:
        case TypeRef(name):
            yield name
        case Option(item) | ListOf(item) | SetOf(item) | MapOf(_, item):
            yield from _refs(item)
        case Record(parts) | Variant(parts):
            for _, part in parts:
                yield from _refs(part)
        case Scalar():
            pass
