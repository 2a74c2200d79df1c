"""The guest envelopes: the input of a module and its output (spec/kernel.md).

    input  = {version: 1, state: bytes | null, event: {schema, value, key?}, ctx?: bytes}
    output = {state: bytes | null, domain_events?, effects?, ann?, status?} or {fault: {...}}

This file checks shapes only; ``step`` checks the contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias, TypeVar

from aos.core.decide.dialect.aos import EFFECT_FIELDS
from aos.core.journal.faults import MESSAGE_BYTES_MAX, Fault, FaultKind, clipped
from aos.core.journal.vocabulary import DECLARED_STATUSES, DeclaredStatus, word_of
from aos.values.cbor import Value, decode_ingress, encode_bytes, encode_text
from aos.values.errors import ValueProblem, quoted

NAME_BYTES_MAX: Final = 256
"""Longest idempotency key or issuer reference."""

DETAIL_BYTES_MAX: Final = 4096


def input_envelope(
    *, state: bytes | None, schema: str, value: bytes, key: bytes, ctx: bytes | None
) -> bytes:
    # Written out in canonical order: shorter keys first.
    return b"".join(
        (
            b"\xa3" if ctx is None else b"\xa4\x63ctx" + encode_bytes(ctx),
            b"\x65event\xa2" if not key else b"\x65event\xa3\x63key" + encode_bytes(key),
            b"\x65value" + encode_bytes(value),
            b"\x66schema" + encode_text(schema),
            b"\x65state" + (b"\xf6" if state is None else encode_bytes(state)),
            b"\x67version\x01",
        )
    )


@dataclass(frozen=True, slots=True)
class DomainEvent:
    """An event that a step emits; ``key`` overrides that of the route."""

    schema: str
    value: bytes
    key: bytes | None


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """An effect that a step requests."""

    effect: str
    params: bytes
    key: str | bytes | None
    issuer_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The result of a step that a module returned."""

    state: bytes | None
    events: tuple[DomainEvent, ...]
    effects: tuple[EffectRequest, ...]
    ann: bytes | None
    status: DeclaredStatus | None


class Misfit(Exception):  # internal to a step: becomes a recorded fault, never escapes the core
    """The output breaks a rule; ``fault`` says which."""

    def __init__(self, kind: FaultKind, message: str, detail: bytes | None = None) -> None:
        super().__init__(message)
        self.fault = Fault(kind=kind, message=clipped(message), detail=detail)


def read_output(
    data: bytes, *, max_bytes: int, effect_fields: frozenset[str] = EFFECT_FIELDS
) -> Output:
    """Read the output of a module; ``effect_fields`` are those that a requested effect may have.

    Raises:
        Misfit: It is not an output envelope, or it is the module's own fault.
    """
    try:
        value = decode_ingress(data, max_bytes=max_bytes)
    except ValueProblem as error:
        raise Misfit(FaultKind.OUTPUT_MALFORMED, f"the output is not CBOR: {error}") from error
    fields = _record(value, "$", _OUTPUT)
    if fields.get("fault") is not None:
        _guest_fault(fields)
    if "state" not in fields:
        _malformed("$.state", "bytes or null", "nothing")
    text = _optional(fields, "status", str, "$")
    status = word_of(DECLARED_STATUSES, text)
    if text is not None and status is None:
        _malformed("$.status", " or ".join(DECLARED_STATUSES), quoted(text))
    return Output(
        state=_optional(fields, "state", bytes, "$"),
        events=tuple(
            [
                _event(item, f"$.domain_events[{i}]")
                for i, item in enumerate(_list(fields, "domain_events"))
            ]
        ),
        effects=tuple(
            [
                _effect(item, f"$.effects[{i}]", effect_fields)
                for i, item in enumerate(_list(fields, "effects"))
            ]
        ),
        ann=_optional(fields, "ann", bytes, "$"),
        status=status,
    )


