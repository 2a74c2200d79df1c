"""The blobs of a shadow, over those of the journal, which stays as it is (spec/shadow.md, SH-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aos.core.journal.ports import BlobReader
from aos.values.digests import Hash


class BlobOverlay:
    """Reads blobs of the journal and those that the shadow made. Only blobs that the journal does
    not have are in memory."""

    def __init__(self, below: BlobReader, has: Callable[[Hash], bool]) -> None:
        self._below = below
        self._has = has
        self._blobs: dict[Hash, bytes] = {}

    def read(self, hash: Hash, /) -> bytes:
        """Return a blob. Raises: Damage: It is missing or altered; Erased: it was erased."""
        blob = self._blobs.get(hash)
        return self._below(hash) if blob is None else blob

    def keep(self, blobs: Mapping[Hash, bytes]) -> None:
        for hash, data in blobs.items():
            if not self._has(hash):
                self._blobs[hash] = data

    def put(self, hash: Hash, data: bytes) -> None:
        """Keep a blob without asking the journal for it."""
        self._blobs[hash] = data
