"""What the core reads blobs from: frames that are not durable yet, then the store (H-14)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.store.store import erased_error
from aos.values.digests import Hash

LENT: Final = 2**63
"""Comes with no frame: after every record."""


class Overlay:
    """Blobs that are on their way to the disk, over a store's reader.

    The core's thread adds, the committer's thread drops; both may do so at the same time. A blob is
    dropped only once it can be read from below. One that a record has erased is gone at once, and
    not only when the disk knows of it.
    """

    def __init__(self, below: BlobReader) -> None:
        self._below = below
        self._lock = threading.Lock()
        self._held: dict[Hash, tuple[int, bytes]] = {}
        self._erased: dict[Hash, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def has(self, hash: Hash) -> bool:
        """Whether a blob is on its way."""
        return hash in self._held

    def is_erased(self, hash: Hash) -> bool:
        """Whether it was erased and what is below may not know."""
        return hash in self._erased

    def hold(self, blobs: Mapping[Hash, bytes], *, until: int) -> None:
        """Keep ``blobs`` until the frame that ends with record ``until`` is durable."""
        with self._lock:
            for hash_, data in blobs.items():
                self._held[hash_] = (until, data)
                self._erased.pop(hash_, None)

    def lend(self, blobs: Mapping[Hash, bytes]) -> tuple[Hash, ...]:
        """Hold what is not on its way already until it is taken back; return what that is."""
        with self._lock:
            lent = {hash_: data for hash_, data in blobs.items() if hash_ not in self._held}
            self._held.update((hash_, (LENT, data)) for hash_, data in lent.items())
        return tuple(lent)

    def take_back(self, hashes: Iterable[Hash]) -> None:
        """Forget what was lent, unless a frame holds it now."""
        with self._lock:
            for hash_ in hashes:
                if self._held.get(hash_, (0, b""))[0] == LENT:
                    del self._held[hash_]

    def erase(self, hash: Hash, *, by: int) -> None:
        """Forget a blob, and what is below until record ``by``, which erased it, is durable."""
        with self._lock:
            self._held.pop(hash, None)
            self._erased[hash] = by

    def drop(self, hashes: Iterable[Hash], *, durable: int) -> None:
        """Forget those that no frame after record ``durable`` holds again."""
        with self._lock:
            for hash_ in hashes:
                held = self._held.get(hash_)
                if held is not None and held[0] <= durable:
                    del self._held[hash_]
            for hash_, by in tuple(self._erased.items()):
                if by <= durable:
                    del self._erased[hash_]

    def read(self, hash: Hash, /) -> bytes:
        held = self._held.get(hash)
        if held is not None:
            return held[1]
        by = self._erased.get(hash)
        if by is not None:
            raise erased_error(hash, by)
        return self._below(hash)
