"""ANS-104 data items, signed by Ed25519, with their tags (AW-12), and the bundles that carry them.

An item:

2      signature type, little-endian: 2 (Ed25519)
64     signature
32     owner: the public key
1      1 and 32 bytes of target follow, or 0
1      1 and 32 bytes of anchor follow, or 0
8, 8   number of tags, bytes of the tags, little-endian
…      tags in Avro
…      content, up to the end

A bundle, which is the content of a layer-1 transaction:

32          number of items, little-endian
32, 32      length and id of each item
…           the items, one after the other, up to the end
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from aos_gateway.arweave.base64url import decode_base64url, encode_base64url
from aos_gateway.arweave.deep_hash import deep_hash

TAGS_MAX: Final = 128
NAME_BYTES_MAX: Final = 1024
VALUE_BYTES_MAX: Final = 3072
TAGS_BYTES_MAX: Final = 4096

ED25519: Final = 2
SIGNATURE_BYTES: Final = 64
OWNER_BYTES: Final = 32
OPTIONAL_BYTES: Final = 32

OVERHEAD_BYTES_MAX: Final = 2 + SIGNATURE_BYTES + OWNER_BYTES + 1 + 1 + 8 + 8 + TAGS_BYTES_MAX
"""The longest header of an item that ``sign_item`` makes."""

NUMBER_BYTES: Final = 32
ENTRY_BYTES: Final = NUMBER_BYTES + 32

BUNDLE_BYTES_MAX: Final = 12 * 1024 * 1024
"""A node takes no longer content within a transaction."""

BUNDLE_OVERHEAD_BYTES_MAX: Final = NUMBER_BYTES + ENTRY_BYTES + OVERHEAD_BYTES_MAX
"""A bundle of one item is longer than its content by at most so much."""


class ItemTag(NamedTuple):
    """A name and a value, both of at least one byte in UTF-8."""

    name: str
    value: str


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
        message = _signed_message(self.owner, self.target, self.anchor, self.tags, self.content)
        try:
            VerifyKey(self.owner).verify(message, self.signature)
        except BadSignatureError:
            return False
        return True


class BundleProblem(ValueError):
    """The bytes are no bundle: its directory does not describe exactly what follows it."""


def sign_item(content: bytes, tags: Sequence[ItemTag], seed: bytes) -> DataItem:
    """Make the item of ``content``. Its bytes are a function of the arguments alone (AW-11)."""
    key = SigningKey(seed)
    owner = bytes(key.verify_key)
    coded = encode_tags(tags)
    signature = key.sign(_signed_message(owner, b"", b"", coded, content)).signature
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
    reader = _ItemReader(raw)
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


def _signed_message(
    owner: bytes, target: bytes, anchor: bytes, tags: bytes, content: bytes
) -> bytes:
    """The bytes that the owner signs (AW-10)."""
    kind = str(ED25519).encode("ascii")
    return deep_hash([b"dataitem", b"1", kind, owner, target, anchor, tags, content])


class _ItemReader:
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


def tag_problem(tags: Sequence[ItemTag]) -> str | None:
    """Why an item cannot have these tags; None if it can (AW-12)."""
    if len(tags) > TAGS_MAX:
        return f"tags: expected at most {TAGS_MAX}, found {len(tags)}"
    for index, tag in enumerate(tags):
        for part, text, bytes_max in (
            ("name", tag.name, NAME_BYTES_MAX),
            ("value", tag.value, VALUE_BYTES_MAX),
        ):
            size = len(text.encode("utf-8"))
            if not 1 <= size <= bytes_max:
                return f"tags[{index}].{part}: expected 1 to {bytes_max} bytes, found {size}"
    size = len(encode_tags(tags))
    if size > TAGS_BYTES_MAX:
        return f"tags: expected at most {TAGS_BYTES_MAX} bytes in Avro, found {size}"
    return None


def encode_tags(tags: Sequence[ItemTag]) -> bytes:
    """An Avro array of records of two strings, as one block; no bytes for no tags (AW-12)."""
    if not tags:
        return b""
    return b"".join((_avro_long(len(tags)), *_avro_strings(tags), _avro_long(0)))


def _avro_strings(tags: Iterable[ItemTag]) -> Iterator[bytes]:
    for tag in tags:
        for text in tag:
            data = text.encode("utf-8")
            yield _avro_long(len(data))
            yield data


def _avro_long(number: int) -> bytes:
    """A non-negative number in Avro's zigzag form: seven bits a byte, the lowest first."""
    remaining = number << 1
    coded = bytearray()
    while remaining > 0x7F:
        coded.append(0x80 | (remaining & 0x7F))
        remaining >>= 7
    coded.append(remaining)
    return bytes(coded)


def pack_bundle(item: DataItem) -> bytes:
    """The bundle that holds ``item`` alone (AW-13)."""
    name = decode_base64url(item.id)
    assert name is not None  # `DataItem.id` encodes it
    return b"".join((_number_bytes(1), _number_bytes(len(item.raw)), name, item.raw))


def find_item(bundle: bytes, item: str) -> bytes | None:
    """The bytes of the item with this id; None if the directory has none (AW-30).

    Raises:
        BundleProblem: The bundle is cut, or a count or length in it leads past its end or leaves
            bytes over. The directory is checked as a whole, also after the item was found.
    """
    item_bytes: bytes | None = None
    for name, start, end in _directory(bundle):
        if item_bytes is None and name == decode_base64url(item):
            item_bytes = bundle[start:end]
    return item_bytes


def _directory(bundle: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Id, start and end of each item."""
    count = _read_number(bundle, 0)
    room = (len(bundle) - NUMBER_BYTES) // ENTRY_BYTES
    if count > room:
        raise BundleProblem(f"{len(bundle)} bytes have no room for a directory of so many items")
    start = NUMBER_BYTES + count * ENTRY_BYTES
    for index in range(count):
        at = NUMBER_BYTES + index * ENTRY_BYTES
        size = _read_number(bundle, at)
        if size > len(bundle) - start:
            raise BundleProblem(f"item {index} ends past the end of the {len(bundle)} bytes")
        yield bundle[at + NUMBER_BYTES : at + ENTRY_BYTES], start, start + size
        start += size
    if start != len(bundle):
        raise BundleProblem(f"{len(bundle) - start} bytes follow the last item")


def _read_number(bundle: bytes, at: int) -> int:
    data = bundle[at : at + NUMBER_BYTES]
    if len(data) < NUMBER_BYTES:
        raise BundleProblem(f"expected {NUMBER_BYTES} bytes of a number, found {len(data)}")
    return int.from_bytes(data, "little")


def _number_bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "little")
