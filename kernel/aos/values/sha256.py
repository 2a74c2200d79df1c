"""The SHA-256 name of a blob, for programs that know no other (spec/agentos.md, AG-30 to AG-36).

A world stores every blob under its content hash, which is BLAKE3. A *name document*, itself a blob,
gives it a SHA-256 name too:

    ["aos/sha256/1", name: 32 bytes, content hash: 32 bytes]      canonical, 82 bytes

It proves itself: the name is the SHA-256 of the blob's bytes (its *true* name), or of

    ["aos/given/1", content hash: 32 bytes]                       canonical, 47 bytes

(its *given* name, used without reading the bytes). A blob with the latter bytes has no true name,
so storing it cannot take the given name from another blob.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aos.values.cbor import decode_record, encode
from aos.values.digests import HASH_BYTES, Hash, content_hash, parse_hash
from aos.values.errors import ValueProblem

DOMAIN: Final = "aos/sha256/1"
GIVEN: Final = "aos/given/1"
SHA256_PREFIX: Final = "sha256:"
NAME_BYTES: Final = 82
"""Size of every name document."""

_GIVEN_HEAD: Final = encode([GIVEN, bytes(HASH_BYTES)])[:-HASH_BYTES]

_TEXT: Final = re.compile(r"sha256:([0-9a-f]{64})")


def sha256(data: bytes) -> bytes:
    import hashlib  # noqa: PLC0415  # it loads OpenSSL, and few worlds use these names

    return hashlib.sha256(data).digest()


def sha256_text(data: bytes) -> str:
    """The true name of a blob with these bytes, as text."""
    return SHA256_PREFIX + sha256(data).hex()


def given_text(text: str) -> str:
    """The given name of a content hash in text form. Other text is returned unchanged."""
    try:
        return sha256_text(_given_preimage(parse_hash(text)))
    except ValueProblem:
        return text


def parse_sha256(text: str) -> bytes | None:
    """The 32 bytes of ``sha256:<64 hex>``; None for other text."""
    match = _TEXT.fullmatch(text)
    return None if match is None else bytes.fromhex(match[1])


@dataclass(frozen=True, slots=True)
class Name:
    """``sha256`` names the blob with the content hash ``blob``."""

    sha256: bytes
    blob: Hash

    def to_bytes(self) -> bytes:
        return encode([DOMAIN, self.sha256, self.blob])

    @property
    def hash(self) -> Hash:
        """The content hash of the document."""
        return content_hash(self.to_bytes())

    @property
    def is_given(self) -> bool:
        return self.sha256 == sha256(_given_preimage(self.blob))

    def is_of(self, data: bytes) -> bool:
        """Whether it names the blob with these bytes, whose content hash has been checked."""
        return self.is_given or self.sha256 == true_sha256(data)


def true_sha256(data: bytes) -> bytes:
    """The true name of a blob with these bytes; empty if it has none."""
    return b"" if _is_given(data) else sha256(data)


def true_name(data: bytes) -> Name:
    return Name(sha256(data), content_hash(data))


def given_name(blob: Hash) -> Name:
    return Name(sha256(_given_preimage(blob)), blob)


def _given_preimage(blob: Hash) -> bytes:
    """The preimage of a given name."""
    return _GIVEN_HEAD + blob


def _is_given(data: bytes) -> bool:
    return len(data) == len(_GIVEN_HEAD) + HASH_BYTES and data.startswith(_GIVEN_HEAD)


def read_name(data: bytes) -> Name | None:
    """The name that these bytes state; None if they are not a name document. Check it with
    ``Name.is_of``, because anyone may store such bytes."""
    if len(data) != NAME_BYTES:
        return None
    try:
        value = decode_record(data)
    except ValueProblem:
        return None
    match value:
        case [str(domain), bytes(name), bytes(blob)] if domain == DOMAIN:
            if len(name) == len(blob) == HASH_BYTES:
                return Name(name, Hash(blob))
    return None
