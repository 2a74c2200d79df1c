"""Show recorded bytes as JSON, by their schema if they fit it. Nothing here raises."""

from __future__ import annotations

from collections.abc import Mapping

from aos.values.cbor import INGRESS_BYTES_MAX, decode_record
from aos.values.codec import JsonForm
from aos.values.errors import ValueProblem
from aos.values.foreign import decode_foreign, from_foreign
from aos.values.schema import Schema, untyped_to_json


def as_json(
    schema: Schema | None, data: bytes, *, is_ingress: bool = False, for_people: bool = False
) -> object:
    """Return bytes as JSON: by the schema if they fit it, else as plain CBOR, else as raw bytes."""
    try:
        if schema is not None:
            if is_ingress:
                data = schema.from_ingress(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))
            form = JsonForm.PEOPLE if for_people else JsonForm.TEXTS
            return schema.to_json(schema.completed_value(data), form=form)
        return untyped_to_json(decode_record(data))
    except ValueProblem:
        if schema is not None:
            return as_json(None, data)
        return untyped_to_json(data)


def opaque_as_json(schema: Schema, schemas: Mapping[str, Schema], data: bytes) -> object:
    """Return an unchecked state as JSON: by the schema if it can be read so, else as plain CBOR,
    else as raw bytes."""
    bytes_max = max(len(data), INGRESS_BYTES_MAX)
    try:
        value = from_foreign(schema, schemas, data, max_bytes=bytes_max)[1]
        return schema.to_json(value, form=JsonForm.TEXTS)
    except ValueProblem:
        pass
    try:
        return untyped_to_json(decode_foreign(data, max_bytes=bytes_max, shows_floats=True))
    except ValueProblem:
        return untyped_to_json(data)
