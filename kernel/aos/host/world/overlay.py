"""Read blobs from frames that are not durable yet, then from the store (H-14)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.store.store import erased_error
from aos.values.digests import Hash

LENT: Final = 2**63
"""The record of a blob that is lent and in no frame: later than every record."""


class Overlay:
    """Blobs that are on their way to the disk, on top of ``below``, the store's reader.

    The core's thread adds blobs and the committer's thread drops them, possibly at the same time. A
    blob is dropped only once ``below`` has it. An erased blob is gone at once, although ``below``
    has it until the erasing record is durable.
    """

    def __init__(self, below: BlobReader) -> None:
        self._below = below
        self._lock = threading.Lock()
        self._blobs: dict[Hash, tuple[int, bytes]] = {}
        self._erased: dict[Hash, int] = {}

    def __len__(self) -> int:
        return len(self._blobs)

    def has(self, hash: Hash) -> bool:
        """Whether a blob is on its way to the disk."""
        return hash in self._blobs

    def is_erased(self, hash: Hash) -> bool:
        """Whether a blob was erased by a record that may not be durable yet."""
        return hash in self._erased

    def hold(self, blobs: Mapping[Hash, bytes], *, until: int) -> None:
        """Keep ``blobs`` until the frame that ends with record ``until`` is durable."""
        with self._lock:
            for hash_, data in blobs.items():
                self._blobs[hash_] = (until, data)
                self._erased.pop(hash_, None)

    def lend(self, blobs: Mapping[Hash, bytes]) -> tuple[Hash, ...]:
        """Hold blobs until ``take_back``, except those held already; return the new hashes."""
        with self._lock:
            lent = {hash_: data for hash_, data in blobs.items() if hash_ not in self._blobs}
            self._blobs.update((hash_, (LENT, data)) for hash_, data in lent.items())
        return tuple(lent)

    def take_back(self, hashes: Iterable[Hash]) -> None:
        """Forget lent blobs, unless a frame holds them now."""
        with self._lock:
            for hash_ in hashes:
                if self._blobs.get(hash_, (0, b""))[0] == LENT:
                    del self._blobs[hash_]

    def erase(self, hash: Hash, *, by: int) -> None:
        """Hide a blob, also in ``below``, until record ``by``, which erased it, is durable."""
        with self._lock:
            self._blobs.pop(hash, None)
            self._erased[hash] = by

    def drop(self, hashes: Iterable[Hash], *, durable: int) -> None:
        """Forget blobs, except those that a frame after record ``durable`` holds again."""
        with self._lock:
            for hash_ in hashes:
                entry = self._blobs.get(hash_)
                if entry is not None and entry[0] <= durable:
                    del self._blobs[hash_]
            for hash_, by in tuple(self._erased.items()):
                if by <= durable:
                    del self._erased[hash_]

    def read(self, hash: Hash, /) -> bytes:
        """Return a blob. Raises as ``below``, and Erased for a blob that was erased."""
        entry = self._blobs.get(hash)
        if entry is not None:
            return entry[1]
        by = self._erased.get(hash)
        if by is not None:
            raise erased_error(hash, by)
        return self._below(hash)
