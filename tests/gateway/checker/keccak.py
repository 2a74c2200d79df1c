"""keccak-256, and the first four bytes of a signature's hash."""

from __future__ import annotations

from functools import cache

from Crypto.Hash import keccak


def keccak256(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


@cache
def selector(signature: str) -> bytes:
    return keccak256(signature.encode())[:4]


def record_id(key: str) -> str:
    """The id of a record: a UUID of version 8, of the keccak-256 of its key."""
    data = bytearray(keccak256(key.encode())[:16])
    data[6] = data[6] & 0x0F | 0x80
    data[8] = data[8] & 0x3F | 0x80
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
