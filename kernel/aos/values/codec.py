"""One Type -> the closures that check and convert its values (spec/values.md, V-30 and after).

Each closure handles one value of one type and calls those of its parts; nothing is looked up while
a value is walked. A refusal starts with the path ``$`` and each container puts its own step in
front while the exception passes through, so that a path costs nothing when all is well.

``read`` is the quick way in: it takes the canonical bytes of a normal value straight to that value
and raises ``Miss`` (or IndexError, or ValueError) for anything else. It never explains: the careful
way, ``decode_ingress`` or ``decode_record`` and then ``normal``, finds out what is wrong. It needs
no bounds checks of its own: a slice over the end leaves a position over the end, which the next
read, or the caller's look at the last position, turns into a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from aos.values.cbor import (
    FALSE,
    NULL,
    TRUE,
    Value,
    encode_bytes,
    encode_integer,
    encode_key,
    encode_text,
    head,
)
from aos.values.errors import ValueProblem, quoted
from aos.values.expressions import (
    UNIT,
    ListOf,
    MapOf,
    Option,
    Record,
    Ref,
    Scalar,
    SetOf,
    Type,
    Variant,
)
from aos.values.show import describe
from aos.values.spelling import (
    base64_bytes,
    base64_text,
    duration_ns,
    normal_decimal,
    normal_hash,
    normal_uuid,
    time_ns,
)

FILLED_FIELDS_MAX: Final = 65_536
"""Absent option fields that one value may leave to us: bounds what a short input can grow to."""

Pairs: TypeAlias = dict[str | int, Value]


class Room:
    """How many absent fields may still be filled in, in one value."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields = FILLED_FIELDS_MAX

    def take(self, fields: int) -> None:
        self.fields -= fields
        if self.fields < 0:
            raise ValueProblem(f"too many absent fields: expected at most {FILLED_FIELDS_MAX}")


