"""Canonical CBOR: encode a Value in its only spelling, and decode bytes at two gates.

Canonical is RFC 8949 section 4.2.1: shortest heads, definite lengths, map keys in the order of
their encoded bytes, no duplicates, no tags (spec/values.md, V-10 to V-19). The ingress gate reads
bytes of other programs: any key order and integer width. The record gate reads our own bytes: one
byte that is not canonical is damage. Both bound time and memory before they allocate: they compare
a declared length with the remaining bytes.

    head      initial byte = major type << 5 | info
              info 0..23   the argument itself
              info 24..27  the argument follows in 1, 2, 4 or 8 bytes
    majors    0 n   1 -1-n   2 bytes   3 text   4 array   5 map   6 tag   7 false, true, null
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias, TypeGuard

from aos.values.errors import MalformedCbor, quoted

Value: TypeAlias = "bool | int | bytes | str | list[Value] | dict[str | int, Value] | None"

INGRESS_BYTES_MAX: Final = 1 << 20
INGRESS_ITEMS_MAX: Final = 65_536
INGRESS_DEPTH_MAX: Final = 64
RECORD_BYTES_MAX: Final = 1 << 26
RECORD_ITEMS_MAX: Final = 1 << 22
RECORD_DEPTH_MAX: Final = 128
"""Our own records contain incoming values, so they may be deeper than these."""

INTEGER_MIN: Final = -(1 << 64)
INTEGER_MAX: Final = (1 << 64) - 1

FALSE: Final = 0xF4
TRUE: Final = 0xF5
NULL: Final = 0xF6
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
"""Tag 55799. In AgentOS, every canonical encoding of a key or a hashed value begins with it."""


# Encoding


def encode(value: Value) -> bytes:
    """The canonical bytes of any Value.

    Raises TypeError if it is not a Value (a float, a tuple, a subclass, text with a lone surrogate)
    and OverflowError for an integer outside -2^64 to 2^64-1 or for more levels than the record gate
    reads. Both are bugs of the caller.
    """
    return _encode(value, RECORD_DEPTH_MAX)


def head(major: int, n: int) -> bytes:
    """The shortest head; ``major`` is the major type already shifted (0x40 for bytes)."""
    if n < 0x100:
        return _HEADS[major << 3 | n]
    if n < 0x1_0000:
        return bytes((major | 25, n >> 8, n & 0xFF))
    if n < 0x1_0000_0000:
        return _HEAD_OF_4(major | 26, n)
    if n <= INTEGER_MAX:
        return _HEAD_OF_8(major | 27, n)
    raise OverflowError("an integer of a Value is between -2^64 and 2^64-1")


# A call costs more than the work inside, so the functions for scalars look short heads up inline.


def encode_key(key: str | int) -> bytes:
    """Encode a map key; canonical order compares these bytes."""
    if type(key) is str:
        return _short_text(key) if len(key) <= 32 else encode_text(key)
    if type(key) is int:
        return encode_integer(key)
    raise TypeError(f"not a map key: {type(key).__name__}")


def encode_integer(value: int) -> bytes:
    if 0 <= value < 0x100:
        return _HEADS[value]
    return head(0x00, value) if value >= 0 else head(0x20, -1 - value)


def encode_bytes(value: bytes) -> bytes:
    size = len(value)
    return (_HEADS[0x200 | size] if size < 0x100 else head(0x40, size)) + value


def encode_text(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise TypeError("not a Value: text with a lone surrogate") from None
    size = len(data)
    return (_HEADS[0x300 | size] if size < 0x100 else head(0x60, size)) + data


_HEADS: Final = tuple(
    bytes((major | n,)) if n < 24 else bytes((major | 24, n))
    for major in range(0x00, 0xC0, 0x20)
    for n in range(0x100)
)
"""Every head of one or two bytes, at ``major << 3 | n``."""

_HEAD_OF_4: Final = Struct(">BI").pack
_HEAD_OF_8: Final = Struct(">BQ").pack

# Field names repeat. Long texts are not cached, which bounds the cache's memory.
_short_text = lru_cache(maxsize=4096)(encode_text)


def _encode(value: Value, levels: int) -> bytes:
    if type(value) is bytes:
        return encode_bytes(value)
    if type(value) is str:
        return encode_text(value)
    if type(value) is int:
        return encode_integer(value)
    if type(value) is dict:
        return _encode_map(value, levels)
    if type(value) is list:
        return _encode_list(value, levels)
    if value is None:
        return b"\xf6"
    if type(value) is bool:
        return b"\xf5" if value else b"\xf4"
    raise TypeError(f"not a Value: {type(value).__name__}")


def _encode_list(value: list[Value], levels: int) -> bytes:
    levels = _levels_below(levels)
    return head(0x80, len(value)) + b"".join([_encode(item, levels) for item in value])


def _encode_map(value: dict[str | int, Value], levels: int) -> bytes:
    levels = _levels_below(levels)
    entries = []
    for key, item in value.items():
        if type(item) is bytes:
            entries.append(encode_key(key) + encode_bytes(item))
        elif type(item) is str:
            entries.append(encode_key(key) + encode_text(item))
        else:
            entries.append(encode_key(key) + _encode(item, levels))
    # No encoded key is a prefix of another, so entries sort as their keys do.
    entries.sort()
    return head(0xA0, len(entries)) + b"".join(entries)


def _levels_below(levels: int) -> int:
    if levels == 0:
        raise OverflowError(f"a value nests at most {RECORD_DEPTH_MAX} levels deep")
    return levels - 1


# Decoding


def decode_record(
    data: bytes, *, max_bytes: int = RECORD_BYTES_MAX, max_items: int = RECORD_ITEMS_MAX
) -> Value:
    """Decode the bytes of ``encode``. One byte that is not canonical raises MalformedCbor."""
    gate = _Gate(data, canonical=True, max_bytes=max_bytes, max_items=max_items)
    return gate.read(0, RECORD_DEPTH_MAX)


def decode_ingress(
    data: bytes,
    *,
    max_bytes: int = INGRESS_BYTES_MAX,
    max_items: int = INGRESS_ITEMS_MAX,
    max_depth: int = INGRESS_DEPTH_MAX,
) -> Value:
    """Decode another program's bytes: any key order and integer width, one leading tag 55799.

    Raises MalformedCbor for duplicate keys, indefinite lengths, other tags, floats, simple values
    except false, true and null, map keys that are neither text nor integer, text that is not UTF-8,
    trailing bytes, and anything over the limits. Everything with a head counts as an item, also a
    key.
    """
    gate = _Gate(data, canonical=False, max_bytes=max_bytes, max_items=max_items)
    return gate.read(len(SELF_DESCRIBED) if data.startswith(SELF_DESCRIBED) else 0, max_depth)


def is_nat(value: object) -> TypeGuard[int]:
    """Whether a decoded value is a natural number. A bool is an int to Python, and 1 == True: a
    header with true for 1 would have the same hash."""
    return type(value) is int and value >= 0


def is_within(value: object, *, levels: int, items: int) -> bool:
    """Whether ``value`` nests at most so many levels of containers, with at most so many items."""
    items -= 1
    layer = [value]
    while True:
        layer = [part for part in layer if type(part) is list or type(part) is dict]
        if not layer:
            return items >= 0
        if levels == 0 or items < 0:
            return False
        levels -= 1
        next_layer: list[object] = []
        for container in layer:
            if type(container) is dict:
                items -= 2 * len(container)
                next_layer += container.values()
            elif type(container) is list:
                items -= len(container)
                next_layer += container
        layer = next_layer


class _Gate:
    """The settings and limits of one decoding. ``items`` counts down."""

    __slots__ = ("canonical", "data", "items", "max_items", "size")

    def __init__(self, data: bytes, *, canonical: bool, max_bytes: int, max_items: int) -> None:
        if len(data) > max_bytes:
            raise MalformedCbor(
                f"too large: expected at most {max_bytes} bytes, found {len(data)}",
                offset=max_bytes,
            )
        self.data = data
        self.size = len(data)
        self.canonical = canonical
        self.max_items = max_items
        self.items = max_items - 1

    def read(self, start: int, levels: int) -> Value:
        value, end = _item(self.data, start, levels, self)
        if end != self.size:
            raise MalformedCbor(f"expected the end, found {self.size - end} bytes more", offset=end)
        return value


# Each reader takes the position of an item and returns (value, position after it). ``levels`` is
# how many containers may still be opened, so the recursion is bounded; ``data`` is an argument of
# its own because a local is faster than an attribute of the gate.


def _item(data: bytes, at: int, levels: int, gate: _Gate) -> tuple[Value, int]:
    try:
        initial = data[at]
    except IndexError:
        raise MalformedCbor("cut short: expected a value, found the end", offset=at) from None
    if initial < 24:
        return initial, at + 1
    if 0x40 <= initial < 0x80:
        n, start = (initial & 31, at + 1) if initial & 31 < 24 else _argument(data, at, gate)
        end = start + n
        if end > gate.size:
            raise MalformedCbor(
                f"cut short: expected {n} bytes, found {gate.size - start} to the end", offset=at
            )
        return (data[start:end] if initial < 0x60 else _text(data, start, end)), end
    if initial == NULL:
        return None, at + 1
    if initial == TRUE:
        return True, at + 1
    if initial == FALSE:
        return False, at + 1
    if initial >= 0xC0:
        raise _unwanted(data, at, gate)
    n, start = _argument(data, at, gate)
    if initial < 0x20:
        return n, start
    if initial < 0x40:
        return -1 - n, start
    return (_array if initial < 0xA0 else _map)(data, start, n, levels, gate)


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError as error:
        raise MalformedCbor("text is not valid UTF-8", offset=start + error.start) from None


def _argument(data: bytes, at: int, gate: _Gate) -> tuple[int, int]:
    """(argument, position after the head) of any major type but 7."""
    info = data[at] & 31
    if info < 24:
        return info, at + 1
    if info > 27:
        if info == 31 and 0x40 <= data[at] < 0xC0:
            raise MalformedCbor("indefinite length: expected a definite one", offset=at)
        raise MalformedCbor(f"not CBOR: reserved initial byte 0x{data[at]:02x}", offset=at)
    end = at + 1 + (1 << info - 24)
    if end > gate.size:
        raise MalformedCbor("cut short: expected the rest of a head, found the end", offset=at)
    n = data[at + 1] if info == 24 else int.from_bytes(data[at + 1 : end], "big")
    if gate.canonical and n < _LEAST[info]:
        raise MalformedCbor("not canonical: expected the shortest head", offset=at)
    return n, end


_LEAST: Final = {24: 24, 25: 0x100, 26: 0x1_0000, 27: 0x1_0000_0000}


def _open(at: int, items: int, levels: int, gate: _Gate) -> int:
    """Enter a container of so many items whose first would be at ``at``; -> levels left inside."""
    if items > gate.size - at:
        raise MalformedCbor(
            f"cut short: expected {items} items, found {gate.size - at} bytes to the end", offset=at
        )
    gate.items -= items
    if gate.items < 0:
        raise MalformedCbor(f"too many items: expected at most {gate.max_items}", offset=at)
    if levels == 0:
        raise MalformedCbor("nested too deep: expected no container here", offset=at)
    return levels - 1


def _array(data: bytes, at: int, n: int, levels: int, gate: _Gate) -> tuple[list[Value], int]:
    levels = _open(at, n, levels, gate)
    out: list[Value] = []
    try:
        for _ in range(n):
            value, at = _item(data, at, levels, gate)
            out.append(value)
    except MalformedCbor as problem:
        raise problem.under(len(out)) from None
    return out, at


def _map(
    data: bytes, at: int, n: int, levels: int, gate: _Gate
) -> tuple[dict[str | int, Value], int]:
    levels = _open(at, 2 * n, levels, gate)
    out: dict[str | int, Value] = {}
    canonical = gate.canonical
    last = b""
    for _ in range(n):
        start = at
        key, at = _key(data, at, gate)
        if canonical:
            encoded = data[start:at]
            if encoded <= last:
                reason = "duplicate" if encoded == last else "not canonical: out of order"
                raise MalformedCbor(f"map key {_key_text(key)}: {reason}", offset=start)
            last = encoded
        elif key in out:
            raise MalformedCbor(f"map key {_key_text(key)}: duplicate", offset=start)
        try:
            out[key], at = _item(data, at, levels, gate)
        except MalformedCbor as problem:
            raise problem.under(key) from None
    return out, at


def _key(data: bytes, at: int, gate: _Gate) -> tuple[str | int, int]:
    if at >= gate.size:
        raise MalformedCbor("cut short: expected a map key, found the end", offset=at)
    initial = data[at]
    if 0x60 <= initial < 0x78:
        end = at + initial - 0x5F
        if end <= gate.size:
            return _text(data, at + 1, end), end
    if initial < 0x40 or 0x60 <= initial < 0x80:
        key, end = _item(data, at, 0, gate)
        assert type(key) is str or type(key) is int
        return key, end
    raise MalformedCbor("map key: expected text or an integer", offset=at)


def _key_text(key: str | int) -> str:
    return quoted(key) if type(key) is str else str(key)


def _unwanted(data: bytes, at: int, gate: _Gate) -> MalformedCbor:
    """Why a tag, float or simple value is refused."""
    initial = data[at]
    if initial < 0xE0:
        tag, _ = _argument(data, at, gate)
        return MalformedCbor(f"tag {tag}: expected a value without tags", offset=at)
    kind = _SIMPLE.get(initial, f"simple value or reserved byte 0x{initial:02x}")
    return MalformedCbor(
        f"{kind}: expected null, bool, integer, bytes, text, array or map", offset=at
    )


_SIMPLE: Final = {
    0xF7: "undefined",
    0xF9: "16-bit float",
    0xFA: "32-bit float",
    0xFB: "64-bit float",
    0xFF: "break without an indefinite length",
}
