"""Hashes: all are BLAKE3, and every structured preimage is an array that begins with a domain.

``digest("aos/intent/1", world, …)`` hashes the canonical CBOR of ``["aos/intent/1", world, …]``, so
two different kinds of objects never have the same preimage (spec/values.md, V-60).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NewType

from blake3 import blake3

from aos.values.cbor import Value, encode, encode_bytes, encode_text, head
from aos.values.errors import ValueProblem, quoted

Hash = NewType("Hash", bytes)
"""32 raw bytes, BLAKE3."""

HASH_BYTES: Final = 32

_LONG_BYTES: Final = 1 << 20
"""A part of so many bytes is hashed where it is: copying it takes longer."""

_TEXT: Final = re.compile(r"blake3:([0-9a-f]{64})")


def digest(domain: str, *parts: Value) -> Hash:
    """Hash of a structured object: BLAKE3 over the canonical array ``[domain, *parts]``."""
    # Encode the parts one by one, for speed: this is called several times for every record.
    preimage = [_opening(domain, len(parts))]
    for part in parts:
        if type(part) is bytes:
            if len(part) >= _LONG_BYTES:
                return _long_digest(domain, parts)
            preimage.append(encode_bytes(part))
        elif type(part) is str:
            preimage.append(encode_text(part))
        else:
            preimage.append(encode(part))
    return Hash(blake3(b"".join(preimage)).digest())


def _long_digest(domain: str, parts: Sequence[Value]) -> Hash:
    """As ``digest``, without a copy of the parts."""
    hasher = blake3(_opening(domain, len(parts)))
    for part in parts:
        if type(part) is bytes:
            hasher.update(head(0x40, len(part)))
            hasher.update(part)
        else:
            hasher.update(encode(part))
    return Hash(hasher.digest())


@lru_cache(maxsize=256)
def _opening(domain: str, parts: int) -> bytes:
    return head(0x80, 1 + parts) + encode_text(domain)


def content_hash(data: bytes) -> Hash:
    """Hash of plain bytes: blobs, modules, params, payloads, outputs."""
    return Hash(blake3(data).digest())


def is_hash(value: object) -> bool:
    """Whether a value that was read has the form of a hash."""
    return isinstance(value, bytes) and len(value) == HASH_BYTES


def hash_text(hash_: Hash) -> str:
    """``blake3:`` and 64 lower-case hex digits."""
    return f"blake3:{hash_.hex()}"


def parse_hash(text: str) -> Hash:
    """Inverse of ``hash_text``. Raises ValueProblem, with advice, for any other text."""
    match = _TEXT.fullmatch(text)
    if match:
        return Hash(bytes.fromhex(match[1]))
    algorithm, colon, _ = text.partition(":")
    if colon and algorithm != "blake3":
        raise ValueProblem(
            f"expected blake3:<64 hex>, found a {quoted(algorithm)} hash"
            " (AOS hashes are BLAKE3; leave the hash out and it is filled in)"
        )
    raise ValueProblem(f"expected blake3:<64 lower-case hex digits>, found {quoted(text)}")


def derive(context: str, key_material: bytes, size: int) -> bytes:
    """Derive ``size`` bytes with BLAKE3's key derivation mode."""
    return blake3(key_material, derive_key_context=context).digest(length=size)
