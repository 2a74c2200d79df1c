"""The base of codecs, which check and convert the values of one type (spec/values.md, V-30 ff.).

Each codec handles the values of one type and holds the codecs of its parts, so nothing is looked up
while a value is walked. A refusal starts with the path ``$``, and each container prepends its own
step while the exception passes through, so that a path costs nothing in the normal case.

``read`` is the fast path: it decodes the canonical bytes of a normal value directly, and raises
``Miss`` (or IndexError, or ValueError) for anything else. It never explains: the slow path,
``decode_ingress`` or ``decode_record`` and then ``normal``, finds the problem. It needs no bounds
checks of its own: a slice over the end results in a position over the end, which the next read, or
the caller's check of the last position, turns into a miss.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from aos.values.cbor import Value
from aos.values.errors import ValueProblem
from aos.values.show import describe

FILLED_FIELDS_MAX: Final = 65_536
"""Maximum number of absent option fields in one value: it bounds how large a short input can
become."""


class JsonForm(enum.Enum):
    """How times, durations, bytes and records are written as JSON (V-51)."""

    NUMBERS = "numbers"
    """Times and durations as ns: for programs that calculate with them, such as workers."""
    TEXTS = "texts"
    """Times in RFC 3339 and durations as ``1m30s``: for documents."""
    PEOPLE = "people"
    """As texts, with the fields in the order of the schema, and bytes as the JSON or text that they
    hold. No gate reads this form."""


class Room:
    """Counts how many absent fields may still be filled in, in one value.

    Attributes:
        leaves_out: Whether a record drops null fields that its type does not have (V-46b).
    """

    __slots__ = ("fields", "leaves_out")

    def __init__(self, *, leaves_out: bool = False) -> None:
        self.fields = FILLED_FIELDS_MAX
        self.leaves_out = leaves_out

    def take(self, fields: int) -> None:
        self.fields -= fields
        if self.fields < 0:
            raise ValueProblem(f"too many absent fields: expected at most {FILLED_FIELDS_MAX}")


class Miss(ValueError):
    """The bytes are not those of a normal value in canonical form. Never leaves this package."""


class Codec:
    """The operations on values of one type. Each kind of type has its own subclass.

    Attributes:
        type_name: The type's name in error messages.
        may_be_absent: Whether a record may omit a field of this type.
    """

    __slots__ = ("may_be_absent", "type_name")

    def __init__(self, type_name: str, *, may_be_absent: bool = False) -> None:
        self.type_name = type_name
        self.may_be_absent = may_be_absent

    def normal(self, value: Any, room: Room) -> Value:
        """Value from the ingress gate -> normal form. Raises ValueProblem."""
        raise NotImplementedError

    def from_json(self, value: Any, room: Room) -> Value:
        """Result of ``parse_json`` -> normal form. Raises ValueProblem."""
        return self.normal(value, room)

    def to_json(
        self,
        value: Any,
        *,
        form: JsonForm = JsonForm.NUMBERS,  # noqa: ARG002  # of some
    ) -> object:
        """Normal value -> JSON-able object."""
        return value

    def encode(self, value: Any) -> bytes:
        """Normal value -> canonical bytes."""
        raise NotImplementedError

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        """(data, position) -> (normal value, position after it). Raises Miss."""
        raise NotImplementedError


def mismatch(expected: str, value: object) -> ValueProblem:
    return ValueProblem(f"expected {expected}, found {describe(value)}")


# Heads for ``read``: only the shortest form is accepted.


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