class Miss(ValueError):
    """Not the canonical bytes of a normal value. Never leaves this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """What can be done with values of one type.

    Attributes:
        says: The type in an error message.
        normal: What the ingress gate decoded -> normal form, or ValueProblem.
        from_json: What parse_json returned -> normal form, or ValueProblem.
        to_json: Normal value -> JSON-able object.
        encode: Normal value -> canonical bytes.
        read: (data, position) -> (normal value, position after it), or a miss.
    """

    says: str
    normal: Callable[[Value, Room], Value]
    from_json: Callable[[object, Room], Value]
    to_json: Callable[[Any], object]
    encode: Callable[[Any], bytes]
    read: Callable[[bytes, int], tuple[Value, int]]
    may_be_absent: bool = False


def build(type_: Type, codecs: Mapping[str, Codec]) -> Codec:
    """Compile. ``codecs`` has every schema that ``type_`` refers to."""
    match type_:
        case Scalar(name):
            return SCALAR_CODECS[name]
        case Ref(name):
            return codecs[name]
        case Option(item):
            return _option(build(item, codecs))
        case ListOf(item):
            return _list(build(item, codecs))
        case SetOf(item):
            return _set(build(item, codecs))
        case MapOf(key, item):
            return _map(
                SCALAR_CODECS[key.name],
                build(item, codecs),
                keys_are_integers=key.name in ("int", "nat"),
            )
        case Record(fields):
            return _record({name: build(field, codecs) for name, field in fields})
        case Variant(arms):
            return _variant(
                {name: None if arm == UNIT else build(arm, codecs) for name, arm in arms}
            )


def _wrong(expected: str, value: object) -> ValueProblem:
    return ValueProblem(f"expected {expected}, found {describe(value)}")


def _same(value: object) -> object:
    return value


# Heads, as ``read`` sees them: only the shortest is a hit.


def _argument(data: bytes, at: int) -> tuple[int, int]:
    info = data[at] & 31
    if info < 24:
        return info, at + 1
    if info > 27:
        raise Miss
    end = at + 1 + (1 << info - 24)
    n = int.from_bytes(data[at + 1 : end], "big")
    if n < _LEAST[info]:
        raise Miss
    return n, end


_LEAST: Final = {24: 24, 25: 0x100, 26: 0x1_0000, 27: 0x1_0000_0000}


def _length(data: bytes, at: int, major: int) -> tuple[int, int]:
    if data[at] & 0xE0 != major:
        raise Miss
    return _argument(data, at)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    initial = data[at]
    if 0x60 <= initial < 0x78:
        end = at + initial - 0x5F
        return data[at + 1 : end].decode(), end
    n, start = _length(data, at, 0x60)
    end = start + n
    return data[start:end].decode(), end


def _read_bytes(data: bytes, at: int) -> tuple[Value, int]:
    n, start = _length(data, at, 0x40)
    end = start + n
    return data[start:end], end


# Scalars


def _bool() -> Codec:
    def normal(value: object, _: Room) -> Value:
        if type(value) is bool:
            return value
        raise _wrong("bool", value)

    def encode(value: bool) -> bytes:
        return b"\xf5" if value else b"\xf4"

    def read(data: bytes, at: int) -> tuple[Value, int]:
        initial = data[at]
        if initial == TRUE:
            return True, at + 1
        if initial == FALSE:
            return False, at + 1
        raise Miss

    return Codec(
        says="bool", normal=normal, from_json=normal, to_json=_same, encode=encode, read=read
    )


def _unit() -> Codec:
    says = "unit (null)"

    def normal(value: object, _: Room) -> Value:
        if value is None:
            return None
        raise _wrong(says, value)

    def encode(_: None) -> bytes:
        return b"\xf6"

    def read(data: bytes, at: int) -> tuple[Value, int]:
        if data[at] == NULL:
            return None, at + 1
        raise Miss

    return Codec(
        says=says, normal=normal, from_json=normal, to_json=_same, encode=encode, read=read
    )


def _text() -> Codec:
    def normal(value: object, _: Room) -> Value:
        if type(value) is str:
            return value
        raise _wrong("text", value)

    return Codec(
        says="text",
        normal=normal,
        from_json=normal,
        to_json=_same,
        encode=encode_text,
        read=_read_text,
    )


def _integer(
    says: str, low: int, high: int, *, spelling: Callable[[str], int | None] | None, form: str = ""
) -> Codec:
    """``spelling`` reads the text that JSON may have instead, such as ``form``."""
    limits = f"{says} ({'0 to 2^64-1' if low == 0 else '-2^63 to 2^63-1'})"

    def normal(value: object, _: Room) -> Value:
        if type(value) is int:
            if low <= value <= high:
                return value
            raise _wrong(limits, value)
        raise _wrong(says, value)

    def from_json(value: object, room: Room) -> Value:
        if spelling is None or type(value) is not str:
            return normal(value, room)
        ns = spelling(value)
        if ns is None:
            raise _wrong(f"{says} as integer ns or as text such as {form}", value)
        if low <= ns <= high:
            return ns
        raise _wrong(f"{limits} in ns", value)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        initial = data[at]
        if initial < 24:
            return initial, at + 1
        if initial >= 0x40:
            raise Miss
        n, end = _argument(data, at)
        if initial >= 0x20:
            n = -1 - n
        if low <= n <= high:
            return n, end
        raise Miss

    return Codec(
        says=says,
        normal=normal,
        from_json=from_json,
        to_json=_same,
        encode=encode_integer,
        read=read,
    )


def _spelled(says: str, normal_form: Callable[[str], str | None], form: str) -> Codec:
    """dec128, hash, uuid: text of a form, the same in CBOR and in JSON."""

    def normal(value: object, _: Room) -> Value:
        if type(value) is not str:
            raise _wrong(says, value)
        text = normal_form(value)
        if text is None:
            raise _wrong(f"{says} ({form})", value)
        return text

    def read(data: bytes, at: int) -> tuple[Value, int]:
        text, end = _read_text(data, at)
        if normal_form(text) == text:
            return text, end
        raise Miss

    return Codec(
        says=says, normal=normal, from_json=normal, to_json=_same, encode=encode_text, read=read
    )


def _bytes() -> Codec:
    def normal(value: object, _: Room) -> Value:
        if type(value) is bytes:
            return value
        raise _wrong("bytes", value)

    def from_json(value: object, _: Room) -> Value:
        data = base64_bytes(value) if type(value) is str else None
        if data is None:
            raise _wrong("bytes (base64 text, standard alphabet, padded)", value)
        return data

    return Codec(
        says="bytes",
        normal=normal,
        from_json=from_json,
        to_json=base64_text,
        encode=encode_bytes,
        read=_read_bytes,
    )


_I64: Final = (-(1 << 63), (1 << 63) - 1)
SCALAR_CODECS: Final[Mapping[str, Codec]] = {
    "bool": _bool(),
    "int": _integer("int", *_I64, spelling=None),
    "nat": _integer("nat", 0, (1 << 64) - 1, spelling=None),
    "dec128": _spelled("dec128", normal_decimal, 'decimal such as "12.5", at most 34 digits'),
    "bytes": _bytes(),
    "text": _text(),
    "time": _integer("time", *_I64, spelling=time_ns, form='"2026-01-02T03:04:05.123456789Z"'),
    "duration": _integer("duration", *_I64, spelling=duration_ns, form='"1m30s"'),
    "hash": _spelled("hash", normal_hash, "blake3:<64 lower-case hex digits>"),
    "uuid": _spelled("uuid", normal_uuid, "hex digits as 8-4-4-4-12"),
    "unit": _unit(),
}


# Option


def _option(item: Codec) -> Codec:
    inner_normal, inner_from_json, inner_to_json = item.normal, item.from_json, item.to_json
    inner_encode, inner_read = item.encode, item.read

    def normal(value: Value, room: Room) -> Value:
        return None if value is None else inner_normal(value, room)

    def from_json(value: object, room: Room) -> Value:
        return None if value is None else inner_from_json(value, room)

    def to_json(value: Value) -> object:
        return None if value is None else inner_to_json(value)

    def encode(value: Value) -> bytes:
        return b"\xf6" if value is None else inner_encode(value)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        return (None, at + 1) if data[at] == NULL else inner_read(data, at)

    return Codec(
        says=f"{item.says} or null",
        normal=normal,
        from_json=from_json,
        to_json=to_json,
        encode=encode,
        read=read,
        may_be_absent=True,
    )


# List and set


def _walk_list(says: str, read: Callable[[Any, Room], Value]) -> Callable[[object, Room], Value]:
    """``read`` on each element; the same for both forms that a list comes in."""

    def walk(value: object, room: Room) -> Value:
        if type(value) is not list:
            raise _wrong(says, value)
        out: list[Value] = []
        try:
            for element in value:
                out.append(read(element, room))  # noqa: PERF401  # its length names the bad one
        except ValueProblem as problem:
            raise problem.under(len(out)) from None
        return out

    return walk


def _list(item: Codec) -> Codec:
    inner_encode, inner_read, inner_to_json = item.encode, item.read, item.to_json

    def to_json(value: list[Value]) -> object:
        return [inner_to_json(element) for element in value]

    def encode(value: list[Value]) -> bytes:
        return head(0x80, len(value)) + b"".join([inner_encode(element) for element in value])

    def read(data: bytes, at: int) -> tuple[Value, int]:
        n, at = _length(data, at, 0x80)
        out: list[Value] = []
        for _ in range(n):
            element, at = inner_read(data, at)
            out.append(element)
        return out, at

    return Codec(
        says="list",
        normal=_walk_list("list", item.normal),
        from_json=_walk_list("list, as an array", item.from_json),
        to_json=to_json,
        encode=encode,
        read=read,
    )


def _set(item: Codec) -> Codec:
    """In CBOR a list whose elements ascend by their encoded bytes."""
    inner_encode, inner_read = item.encode, item.read
    elements = _list(item)

    def sorting(
        walk: Callable[[Any, Room], Value],
    ) -> Callable[[object, Room], Value]:
        def sort(value: object, room: Room) -> Value:
            found = cast("list[Value]", walk(value, room))
            by_bytes = {inner_encode(element): element for element in found}
            return [by_bytes[key] for key in sorted(by_bytes)]

        return sort

    def read(data: bytes, at: int) -> tuple[Value, int]:
        n, at = _length(data, at, 0x80)
        out: list[Value] = []
        last = b""
        for _ in range(n):
            start = at
            element, at = inner_read(data, at)
            encoded = data[start:at]
            if encoded <= last:
                raise Miss
            last = encoded
            out.append(element)
        return out, at

    return Codec(
        says="set",
        normal=sorting(_walk_list("set", item.normal)),
        from_json=sorting(_walk_list("set, as an array", item.from_json)),
        to_json=elements.to_json,
        encode=elements.encode,
        read=read,
    )


# Map


def _map(key: Codec, item: Codec, *, keys_are_integers: bool) -> Codec:
    key_normal, key_read = key.normal, key.read
    inner_encode, inner_read, inner_to_json = item.encode, item.read, item.to_json

    def read_key(value: object, room: Room, taken: Pairs) -> str | int:
        try:
            name = cast("str | int", key_normal(cast("Value", value), room))
        except ValueProblem as problem:
            raise ValueProblem(f"map key: {problem.message}") from None
        if name in taken:
            raise ValueProblem(f"map key: duplicate {describe(name)}")
        return name

    def in_order(pairs: Pairs) -> Value:
        return {name: pairs[name] for name in sorted(pairs, key=encode_key)}

    def walking(says: str, read: Callable[[Any, Room], Value]) -> Callable[[object, Room], Value]:
        def walk(value: object, room: Room) -> Value:
            if type(value) is not dict:
                raise _wrong(says, value)
            out: Pairs = {}
            for name, element in value.items():
                normal_name = read_key(name, room, out)
                try:
                    out[normal_name] = read(element, room)
                except ValueProblem as problem:
                    raise problem.under(name) from None
            return in_order(out)

        return walk

    def pair_from_json(pair: object, room: Room, out: Pairs) -> None:
        if type(pair) is not list or len(pair) != 2:
            raise _wrong("a [key, value] pair", pair)
        name = read_key(pair[0], room, out)
        try:
            out[name] = item.from_json(pair[1], room)
        except ValueProblem as problem:
            raise problem.under(1) from None

    def pairs_from_json(value: object, room: Room) -> Value:
        if type(value) is not list:
            raise _wrong("map, as an array of [key, value] pairs", value)
        out: Pairs = {}
        for index, pair in enumerate(value):
            try:
                pair_from_json(pair, room, out)
            except ValueProblem as problem:
                raise problem.under(index) from None
        return in_order(out)

    def pairs_to_json(value: Pairs) -> object:
        return [[name, inner_to_json(value[name])] for name in sorted(value, key=encode_key)]

    def object_to_json(value: Pairs) -> object:
        return {name: inner_to_json(element) for name, element in value.items()}

    def encode(value: Pairs) -> bytes:
        # No encoded key is a prefix of another, so entries sort as their keys do.
        entries = sorted(
            [encode_key(name) + inner_encode(element) for name, element in value.items()]
        )
        return head(0xA0, len(entries)) + b"".join(entries)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        n, at = _length(data, at, 0xA0)
        out: Pairs = {}
        last = b""
        for _ in range(n):
            start = at
            name, at = key_read(data, at)
            encoded = data[start:at]
            if encoded <= last:
                raise Miss
            last = encoded
            out[cast("str | int", name)], at = inner_read(data, at)
        return out, at

    return Codec(
        says="map",
        normal=walking("map", item.normal),
        from_json=pairs_from_json
        if keys_are_integers
        else walking("map, as an object", item.from_json),
        to_json=pairs_to_json if keys_are_integers else object_to_json,
        encode=encode,
        read=read,
    )


# Record


def _record(fields: Mapping[str, Codec]) -> Codec:
    names = sorted(fields, key=encode_key)
    count = len(names)
    map_head = head(0xA0, count)
    writers = [(name, encode_key(name), fields[name].encode) for name in names]
    readers = [(name, key, len(key), fields[name].read) for name, key, _ in writers]
    json_writers = [(name, fields[name].to_json) for name in names]

    def complete(value: Mapping[str, object], room: Room) -> Mapping[str, object]:
        """``value`` with null for absent options, or the reason why it is not this record."""
        for name in value:
            if name not in fields:
                raise ValueProblem(f"unknown field (known: {_listed(names)})").under(name)
        for name in names:
            if name not in value and not fields[name].may_be_absent:
                raise ValueProblem(f"missing: expected {fields[name].says}").under(name)
        room.take(count - len(value))
        return {name: value.get(name) for name in names}

    def walking(
        says: str, parts: list[tuple[str, Callable[[Any, Room], Value]]]
    ) -> Callable[[object, Room], Value]:
        def walk(value: object, room: Room) -> Value:
            if type(value) is not dict:
                raise _wrong(says, value)
            given: Mapping[str, object] = value
            # As many keys as fields, and each field among them: then there is no other key.
            if len(given) != count:
                given = complete(given, room)
            out: Pairs = {}
            name = ""
            try:
                for name, read in parts:
                    out[name] = read(given[name], room)
            except KeyError:
                complete(given, room)  # finds the unknown field that stands in for the missing one
                raise
            except ValueProblem as problem:
                raise problem.under(name) from None
            return out

        return walk

    def to_json(value: Pairs) -> object:
        return {name: write(value[name]) for name, write in json_writers}

    def encode(value: Pairs) -> bytes:
        if len(value) != count:
            raise TypeError(f"not in normal form: expected {count} fields, found {len(value)}")
        return map_head + b"".join([key + write(value[name]) for name, key, write in writers])

    def read(data: bytes, at: int) -> tuple[Value, int]:
        if not data.startswith(map_head, at):
            raise Miss
        at += len(map_head)
        out: Pairs = {}
        for name, key, size, inner in readers:
            if not data.startswith(key, at):
                raise Miss
            out[name], at = inner(data, at + size)
        return out, at

    return Codec(
        says="record",
        normal=walking("record", [(name, fields[name].normal) for name in names]),
        from_json=walking(
            "record, as an object", [(name, fields[name].from_json) for name in names]
        ),
        to_json=to_json,
        encode=encode,
        read=read,
    )


# Variant

_TAG: Final = encode_key("$tag")
_VALUE: Final = encode_key("$value")
_VARIANT_KEYS: Final = frozenset({"$tag", "$value"})


def _variant(arms: Mapping[str, Codec | None]) -> Codec:
    """A unit arm is None. "$tag" is shorter than "$value", so it comes first."""
    tags = sorted(arms)
    prefixes: dict[str, bytes] = {}
    by_prefix: dict[bytes, tuple[str, Codec | None]] = {}
    for tag, arm in arms.items():
        opening = head(0xA0, 1 if arm is None else 2) + _TAG + encode_text(tag)
        by_prefix[opening] = (tag, arm)
        prefixes[tag] = opening if arm is None else opening + _VALUE

    def arm_of(tag: object) -> Codec | None:
        if type(tag) is not str:
            raise _wrong("an arm name", tag)
        if tag not in arms:
            raise ValueProblem(f"unknown arm {quoted(tag)} (known: {_listed(tags)})")
        return arms[tag]

    def tagged(value: Mapping[Any, object]) -> tuple[str, Codec | None, object]:
        """(tag, its arm, what stands at "$value") of the canonical form."""
        try:
            arm = arm_of(value["$tag"])
        except ValueProblem as problem:
            raise problem.under("$tag") from None
        for key in value:
            if key not in _VARIANT_KEYS:
                raise ValueProblem("unknown field of a variant (known: $tag, $value)").under(key)
        if arm is None and "$value" in value:
            raise ValueProblem("expected no $value in a unit arm").under("$value")
        if arm is not None and "$value" not in value:
            raise ValueProblem(f"missing: expected {arm.says}").under("$value")
        return cast("str", value["$tag"]), arm, value.get("$value")

    def short(value: Mapping[str, object]) -> tuple[str, Codec | None, object]:
        """The same of the form ``{Arm: value}``."""
        if len(value) != 1:
            raise ValueProblem(
                'expected variant {"$tag", "$value"} or {Arm: value},'
                f" found an object of {len(value)} keys"
            )
        ((tag, inner),) = value.items()
        arm = arm_of(tag)
        if arm is None and inner is not None:
            raise _wrong("null in a unit arm", inner).under(tag)
        return tag, arm, inner

    def normal(value: Value, room: Room) -> Value:
        if type(value) is not dict or "$tag" not in value:
            raise _wrong('variant {"$tag", "$value"}', value)
        tag, arm, inner = tagged(value)
        if arm is None:
            return {"$tag": tag}
        try:
            return {"$tag": tag, "$value": arm.normal(cast("Value", inner), room)}
        except ValueProblem as problem:
            raise problem.under("$value") from None

    def from_json(value: object, room: Room) -> Value:
        if type(value) is str:
            if arm_of(value) is not None:
                raise ValueProblem(
                    f"arm {quoted(value)} has a value: expected {{{quoted(value)}: value}}"
                )
            return {"$tag": value}
        if type(value) is not dict:
            raise _wrong('variant {"$tag", "$value"}, {Arm: value} or "Arm"', value)
        is_tagged = "$tag" in value
        tag, arm, inner = (tagged if is_tagged else short)(value)
        if arm is None:
            return {"$tag": tag}
        try:
            return {"$tag": tag, "$value": arm.from_json(inner, room)}
        except ValueProblem as problem:
            raise problem.under("$value" if is_tagged else tag) from None

    def to_json(value: Pairs) -> object:
        tag = cast("str", value["$tag"])
        arm = arms[tag]
        return (
            {"$tag": tag} if arm is None else {"$tag": tag, "$value": arm.to_json(value["$value"])}
        )

    def encode(value: Pairs) -> bytes:
        tag = cast("str", value["$tag"])
        arm = arms[tag]
        if len(value) != (1 if arm is None else 2):
            raise TypeError(f"not in normal form: arm {tag} with {len(value)} fields")
        return prefixes[tag] if arm is None else prefixes[tag] + arm.encode(value["$value"])

    def read(data: bytes, at: int) -> tuple[Value, int]:
        # The head of the map is one byte, and the key "$tag" five.
        n, start = _length(data, at + 6, 0x60)
        tag_arm = by_prefix.get(data[at : start + n])
        if tag_arm is None:
            raise Miss
        tag, arm = tag_arm
        at = start + n
        if arm is None:
            return {"$tag": tag}, at
        if not data.startswith(_VALUE, at):
            raise Miss
        inner, at = arm.read(data, at + len(_VALUE))
        return {"$tag": tag, "$value": inner}, at

    return Codec(
        says="variant",
        normal=normal,
        from_json=from_json,
        to_json=to_json,
        encode=encode,
        read=read,
    )


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
