"""The rules of spec/values.md for CBOR written a second time, as plainly as they can be.

Nothing here is shared with ``aos.values``. ``encode`` follows V-10 and V-11; ``encode_widely``
makes any of the other spellings that the ingress gate reads (V-13).
"""

from __future__ import annotations

import random
import struct
from typing import Final

from aos.values.cbor import Value

_WIDTHS: Final = ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q"))


def head(major: int, n: int, *, info: int | None = None) -> bytes:
    """``info`` asks for a width that is not the shortest; None is the shortest."""
    if info is None:
        info = n if n < 24 else next(i for i, form in _WIDTHS if n < 256 ** struct.calcsize(form))
    if info < 24:
        return bytes([major * 32 + info])
    return bytes([major * 32 + info]) + struct.pack(dict(_WIDTHS)[info], n)


def encode(value: Value) -> bytes:
    return _encode(value, None)


def encode_widely(value: Value, chance: random.Random) -> bytes:
    """Another spelling of the same value: keys in any order, heads of any width, perhaps a tag."""
    prefix = b"\xd9\xd9\xf7" if chance.random() < 0.3 else b""
    return prefix + _encode(value, chance)


def _encode(value: Value, chance: random.Random | None) -> bytes:
    if value is None:
        return b"\xf6"
    if value is True:
        return b"\xf5"
    if value is False:
        return b"\xf4"
    if isinstance(value, int):
        return _head(0, value, chance) if value >= 0 else _head(1, -1 - value, chance)
    if isinstance(value, bytes):
        return _head(2, len(value), chance) + value
    if isinstance(value, str):
        utf8 = value.encode("utf-8")
        return _head(3, len(utf8), chance) + utf8
    if isinstance(value, list):
        return _head(4, len(value), chance) + b"".join(_encode(item, chance) for item in value)
    entries = [
        (encode(key), _encode(key, chance), _encode(item, chance)) for key, item in value.items()
    ]
    if chance is None:
        entries.sort()
    else:
        chance.shuffle(entries)
    return _head(5, len(value), chance) + b"".join(key + item for _, key, item in entries)


def _head(major: int, n: int, chance: random.Random | None) -> bytes:
    shortest = head(major, n)
    if chance is None or chance.random() < 0.5:
        return shortest
    least = len(shortest) - 1
    wider = [i for i, form in _WIDTHS if struct.calcsize(form) >= max(1, least)]
    return head(major, n, info=chance.choice(wider))


def encode_hostile(value: Value, chance: random.Random) -> bytes:
    """Nearly the canonical bytes: one of the forbidden spellings, or none, somewhere inside."""
    if chance.random() < 0.2:
        return chance.choice(_FORBIDDEN) + encode(value)
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        parts = [encode(item) for item in value]
        parts[at] = encode_hostile(value[at], chance)
        return _container(4, len(value), parts, chance)
    if isinstance(value, dict) and value:
        entries = sorted((encode(key), item) for key, item in value.items())
        at = chance.randrange(len(entries))
        parts = [key + encode(item) for key, item in entries]
        parts[at] = entries[at][0] + encode_hostile(entries[at][1], chance)
        return _container(5, len(value), parts, chance)
    return encode_widely(value, chance)


_FORBIDDEN: Final = (
    b"\xc1",
    b"\xd9\xd9\xf7",
    b"\xfb" + bytes(7),
    b"\xf7",
    b"\xf8",
    b"\xff",
    b"\x1c",
)


def _container(major: int, n: int, parts: list[bytes], chance: random.Random) -> bytes:
    match chance.choice(["as it is", "double", "swap", "indefinite", "wide", "more", "fewer"]):
        case "double":
            parts.insert(0, parts[0])
            n += 1
        case "swap":
            parts[0], parts[-1] = parts[-1], parts[0]
        case "indefinite":
            return bytes([major * 32 + 31]) + b"".join(parts) + b"\xff"
        case "wide":
            return head(major, n, info=chance.choice([24, 25, 26, 27])) + b"".join(parts)
        case "more":
            n += chance.choice([1, 2, 23])
        case "fewer":
            n -= 1
        case _:
            pass
    return head(major, n) + b"".join(parts)


def items(value: Value) -> int:
    """How many items a value has: anything with a head, keys too."""
    if isinstance(value, list):
        return 1 + sum(items(item) for item in value)
    if isinstance(value, dict):
        return 1 + sum(1 + items(item) for item in value.values())
    return 1
