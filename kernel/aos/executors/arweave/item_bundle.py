"""ANS-104 bundles: the content of a layer-1 transaction that carries data items.

32          number of items, little-endian
32, 32      length and id of each item
…           the items, one after the other, up to the end
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aos.executors.arweave.base64url import decode_base64url
from aos.executors.arweave.data_item import OVERHEAD_BYTES_MAX, DataItem

NUMBER_BYTES: Final = 32
ENTRY_BYTES: Final = NUMBER_BYTES + 32
BUNDLE_BYTES_MAX: Final = 12 * 1024 * 1024
"""A node takes no longer content within a transaction."""

BUNDLE_OVERHEAD_BYTES_MAX: Final = NUMBER_BYTES + ENTRY_BYTES + OVERHEAD_BYTES_MAX
"""A bundle of one item is longer than its content by at most so much."""


class BundleProblem(ValueError):
    """The bytes are no bundle: its directory does not describe exactly what follows it."""


def pack_bundle(item: DataItem) -> bytes:
    """The bundle that holds ``item`` alone (AW-13)."""
    name = decode_base64url(item.id)
    assert name is not None  # `DataItem.id` encodes it
    return b"".join((_number(1), _number(len(item.raw)), name, item.raw))


def find_item(bundle: bytes, item: str) -> bytes | None:
    """The bytes of the item with this id; None if the directory has none (AW-30).

    Raises:
        BundleProblem: The bundle is cut, or a count or length in it leads past its end or leaves
            bytes over. The directory is checked as a whole, also after the item was found.
    """
    item_bytes: bytes | None = None
    for name, start, end in _entries(bundle):
        if item_bytes is None and name == decode_base64url(item):
            item_bytes = bundle[start:end]
    return item_bytes


def _entries(bundle: bytes) -> Iterator[tuple[bytes, int, int]]:
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


def _number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "little")
