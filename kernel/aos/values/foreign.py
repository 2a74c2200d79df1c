"""Read CBOR of other libraries, and bring it into the normal form of a schema
(spec/agentos.md, AG-20 to AG-23).

Two steps: ``decode_foreign`` reads any well-formed CBOR. It ignores tags, accepts indefinite
lengths, uses the last of two equal keys, and reads ``undefined`` as null. ``relaxed`` then rewrites
the value as the schema's ingress gate expects it, and that gate refuses a value that does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, cast

from aos.values.cbor import (
    INGRESS_BYTES_MAX,
    INGRESS_DEPTH_MAX,
    INGRESS_ITEMS_MAX,
    Value,
)
from aos.values.errors import MalformedCbor, ValueProblem
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

_BREAK: Final = 0xFF
_INDEFINITE: Final = 31
_SIMPLE: Final[Mapping[int, bool | None]] = {20: False, 21: True, 22: None, 23: None}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_BOOLS: Final = {"true": True, "false": False}
_UNIT: Final = Scalar("unit")
_NO_FIELDS: Final = Record(())


def decode_foreign(
    data: bytes, *, max_bytes: int = INGRESS_BYTES_MAX, shows_floats: bool = False
) -> Value:
    """Read one item of CBOR, within the limits of the ingress gate.

    A float is refused, or becomes ``{"$float": text}`` for display. Raises MalformedCbor.
    """
    if len(data) > max_bytes:
        raise MalformedCbor(
            f"too large: expected at most {max_bytes} bytes, found {len(data)}", offset=max_bytes
        )
    reader = _Reader(data, shows_floats=shows_floats)
    value = reader.item(INGRESS_DEPTH_MAX)
    if reader.at != len(data):
        raise MalformedCbor(
            f"expected the end, found {len(data) - reader.at} bytes more", offset=reader.at
        )
    return value


class _Reader:
    def __init__(self, data: bytes, *, shows_floats: bool) -> None:
        self.data = data
        self.at = 0
        self._items = INGRESS_ITEMS_MAX
        self._shows_floats = shows_floats

    def item(self, levels: int) -> Value:
        self._items -= 1
        if self._items < 0:
            raise self._problem(f"too many items: expected at most {INGRESS_ITEMS_MAX}")
        initial = self._take(1)[0]
        major, info = initial >> 5, initial & 31
        if major == 7:
            return self._simple(info)
        if major == 6:
            self._argument(info)
            # A tag counts as a level, which bounds a chain of tags.
            return self.item(self._levels_below(levels))
        if info == _INDEFINITE and major > 1:
            return self._indefinite(major, levels)
        n = self._argument(info)
        if major < 2:
            return n if major == 0 else -1 - n
        if major < 4:
            return self._string(major, self._take(n))
        return self._container(major, n, levels)

    def _simple(self, info: int) -> Value:
        if info in _SIMPLE:
            return _SIMPLE[info]
        form = _FLOATS.get(info)
        if form is None:
            raise self._problem("a simple value that means nothing")
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        if not self._shows_floats:
            raise self._problem("a float: expected null, bool, integer, bytes, text, array or map")
        return {"$float": repr(number)}

    def _string(self, major: int, data: bytes) -> Value:
        if major == 2:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self._problem("text is not valid UTF-8") from None

    def _container(self, major: int, n: int, levels: int) -> Value:
        if n > len(self.data) - self.at:
            raise self._problem(f"cut short: expected {n} items")
        levels_below = self._levels_below(levels)
        if major == 4:
            return [self.item(levels_below) for _ in range(n)]
        return dict([self._entry(levels_below) for _ in range(n)])

    def _indefinite(self, major: int, levels: int) -> Value:
        levels_below = self._levels_below(levels)
        if major < 4:
            parts = []
            while not self._ends():
                initial = self._take(1)[0]
                if initial >> 5 != major or initial & 31 == _INDEFINITE:
                    raise self._problem("a chunk of another kind")
                parts.append(self._take(self._argument(initial & 31)))
            return self._string(major, b"".join(parts))
        if major == 4:
            items: list[Value] = []
            while not self._ends():
                items.append(self.item(levels_below))
            return items
        entries: dict[str | int, Value] = {}
        while not self._ends():
            entries.update([self._entry(levels_below)])
        return entries

    def _entry(self, levels: int) -> tuple[str | int, Value]:
        key = self.item(0)
        if type(key) is not str and type(key) is not int:
            raise self._problem("map key: expected text or an integer")
        return key, self.item(levels)

    def _ends(self) -> bool:
        if self.data[self.at : self.at + 1] != bytes([_BREAK]):
            return False
        self.at += 1
        return True

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise self._problem("not CBOR: a reserved head")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _take(self, n: int) -> bytes:
        end = self.at + n
        if end > len(self.data):
            raise self._problem(f"cut short: expected {n} bytes")
        chunk = self.data[self.at : end]
        self.at = end
        return chunk

    def _levels_below(self, levels: int) -> int:
        if levels == 0:
            raise self._problem("nested too deep: expected no container here")
        return levels - 1

    def _problem(self, message: str) -> MalformedCbor:
        return MalformedCbor(message, offset=self.at)


def relaxed(type_: Type, value: Value, schemas: Mapping[str, Schema]) -> Value:
    """Rewrite a value of another program as the ingress gate of ``type_`` reads it, where its
    meaning is unambiguous. It checks nothing and keeps unknown parts unchanged.

    ``{Arm: v}`` and ``"Arm"`` become variants, ``$value`` of a unit arm is removed, text and lists
    of numbers become bytes where bytes are expected, ``"true"`` becomes a bool, null becomes a
    record without fields, and anything becomes unit.
    """
    while isinstance(type_, TypeRef):  # a chain of aliases may be as long as a manifest
        schema = schemas.get(type_.name)
        if schema is None:
            return value
        type_ = schema.type
    match type_:
        case Option(item):
            return None if value is None else relaxed(item, value, schemas)
        case ListOf(item) | SetOf(item):
            if isinstance(value, list):
                return [relaxed(item, element, schemas) for element in value]
        case MapOf(_, item):
            if isinstance(value, dict):
                return {key: relaxed(item, element, schemas) for key, element in value.items()}
        case Record(fields):
            if value is None and not fields:
                return {}
            if isinstance(value, dict):
                types = dict(fields)
                return {
                    key: relaxed(types[key], part, schemas)
                    if isinstance(key, str) and key in types
                    else part
                    for key, part in value.items()
                }
        case Variant(arms):
            return _variant(dict(arms), value, schemas)
        case Scalar():
            return _scalar(type_, value)
    return value


def _variant(arms: Mapping[str, Type], value: Value, schemas: Mapping[str, Schema]) -> Value:
    tag, content, has_value = _arm(value)
    arm = None if tag is None else arms.get(tag)
    if arm == _UNIT:
        return {"$tag": tag}
    if arm is None or not (has_value or _needs_no_value(arm, schemas)):
        return value
    return {"$tag": tag, "$value": relaxed(arm, content, schemas)}


def _needs_no_value(arm: Type, schemas: Mapping[str, Schema]) -> bool:
    """Whether an arm has one value only, so that it may be left out: a unit behind a ref, or a
    record without fields."""
    while isinstance(arm, TypeRef) and arm.name in schemas:
        arm = schemas[arm.name].type
    return arm in (_UNIT, _NO_FIELDS)


def _arm(value: Value) -> tuple[str | None, Value, bool]:
    """(arm, its value, whether it has a value)."""
    if isinstance(value, str):
        return value, None, False
    if not isinstance(value, dict):
        return None, None, False
    if "$tag" in value:
        tag = value["$tag"]
        is_plain = value.keys() <= {"$tag", "$value"} and isinstance(tag, str)
        return (str(tag) if is_plain else None), value.get("$value"), "$value" in value
    if len(value) == 1:
        [(name, content)] = value.items()
        return (name, content, True) if isinstance(name, str) else (None, None, False)
    return None, None, False


def _scalar(type_: Scalar, value: Value) -> Value:
    if type_ == _UNIT:
        return None
    if type_ == Scalar("bytes"):
        return _bytes(value)
    if isinstance(value, str) and type_ == Scalar("bool"):
        return _BOOLS.get(value, value)
    return value


def _bytes(value: Value) -> Value:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(cast("list[int]", value))
    return value


def from_foreign(
    schema: Schema,
    schemas: Mapping[str, Schema],
    data: bytes,
    *,
    max_bytes: int = INGRESS_BYTES_MAX,
) -> tuple[bytes, Value]:
    """(canonical bytes, value) in the normal form of ``schema``; ``schemas`` has what it refers to.

    Raises:
        ValueProblem: It does not fit, or is too large.
    """
    value = relaxed(schema.type, decode_foreign(data, max_bytes=max_bytes), schemas)
    normal = schema.normalise(value)
    canonical = schema.encode(normal)
    if len(canonical) > max_bytes:
        raise ValueProblem(
            f"too large: expected at most {max_bytes} bytes in canonical form, "
            f"found {len(canonical)}"
        )
    return canonical, normal
