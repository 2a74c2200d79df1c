"""Schemas: compiled type expressions, which check and convert values.

``bytes --from_ingress--> canonical bytes``; ``bytes --from_record--> value``; ``text --from_json-->
value``. A result of one of these is in normal form and is never checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.values.cbor import (
    INGRESS_BYTES_MAX,
    INGRESS_DEPTH_MAX,
    INGRESS_ITEMS_MAX,
    RECORD_BYTES_MAX,
    RECORD_ITEMS_MAX,
    Value,
    decode_ingress,
    decode_record,
    is_within,
)
from aos.values.codec import Codec, JsonForm, Miss, Room
from aos.values.containers import build
from aos.values.errors import SchemaProblem, SchemaProblems, ValueProblem, quoted
from aos.values.expressions import Type, read_types
from aos.values.json_text import parse_json
from aos.values.show import describe, untyped_to_json

__all__ = [
    "Schema",
    "SchemaProblem",
    "SchemaProblems",
    "compile_schemas",
    "describe",
    "parse_json",
    "untyped_to_json",
    "value_at",
]


class Schema:
    """One compiled schema. It has no state and may be used from any thread."""

    __slots__ = ("_codec", "name", "type")

    def __init__(self, name: str, type_: Type, codec: Codec) -> None:
        self.name: Final = name
        self.type: Final = type_
        self._codec = codec

    def __repr__(self) -> str:
        return f"Schema({self.name!r})"

    def normalise(self, value: Value) -> Value:
        """A value that the ingress gate decoded -> its normal form. Raises ValueProblem."""
        return self._codec.normal(value, Room())

    def from_ingress(self, data: bytes, *, max_bytes: int = INGRESS_BYTES_MAX) -> bytes:
        """Bytes of another program -> the canonical bytes of the normal form.

        ``max_bytes`` holds for both. Raises ValueProblem (MalformedCbor for what is not CBOR).
        """
        return self.from_ingress_value(data, max_bytes=max_bytes)[0]

    def from_ingress_value(
        self, data: bytes, *, max_bytes: int = INGRESS_BYTES_MAX
    ) -> tuple[bytes, Value]:
        """As ``from_ingress``, but return the decoded value too."""
        if len(data) <= max_bytes:
            try:
                return data, self._exactly(data, INGRESS_ITEMS_MAX)
            except (IndexError, ValueError):
                pass  # not canonical or not this type: the slow path explains it
        value = self.normalise(decode_ingress(data, max_bytes=max_bytes))
        canonical = self.encode(value)
        if len(canonical) > max_bytes:
            raise ValueProblem(
                f"too large: expected at most {max_bytes} bytes in canonical form,"
                f" found {len(canonical)}"
            )
        return canonical, value

    def from_record(self, data: bytes) -> Value:
        """Bytes of ``encode`` -> the value. Raises ValueProblem unless canonical and normal."""
        if len(data) <= RECORD_BYTES_MAX:
            try:
                return self._exactly(data, RECORD_ITEMS_MAX)
            except (IndexError, ValueError):
                pass  # damaged: the slow path finds the place
        value = decode_record(data)
        normal = self.normalise(value)
        if normal != value:
            raise _difference(normal, value)
        return value

    def completed(self, data: bytes) -> bytes:
        """Bytes that an earlier form of this schema encoded -> the canonical bytes of this one
        (V-46a): null in each record for every absent field of type option. Returns ``data`` itself
        if no field is absent.

        Raises:
            ValueProblem: They differ from the normal form in any other way, or lack more fields
                than one value may (V-42).
        """
        return self._refitted(data, Room())

    def completed_value(self, data: bytes) -> Value:
        """As ``from_record`` of ``completed``, but the bytes of this form are read once."""
        if len(data) <= RECORD_BYTES_MAX:
            try:
                return self._exactly(data, RECORD_ITEMS_MAX)
            except (IndexError, ValueError):
                pass  # of an earlier form, or damaged
        return self.from_record(self.completed(data))

    def fitted(self, data: bytes) -> bytes:
        """Bytes that an earlier or later form of this schema encoded -> the canonical bytes of this
        one (V-46b): as ``completed``, and without the null fields that this form does not have.

        Raises:
            ValueProblem: As in ``completed``.
        """
        return self._refitted(data, Room(leaves_out=True))

    def _refitted(self, data: bytes, room: Room) -> bytes:
        if len(data) <= RECORD_BYTES_MAX:
            try:
                self._exactly(data, RECORD_ITEMS_MAX)
            except (IndexError, ValueError):
                pass  # of another form, or damaged: the slow path tells which
            else:
                return data
        value = decode_record(data)
        normal = self._codec.normal(value, room)
        if not _differs_in_nulls_alone(normal, value):
            raise _difference(normal, value)
        return self.encode(normal)

    def _exactly(self, data: bytes, items: int) -> Value:
        """The value with exactly the canonical bytes ``data``. Raises IndexError or ValueError,
        without a reason, for anything else."""
        value, end = self._codec.read(data, 0)
        # An item has at least one byte, so few bytes need no counting. The type bounds the depth.
        if end == len(data) and (
            len(data) <= items or is_within(value, levels=INGRESS_DEPTH_MAX, items=items)
        ):
            return value
        raise Miss

    def encode(self, value: Value) -> bytes:
        """Canonical bytes of a value, which must be in normal form: it is not checked."""
        return self._codec.encode(value)

    def from_json(self, text: str, *, max_bytes: int = INGRESS_BYTES_MAX) -> Value:
        """Authoring JSON -> the value in normal form. Raises ValueProblem."""
        # A map with integer keys has two levels of arrays in JSON, but one level in CBOR.
        return self.from_json_object(
            parse_json(
                text,
                max_bytes=max_bytes,
                max_depth=2 * INGRESS_DEPTH_MAX,
                max_items=INGRESS_ITEMS_MAX,
            )
        )

    def from_json_object(self, obj: object) -> Value:
        """Result of ``parse_json`` -> the value in normal form. Raises ValueProblem."""
        return self._codec.from_json(obj, Room())

    def to_json(self, value: Value, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        """A value in normal form -> an object for json.dumps (V-51); ``from_json_object`` reads it,
        except the form for people."""
        return self._codec.to_json(value, form=form)


def compile_schemas(types: Mapping[str, object]) -> dict[str, Schema]:
    """Compile all schemas of a manifest together: name -> type expression.

    Raises SchemaProblems with all problems of all expressions.
    """
    codecs: dict[str, Codec] = {}
    schemas: dict[str, Schema] = {}
    for name, type_ in read_types(types).items():
        codecs[name] = build(type_, codecs)
        schemas[name] = Schema(name, type_, codecs[name])
    return schemas


def value_at(value: Value, dotted: str) -> Value:
    """The part of ``value`` that a key_field names: "order_id", "a.b", "$value.note_id"."""
    part = value
    path = "$"
    for name in dotted.split("."):
        if not isinstance(part, dict):
            raise ValueProblem(
                f"expected a record with the field {quoted(name)}, found {describe(part)}",
                path=path,
            )
        if name not in part:
            raise ValueProblem(f"expected the field {quoted(name)}, found none", path=path)
        part = part[name]
        path = f"{path}.{name}"
    return part


def _differs_in_nulls_alone(normal: Value, actual: Value) -> bool:
    """Whether a value is its normal form except for fields that one of both has, as null."""
    if isinstance(normal, dict) and isinstance(actual, dict):
        return all(
            _differs_in_nulls_alone(part, actual[name]) if name in actual else part is None
            for name, part in normal.items()
        ) and all(part is None or name in normal for name, part in actual.items())
    if isinstance(normal, list) and isinstance(actual, list):
        return len(normal) == len(actual) and all(map(_differs_in_nulls_alone, normal, actual))
    return normal == actual


def _difference(normal: Value, actual: Value) -> ValueProblem:
    """Describe the first place where a canonical value differs from its normal form."""
    if isinstance(normal, dict) and isinstance(actual, dict):
        for name, part in normal.items():
            if name not in actual:
                return ValueProblem("not in normal form: expected null, found no such field").under(
                    name
                )
            if part != actual[name]:
                return _difference(part, actual[name]).under(name)
    if isinstance(normal, list) and isinstance(actual, list) and len(normal) == len(actual):
        for index, (part, actual_part) in enumerate(zip(normal, actual, strict=True)):
            if part != actual_part:
                return _difference(part, actual_part).under(index)
    return ValueProblem(
        f"not in normal form: expected {describe(normal)}, found {describe(actual)}"
    )
