"""``sys/HttpRequestParams@1`` at the gate: a header may be written as plain text (M-52).

The type language has no "text or variant", so this one schema has a door of its own: in ingress
CBOR and in JSON a header that is text is read as ``literal``. The normal form is always the
variant; the record gate accepts nothing else.
"""

from __future__ import annotations

from typing import cast

from aos.values.cbor import INGRESS_BYTES_MAX, Value
from aos.values.errors import ValueProblem
from aos.values.schema import Schema


class HttpParams(Schema):
    """The compiled schema, with that door. Secrets are refused: this version has none."""

    __slots__ = ()

    def __init__(self, compiled: Schema) -> None:
        codec = compiled._codec  # noqa: SLF001  # the same type, made once more
        super().__init__(compiled.name, compiled.type, codec)

    def normalise(self, value: Value) -> Value:
        return _without_secrets(super().normalise(_literal_cbor(value)))

    def from_ingress(self, data: bytes, *, max_bytes: int = INGRESS_BYTES_MAX) -> bytes:
        canonical = super().from_ingress(data, max_bytes=max_bytes)
        # Bytes that were canonical already have not been through normalise.
        _without_secrets(self.from_record(canonical))
        return canonical

    def from_json_object(self, obj: object) -> Value:
        return _without_secrets(super().from_json_object(_literal_json(obj)))


def _literal_cbor(value: Value) -> Value:
    headers = value.get("headers") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(headers, dict):
        return value
    tagged: dict[str | int, Value] = {
        name: {"$tag": "literal", "$value": header} if isinstance(header, str) else header
        for name, header in headers.items()
    }
    return {**value, "headers": tagged}


def _literal_json(obj: object) -> object:
    headers = obj.get("headers") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) or not isinstance(headers, dict):
        return obj
    tagged = {
        name: {"literal": header} if isinstance(header, str) else header
        for name, header in headers.items()
    }
    return {**obj, "headers": tagged}


def _without_secrets(normal: Value) -> Value:
    headers = cast("dict[str, dict[str, dict[str, Value]]]", normal)["headers"]
    for name, header in headers.items():
        if header["$tag"] != "literal":
            problem = ValueProblem("secrets are not supported by this version: expected text")
            raise problem.under(name).under("headers")
    return normal
