"""What the core reads blobs from: frames that are not durable yet, then the store (H-14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aos.core.ports import BlobReader
from aos.values.digests import Hash


class Overlay:
    """Blobs that are on their way to the disk, over a store's reader.

    The core's thread adds, the committer's thread drops; both may do so at the same time. A blob is
    dropped only once it can be read from below.
    """

    def __init__(self, below: BlobReader) -> None:
        self._below = below
        self._held: dict[Hash, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def has(self, hash: Hash) -> bool:
        """Whether a blob is on its way."""
        return hash in self._held

    def hold(self, blobs: Mapping[Hash, bytes], *, until: int) -> None:
        """Keep ``blobs`` until the frame that ends with record ``until`` is durable."""
        for hash_, data in blobs.items():
            self._held[hash_] = (until, data)

    def drop(self, hashes: Iterable[Hash], *, durable: int) -> None:
        """Forget those that no frame after record ``durable`` holds again."""
        for hash_ in hashes:
            held = self._held.get(hash_)
            if held is not None and held[0] <= durable:
                del self._held[hash_]

    def read(self, hash: Hash, /) -> bytes:
        held = self._held.get(hash)
        return self._below(hash) if held is None else held[1]
