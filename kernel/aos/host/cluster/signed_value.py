"""A value of a bucket that the key of a world signs (spec/cluster.md, CL-71, CL-104).

value = canonical array of the fields, then the signature over the array of the fields
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from nacl.signing import SigningKey

from aos.core.journal.signing import is_signed
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem


def value_in(data: bytes) -> Value:
    """Return the value that another process has encoded; None if the bytes are not canonical
    CBOR."""
    try:
        return decode_record(data)
    except ValueProblem:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedValue(ABC):
    """A value that has a ``signature`` once it is ``signed``."""

    signature: bytes = b""

    @abstractmethod
    def _fields(self) -> list[Value]:
        """The fields that are signed; the first one is the name of the form."""

    def signed(self, key: SigningKey) -> Self:
        """Return the value with the signature of the world's key."""
        return replace(self, signature=key.sign(self.message()).signature)

    def is_of(self, world_key: bytes) -> bool:
        """Whether the key of the world has signed this."""
        return is_signed(self.message(), self.signature, world_key)

    def to_bytes(self) -> bytes:
        """The value of the bucket."""
        return encode([*self._fields(), self.signature])

    def message(self) -> bytes:
        """The bytes that the key of the world signs."""
        return encode(self._fields())
