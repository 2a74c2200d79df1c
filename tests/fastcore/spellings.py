"""Values of a compiled type, broken values, and other spellings of bytes, by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from aos.values.cbor import encode
from aos.values.expressions import (
    UNIT,
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

I64_MIN, I64_MAX, U64_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
WORDS: Final = ("", "a", "ok", "x" * 24, "é", "$tag", "acme/x@1", "blake3:" + "0" * 64, "literal")
ODD: Final[tuple[Any, ...]] = (
    None, True, 0, -1, U64_MAX, "", "x", "true", b"", b"x", [], [1], {}, {"a": 1}, {"$tag": "x"},
    {"$tag": "literal", "$value": "h"}, {"literal": "h"},
)  # fmt: skip
DEEP: Final = 8


def _integer(chance: Random) -> int:
    return chance.choice(
        [0, 1, -1, 23, 24, -25, 255, 256, I64_MIN, I64_MAX, chance.getrandbits(40)]
    )


_SCALARS: Final[Mapping[str, Callable[[Random], Any]]] = {
    "bool": lambda chance: chance.random() < 0.5,
    "int": _integer,
    "time": _integer,
    "duration": _integer,
    "nat": lambda chance: chance.choice([0, 23, 24, 65_536, U64_MAX, chance.getrandbits(40)]),
    "dec128": lambda chance: chance.choice(["0", "1.5", "-3", "100", "9" * 34]),
    "bytes": lambda chance: chance.randbytes(chance.randint(0, 6)),
    "text": lambda chance: chance.choice(WORDS),
    "hash": lambda chance: f"blake3:{chance.randbytes(32).hex()}",
    "uuid": lambda chance: f"{chance.getrandbits(32):08x}-0000-4000-8000-0123456789ab",
    "unit": lambda _: None,
}


def value_of(type_: Type, schemas: Mapping[str, Schema], chance: Random, depth: int = 0) -> Any:
    """A value in normal form."""

    def inner(part: Type) -> Any:
        return value_of(part, schemas, chance, depth + 1)

    def count(most: int) -> int:
        return 0 if depth > DEEP else chance.randint(0, most)

    match type_:
        case Scalar(name):
            return _SCALARS[name](chance)
        case TypeRef(name):
            return value_of(schemas[name].type, schemas, chance, depth)
        case Option(item):
            return None if depth > DEEP or chance.random() < 0.4 else inner(item)
        case ListOf(item):
            return [inner(item) for _ in range(count(2))]
        case SetOf(item):
            by_bytes = {encode(element): element for element in map(inner, [item] * count(3))}
            return [by_bytes[key] for key in sorted(by_bytes)]
        case MapOf(key, item):
            return {inner(key): inner(item) for _ in range(count(2))}
        case Record(fields):
            return {name: inner(field) for name, field in fields}
        case Variant(arms):
            tag, arm = chance.choice(arms)
            return {"$tag": tag} if arm == UNIT else {"$tag": tag, "$value": inner(arm)}


def broken(value: Any, chance: Random) -> Any:
    """The value with another value, a new field or none at one place."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        match chance.randint(0, 4):
            case 0:
                return {key: part for key, part in value.items() if key != name}
            case 1:
                return {**value, chance.choice(["zz", 3, "$x"]): chance.choice([None, 1])}
            case _:
                return {**value, name: broken(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], broken(value[index], chance), *value[index + 1 :]]
    return chance.choice(ODD)


def of_another_form(value: Any, chance: Random) -> Any:
    """The value as an earlier or a later form of its schema has it: with fewer or more nulls."""
    if isinstance(value, list):
        return [of_another_form(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    parts = {
        key: of_another_form(part, chance)
        for key, part in value.items()
        if part is not None or chance.random() < 0.5
    }
    if chance.random() < 0.3:
        parts[chance.choice(["zz", "new", "a", 5])] = chance.choice([None, None, 1])
    return parts


def spelled(value: Any, chance: Random) -> bytes:
    """The value in CBOR of any program: wide heads, any order, chunks, tags, repeated keys."""
    match value:
        case None:
            return chance.choice([b"\xf6", b"\xf6", b"\xf7"])
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(0, value, chance) if value >= 0 else _head(1, -1 - value, chance)
        case str():
            return _string(3, value.encode(), chance)
        case bytes():
            if chance.random() < 0.1:
                return _head(4, len(value), chance) + b"".join(_head(0, n, chance) for n in value)
            return _string(2, value, chance)
        case list():
            return _container(4, [spelled(item, chance) for item in value], chance)
    entries = [spelled(key, chance) + spelled(part, chance) for key, part in value.items()]
    chance.shuffle(entries)
    if entries and chance.random() < 0.05:
        entries.append(entries[0])
    return _container(5, entries, chance)


def _head(major: int, n: int, chance: Random) -> bytes:
    if n < 24 and chance.random() < 0.7:
        return bytes([major << 5 | n])
    sizes = [size for size in (1, 2, 4, 8) if n < 1 << 8 * size]
    size = chance.choice([sizes[0], sizes[0], *sizes])
    return bytes([major << 5 | 23 + size.bit_length()]) + n.to_bytes(size, "big")


def _string(major: int, data: bytes, chance: Random) -> bytes:
    tag = b"\xd9\xd9\xf7" if chance.random() < 0.03 else b""
    if len(data) > 1 and chance.random() < 0.05:
        chunks = [data[:1], data[1:]]
        whole = b"".join(_head(major, len(chunk), chance) + chunk for chunk in chunks)
        return tag + bytes([major << 5 | 31]) + whole + b"\xff"
    return tag + _head(major, len(data), chance) + data


def _container(major: int, items: list[bytes], chance: Random) -> bytes:
    if chance.random() < 0.05:
        return bytes([major << 5 | 31]) + b"".join(items) + b"\xff"
    return _head(major, len(items), chance) + b"".join(items)


def damaged(data: bytes, chance: Random) -> bytes:
    """The bytes with up to three others."""
    whole = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(whole))
        match chance.randint(0, 3):
            case 0:
                whole[at : at + 1] = chance.randbytes(1)
            case 1:
                del whole[at : at + 1]
            case 2:
                whole[at:at] = chance.choice([b"\0", b"\x18", b"\x60", b"\xf6", b"\xa0", b"\xd9"])
            case _:
                del whole[at:]
    return bytes(whole)
