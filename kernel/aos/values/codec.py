"""One Type -> the codec that checks and converts its values (spec/values.md, V-30 and after).

Each codec handles the values of one type and holds those of its parts; nothing is looked up while a
value is walked. A refusal starts with the path ``$`` and each container puts its own step in front
while the exception passes through, so that a path costs nothing when all is well.

``read`` is the quick way in: it takes the canonical bytes of a normal value straight to that value
and raises ``Miss`` (or IndexError, or ValueError) for anything else. It never explains: the careful
way, ``decode_ingress`` or ``decode_record`` and then ``normal``, finds out what is wrong. It needs
no bounds checks of its own: a slice over the end leaves a position over the end, which the next
read, or the caller's look at the last position, turns into a miss.
"""

from __future__ import annotations

from typing import Any, Final

from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.values.show import describe

FILLED_FIELDS_MAX: Final = 65_536
"""Absent option fields that one value may leave to us: bounds what a short input can grow to."""


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


class Codec:
    """What can be done with values of one type. Each kind of type has a class of its own.

    Attributes:
        says: The type in an error message.
        may_be_absent: Whether a record may leave a field of this type out.
    """

    __slots__ = ("may_be_absent", "says")

    def __init__(self, says: str, *, may_be_absent: bool = False) -> None:
        self.says = says
        self.may_be_absent = may_be_absent

    def normal(self, value: Any, room: Room) -> Value:
        """What the ingress gate decoded -> normal form, or ValueProblem."""
        raise NotImplementedError

    def from_json(self, value: Any, room: Room) -> Value:
        """What parse_json returned -> normal form, or ValueProblem."""
        return self.normal(value, room)

    def to_json(self, value: Any) -> object:
        """Normal value -> JSON-able object."""
        return value

    def encode(self, value: Any) -> bytes:
        """Normal value -> canonical bytes."""
        raise NotImplementedError

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        """(data, position) -> (normal value, position after it), or a miss."""
        raise NotImplementedError


def wrong(expected: str, value: object) -> ValueProblem:
    return ValueProblem(f"expected {expected}, found {describe(value)}")


# Heads, as ``read`` sees them: only the shortest is a hit.


def read_argument(data: bytes, at: int) -> tuple[int, int]:
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


def read_length(data: bytes, at: int, major: int) -> tuple[int, int]:
    if data[at] & 0xE0 != major:
        raise Miss
    return read_argument(data, at)


def read_nat(data: bytes, at: int) -> tuple[int, int]:
    """(data, position) -> (natural number below 2^64, position after it), or a miss."""
    initial = data[at]
    if initial < 24:
        return initial, at + 1
    if initial >= 0x20:
        raise Miss
    return read_argument(data, at)


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """(data, position) -> (text, position after it), or a miss."""
    initial = data[at]
    if 0x60 <= initial < 0x78:
        end = at + initial - 0x5F
        return data[at + 1 : end].decode(), end
    n, start = read_length(data, at, 0x60)
    end = start + n
    return data[start:end].decode(), end


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """(data, position) -> (bytes, position after them), or a miss."""
    initial = data[at]
    if 0x40 <= initial < 0x58:
        end = at + initial - 0x3F
        return data[at + 1 : end], end
    n, start = read_length(data, at, 0x40)
    end = start + n
    return data[start:end], end
