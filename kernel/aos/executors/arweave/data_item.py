"""ANS-104 data items, signed by Ed25519: made from content, and read back from a bundle.

2      signature type, little-endian: 2 (Ed25519)
64     signature
32     owner: the public key
1      1 and 32 bytes of target follow, or 0
1      1 and 32 bytes of anchor follow, or 0
8, 8   number of tags, bytes of the tags, little-endian
…      tags in Avro
…      content, up to the end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from aos.executors.arweave.base64url import encode_base64url
from aos.executors.arweave.deep_hash import deep_hash
from aos.executors.arweave.item_tags import TAGS_BYTES_MAX, TAGS_MAX, ItemTag, encode_tags

ED25519: Final = 2
SIGNATURE_BYTES: Final = 64
OWNER_BYTES: Final = 32
OPTIONAL_BYTES: Final = 32
OVERHEAD_BYTES_MAX: Final = 2 + SIGNATURE_BYTES + OWNER_BYTES + 1 + 1 + 8 + 8 + TAGS_BYTES_MAX
"""The longest header of an item that ``sign_item`` makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataItem:
    """An item with its bytes. Nothing is said about its signature: ask ``is_authentic``."""

    raw: bytes
    signature: bytes
    owner: bytes
    target: bytes
    anchor: bytes
    tags: bytes
    content: bytes

    @property
    def id(self) -> str:
        """Base64url of the SHA-256 of the signature (AW-11)."""
        return encode_base64url(sha256(self.signature).digest())

    def is_authentic(self) -> bool:
        """Whether the owner has signed exactly these tags and this content (AW-31)."""
        message = _message(self.owner, self.target, self.anchor, self.tags, self.content)
        try:
            VerifyKey(self.owner).verify(message, self.signature)
        except BadSignatureError:
            return False
        return True


def sign_item(content: bytes, tags: Sequence[ItemTag], seed: bytes) -> DataItem:
    """Make the item of ``content``. Its bytes are a function of the arguments alone (AW-11)."""
    key = SigningKey(seed)
    owner = bytes(key.verify_key)
    coded = encode_tags(tags)
    signature = key.sign(_message(owner, b"", b"", coded, content)).signature
    raw = b"".join(
        (
            ED25519.to_bytes(2, "little"),
            signature,
            owner,
            b"\x00\x00",
            len(tags).to_bytes(8, "little"),
            len(coded).to_bytes(8, "little"),
            coded,
            content,
        )
    )
    return DataItem(
        raw=raw,
        signature=signature,
        owner=owner,
        target=b"",
        anchor=b"",
        tags=coded,
        content=content,
    )


def read_item(raw: bytes) -> DataItem | None:
    """Take an item apart. None if it is not of this form, or signed by another scheme (AW-31)."""
    reader = _Reader(raw)
    kind = reader.number(2)
    signature = reader.take(SIGNATURE_BYTES)
    owner = reader.take(OWNER_BYTES)
    target = reader.optional(OPTIONAL_BYTES)
    anchor = reader.optional(OPTIONAL_BYTES)
    tag_count = reader.number(8)
    tag_bytes = reader.number(8)
    if kind != ED25519 or tag_count > TAGS_MAX or tag_bytes > TAGS_BYTES_MAX:
        return None
    tags = reader.take(tag_bytes)
    if reader.is_broken or (tag_count == 0) != (tag_bytes == 0):
        return None
    return DataItem(
        raw=raw,
        signature=signature,
        owner=owner,
        target=target,
        anchor=anchor,
        tags=tags,
        content=reader.remaining(),
    )


def _message(owner: bytes, target: bytes, anchor: bytes, tags: bytes, content: bytes) -> bytes:
    """The bytes that the owner signs (AW-10)."""
    kind = str(ED25519).encode("ascii")
    return deep_hash([b"dataitem", b"1", kind, owner, target, anchor, tags, content])


class _Reader:
    """Takes bytes from the front. Past the end it is broken, and returns zeros."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self.is_broken = False

    def take(self, size: int) -> bytes:
        part = self._raw[self._at : self._at + size]
        self._at += size
        if len(part) < size:
            self.is_broken = True
            return bytes(size)
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def optional(self, size: int) -> bytes:
        flag = self.number(1)
        if flag > 1:
            self.is_broken = True
        return self.take(size) if flag == 1 else b""

    def remaining(self) -> bytes:
        return self._raw[self._at :]
