"""``sys/HttpRequestParams@1`` at the gate: a header may be written as plain text (M-52).

The type language has no "text or variant", so this schema has its own reader: in ingress CBOR and
in JSON a header that is text is read as ``literal``. The normal form is always the variant, and the
record gate accepts only that.
"""

from __future__ import annotations

from typing import cast

from aos.values.cbor import INGRESS_BYTES_MAX, Value
from aos.values.errors import ValueProblem
from aos.values.schema import Schema


class HttpParams(Schema):
    """The compiled schema with that reader. It refuses secrets if the manifest has none."""

    __slots__ = ("_has_secrets",)

    def __init__(self, compiled: Schema, *, has_secrets: bool) -> None:
        codec = compiled._codec  # noqa: SLF001  # the same type, made once more
        super().__init__(compiled.name, compiled.type, codec)
        self._has_secrets = has_secrets

    def normalise(self, value: Value) -> Value:
        return self._accepted(super().normalise(_literal_cbor(value)))

    def from_ingress_value(
        self, data: bytes, *, max_bytes: int = INGRESS_BYTES_MAX
    ) -> tuple[bytes, Value]:
        canonical, value = super().from_ingress_value(data, max_bytes=max_bytes)
        # Bytes that were already canonical have not passed ``normalise``.
        return canonical, self._accepted(value)

    def from_json_object(self, obj: object) -> Value:
        return self._accepted(super().from_json_object(_literal_json(obj)))

    def _accepted(self, normal: Value) -> Value:
        return normal if self._has_secrets else _without_secrets(normal)


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
            # Part of a hashed fault: journals have these words (M-52).
            problem = ValueProblem("secrets are not supported by this version: expected text")
            raise problem.under(name).under("headers")
    return normal