_Fields: TypeAlias = Mapping[str | int, Value]
T = TypeVar("T", str, bytes)
_OUTPUT: Final = frozenset({"state", "domain_events", "effects", "ann", "status", "fault"})
_EVENT: Final = frozenset({"schema", "value", "key"})
_FAULT: Final = frozenset({"kind", "message", "detail"})


def _event(value: Value, path: str) -> DomainEvent:
    fields = _record(value, path, _EVENT)
    return DomainEvent(
        _required(fields, "schema", str, path),
        _required(fields, "value", bytes, path),
        _optional(fields, "key", bytes, path),
    )


def _effect(value: Value, path: str, names: frozenset[str]) -> EffectRequest:
    fields = _record(value, path, names)
    for name, alias in (("effect", "kind"), ("params", "params_cbor")):
        if name in fields and alias in fields:
            _malformed(path, f"{name} or its alias {alias}", "both")
    key = fields.get("idempotency_key")
    if key is not None and not isinstance(key, str | bytes):
        _malformed(f"{path}.idempotency_key", "text or bytes", _kind(key))
    issuer_ref = _optional(fields, "issuer_ref", str, path)
    for name, identifier in (("idempotency_key", key), ("issuer_ref", issuer_ref)):
        size = len(identifier.encode() if isinstance(identifier, str) else identifier or b"")
        if size > NAME_BYTES_MAX:
            _malformed(f"{path}.{name}", f"at most {NAME_BYTES_MAX} bytes", f"{size}")
    return EffectRequest(
        _required(fields, "effect" if "effect" in fields else "kind", str, path),
        _required(fields, "params" if "params" in fields else "params_cbor", bytes, path),
        key,
        issuer_ref,
    )


def _guest_fault(fields: _Fields) -> NoReturn:
    beside = sorted(str(name) for name in fields if name != "fault")
    if beside:
        _malformed("$", "fault alone", "fault beside " + ", ".join(beside))
    fault = _record(fields["fault"], "$.fault", _FAULT)
    kind = _required(fault, "kind", str, "$.fault")
    message = _required(fault, "message", str, "$.fault")
    detail = _optional(fault, "detail", bytes, "$.fault")
    text = f"{kind}: {message}"
    if len(text.encode()) > MESSAGE_BYTES_MAX:
        _malformed("$.fault.message", f"at most {MESSAGE_BYTES_MAX} bytes with the kind", "more")
    if detail is not None and len(detail) > DETAIL_BYTES_MAX:
        _malformed("$.fault.detail", f"at most {DETAIL_BYTES_MAX} bytes", str(len(detail)))
    raise Misfit(FaultKind.GUEST, text, detail)


def _record(value: Value, path: str, names: frozenset[str]) -> _Fields:
    if not isinstance(value, dict):
        _malformed(path, "a map", _kind(value))
    if not value.keys() <= names:
        unknown = next(name for name in value if name not in names)
        _malformed(path, "only " + ", ".join(sorted(names)), _name_text(unknown))
    return value


def _name_text(name: str | int) -> str:
    return quoted(name) if isinstance(name, str) else str(name)


def _list(fields: _Fields, name: str) -> list[Value]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        _malformed(f"$.{name}", "an array", _kind(value))
    return value


def _required(fields: _Fields, name: str, kind: type[T], path: str) -> T:
    value = fields.get(name)
    if not isinstance(value, kind):
        _malformed(f"{path}.{name}", _NAMES[kind], _kind(value))
    return value


def _optional(fields: _Fields, name: str, kind: type[T], path: str) -> T | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        _malformed(f"{path}.{name}", _NAMES[kind], _kind(value))
    return value


_NAMES: Final[Mapping[type, str]] = {str: "text", bytes: "bytes"}


def _kind(value: Value) -> str:
    if value is None:
        return "nothing"
    return {bool: "bool", int: "integer", bytes: "bytes", str: "text", list: "array"}.get(
        type(value), "map"
    )


def _malformed(path: str, expected: str, actual: str) -> NoReturn:
    raise Misfit(FaultKind.OUTPUT_MALFORMED, f"{path}: expected {expected}, found {actual}")
