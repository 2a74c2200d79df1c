"""The content of a bundle that a gateway returned -> the hash that proves the item, or another."""

from __future__ import annotations

from typing import Final

from aos.executors.arweave.data_item import read_item
from aos.executors.arweave.item_bundle import find_item
from aos.values.digests import content_hash, digest, hash_text

OTHER: Final = "aos/arweave-other/1"


def content_of(bundle: bytes, item: str) -> str:
    """``content`` of a status receipt (AW-31): the content hash of the item's bytes, as
    ``sys/blob.put@1`` returns it, if ``bundle`` has the item and its owner has signed it.

    Otherwise a digest of what came that is no content hash, so that no content equals it.

    Raises:
        BundleProblem: The bytes are no bundle, which proves nothing.
    """
    raw = find_item(bundle, item)
    if raw is None:
        return hash_text(digest(OTHER, bundle))
    data_item = read_item(raw)
    if data_item is None or data_item.id != item or not data_item.is_authentic():
        return hash_text(digest(OTHER, raw))
    return hash_text(content_hash(data_item.content))
