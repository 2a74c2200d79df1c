"""Tags of a data item, and their encoding in Avro (AW-12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

TAGS_MAX: Final = 128
NAME_BYTES_MAX: Final = 1024
VALUE_BYTES_MAX: Final = 3072
TAGS_BYTES_MAX: Final = 4096


class ItemTag(NamedTuple):
    """A name and a value, both of at least one byte in UTF-8."""

    name: str
    value: str


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
    return b"".join((_long(len(tags)), *_strings(tags), _long(0)))


def _strings(tags: Iterable[ItemTag]) -> Iterator[bytes]:
    for tag in tags:
        for text in tag:
            data = text.encode("utf-8")
            yield _long(len(data))
            yield data


def _long(number: int) -> bytes:
    """A non-negative number in Avro's zigzag form: seven bits a byte, the lowest first."""
    remaining = number << 1
    coded = bytearray()
    while remaining > 0x7F:
        coded.append(0x80 | (remaining & 0x7F))
        remaining >>= 7
    coded.append(remaining)
    return bytes(coded)
