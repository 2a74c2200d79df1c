"""Find the places of ``aos/Sealed@1`` in values, and check that they hold sealed bytes
(spec/sealed.md, SL-1 to SL-13).

A *sealed place* is a part of a value whose type is a reference to ``aos/Sealed@1``. To the kernel
it is bytes. The host checks the sealed places of a value before the kernel gets it, so that no
plaintext is journaled. A manifest without the package pays one look-up for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from aos.manifest.expressions import Types, closure
from aos.values.cbor import decode_ingress
from aos.values.errors import ValueProblem, segment
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
from aos.values.spelling import base64_bytes

SEALED_PACKAGE: Final = "aos/sealed@1"
SEALED: Final = "aos/Sealed@1"
"""The schema of sealed values."""

VERSION: Final = 0x01
KEY_ID_BYTES: Final = 8
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16
HEADER_BYTES: Final = 1 + KEY_ID_BYTES + NONCE_BYTES
SEALED_BYTES_MIN: Final = HEADER_BYTES + 1 + TAG_BYTES
"""The length of the sealed form of a plaintext of one byte, the shortest."""

Change: TypeAlias = Callable[[str, Any], Any]
"""Takes the path and the part at a sealed place, and returns the part to put there."""


def sealing_schemas(names: Iterable[str], types: Types) -> frozenset[str]:
    """The schemas among ``names`` whose values can have sealed places."""
    if types.get(SEALED) != {"bytes": {}}:  # an author's own schema may have this name
        return frozenset()
    return frozenset(name for name in names if SEALED in closure([name], types))


def is_sealing(schemas: Mapping[str, Schema]) -> bool:
    """Whether one of these schemas is that of the package."""
    return SEALED in schemas and schemas[SEALED].type == Scalar("bytes")


def changed(schema: Schema, value: Any, schemas: Mapping[str, Schema], change: Change) -> Any:
    """A copy of a value in which ``change`` has replaced the part at each sealed place, in a fixed
    order (SL-3).

    ``value`` may be CBOR, authoring JSON or the result of a function, and need not fit the schema:
    a part that does not fit is left as it is, for the schema to refuse.

    Raises: What ``change`` raises.
    """
    return _changed(TypeRef(schema.name), value, "$", schemas, change)


def sealed_parts(
    schema: Schema, value: Any, schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, Any]]:
    """(path, part) of each sealed place of a value, in the order of ``changed``."""
    parts: list[tuple[str, Any]] = []

    def keep(path: str, part: Any) -> Any:
        parts.append((path, part))
        return part

    changed(schema, value, schemas, keep)
    yield from parts


def sealing_problem(
    schema: Schema, value: object, schemas: Mapping[str, Schema]
) -> ValueProblem | None:
    """The first sealed place that does not hold bytes of the sealed form (SL-10); None if all do.

    ``value`` is authoring JSON, in which bytes are base64, or CBOR. Call this before the schema
    checks the value: errors of a schema quote what they find, and this one does not. Bytes that are
    not CBOR are left to the kernel.
    """
    is_json = not isinstance(value, bytes)
    if isinstance(value, bytes):
        try:
            value = decode_ingress(value)
        except ValueProblem:
            return None
    for path, part in sealed_parts(schema, value, schemas):
        data = base64_bytes(part) if is_json and isinstance(part, str) else part
        problem = form_problem(data)
        if problem is not None:
            return ValueProblem(f"{problem} (aos send --seal KEYRING seals it)", path=path)
    return None


def form_problem(data: object) -> str | None:
    """Why ``data`` does not have the form of a sealed value; None if it has (SL-5). Neither the
    key nor the ciphertext is looked at."""
    if not isinstance(data, bytes):
        return "expected a sealed value, found something that is not bytes (it is not shown)"
    if data[:1] != bytes([VERSION]):
        return "expected a sealed value, which begins with the byte 0x01, found other bytes"
    if len(data) < SEALED_BYTES_MIN:
        return (
            f"expected a sealed value of at least {SEALED_BYTES_MIN} bytes, found {len(data)}: it "
            "was cut off"
        )
    return None


def _changed(
    type_: Type, value: Any, path: str, schemas: Mapping[str, Schema], change: Change
) -> Any:
    match type_:
        case TypeRef(name) if name == SEALED:
            return change(path, value)
        case TypeRef(name):
            return _changed(schemas[name].type, value, path, schemas, change)
        case Option(inside):
            return None if value is None else _changed(inside, value, path, schemas, change)
        case Record(fields) if isinstance(value, Mapping):
            # By name, because the document does not keep the order in which the author wrote them.
            inside_of = dict(sorted(fields, key=lambda field: field[0]))
            parts = {
                name: _changed(inside_of[name], value[name], path + segment(name), schemas, change)
                for name in inside_of
                if name in value
            }
            return {**value, **parts}
        case Variant(arms) if isinstance(value, Mapping):
            return _changed_arm(dict(arms), value, path, schemas, change)
        case MapOf(item=item) if not isinstance(item, Scalar):
            return _changed_map(item, value, path, schemas, change)
        case ListOf(item) if not isinstance(item, Scalar) and isinstance(value, list | tuple):
            return [
                _changed(item, inner, path + segment(index), schemas, change)
                for index, inner in enumerate(value)
            ]
        case SetOf(item) if isinstance(value, list | tuple | set | frozenset):
            # A set has no order, so its items have one path.
            return [_changed(item, inner, path + "[]", schemas, change) for inner in value]
    return value


def _changed_arm(
    arms: Mapping[str, Type],
    value: Mapping[Any, Any],
    path: str,
    schemas: Mapping[str, Schema],
    change: Change,
) -> Any:
    """A variant, in its form with ``$tag`` and ``$value`` or, in JSON, as ``{Arm: value}``."""
    tag, at = (value.get("$tag"), "$value") if "$tag" in value else (next(iter(value), None),) * 2
    if not isinstance(tag, str) or tag not in arms or at not in value:
        return value
    inner_path = path + segment("$value")
    return {**value, at: _changed(arms[tag], value[at], inner_path, schemas, change)}


def _changed_map(
    item: Type, value: Any, path: str, schemas: Mapping[str, Schema], change: Change
) -> Any:
    """A map, also as the list of pairs that JSON has where keys are integers (V-42)."""
    if isinstance(value, Mapping):
        return {
            key: _changed(item, value[key], path + _step(key), schemas, change)
            for key in sorted(value, key=str)
        }
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [
            [key, _changed(item, inner, path + _step(key), schemas, change)] for key, inner in value
        ]
    return value


def _step(key: object) -> str:
    return segment(key if isinstance(key, int) else str(key))
