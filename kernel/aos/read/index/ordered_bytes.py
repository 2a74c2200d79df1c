"""Values as bytes whose order is that of the values (spec/search.md, SE-23).

    first byte   type, in the order of the types' names
    rest         dec128: sign, exponent, digits; bool: a byte; bytes and text: themselves; int: 9
                 bytes with an offset

The order of different types is that of a list without an index.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from aos.read.where.attributes import Comparable

OTHER: Final = b""
"""A value that is not of the type that the schema says: there, and equal to nothing."""

_DECIMAL, _BOOL, _BYTES, _INT, _TEXT = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"
_INT_BYTES: Final = 9
_INT_OFFSET: Final = 1 << 64
_NEGATIVE, _ZERO, _POSITIVE = b"\x01", b"\x02", b"\x03"
_EXPONENT_OFFSET: Final = 1 << 15
_END: Final = b"\xff"


def ordered_bytes(value: Comparable) -> bytes:
    """The bytes of a value as ``ValueKind.of`` returns it; ``OTHER`` of None.

    Equal values have equal bytes, and bytes compare as the values do.
    """
    match value:
        case None:
            return OTHER
        case bool():
            return _BOOL + (b"\x01" if value else b"\x00")
        case int():
            return _INT + (value + _INT_OFFSET).to_bytes(_INT_BYTES, "big")
        case str():
            return _TEXT + value.encode()
        case bytes():
            return _BYTES + value
        case Decimal():
            return _DECIMAL + _decimal(value)
    raise AssertionError(f"no such value: {type(value).__name__}")


def value_of(data: bytes) -> Comparable:
    """The value that ``ordered_bytes`` has made these bytes of, which are not ``OTHER``."""
    kind, tail = data[:1], data[1:]
    if kind == _BOOL:
        return tail == b"\x01"
    if kind == _INT:
        return int.from_bytes(tail, "big") - _INT_OFFSET
    if kind == _TEXT:
        return tail.decode()
    if kind == _BYTES:
        return tail
    assert kind == _DECIMAL, "the index has checked its rows"
    return _decimal_of(tail)


def after_bytes(prefix: bytes) -> bytes | None:
    """The least bytes that come after all that begin with ``prefix``; None if there are none, which
    cannot be for the bytes of a value. After those of a text come those of every text that begins
    with it."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _decimal(value: Decimal) -> bytes:
    if not value:
        return _ZERO
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = bytes(digits).rstrip(b"\x00")
    exponent_bytes = (exponent + len(digits) + _EXPONENT_OFFSET).to_bytes(2, "big")
    if not sign:
        return _POSITIVE + exponent_bytes + number
    # The greater the amount, the smaller the number. So the end of a number comes after each of the
    # digits with which another one continues, and after a zero, too.
    return (
        _NEGATIVE
        + bytes(255 - byte for byte in exponent_bytes)
        + bytes(254 - byte for byte in number)
        + _END
    )


def _decimal_of(data: bytes) -> Decimal:
    if data == _ZERO:
        return Decimal(0)
    is_negative = data[:1] == _NEGATIVE
    exponent_bytes, number = data[1:3], data[3:]
    if is_negative:
        exponent_bytes = bytes(255 - byte for byte in exponent_bytes)
        number = bytes(254 - byte for byte in number.removesuffix(_END))
    exponent = int.from_bytes(exponent_bytes, "big") - _EXPONENT_OFFSET - len(number)
    return Decimal((int(is_negative), tuple(number), exponent))
