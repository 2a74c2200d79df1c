"""``blake3:…`` or ``sha256:…`` -> the content hash of a blob of this world (AG-31, AG-32)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.store.store import names_in
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem
from aos.values.sha256 import SHA256_PREFIX, parse_sha256, true_name


class StoredBlobs:
    """The part of a store that executors read: blobs by content hash, and SHA-256 names of them.
    A call raises as ``Store.blob``."""

    def __init__(self, read: BlobReader, find_hash: Callable[[bytes], Hash | None]) -> None:
        self._read: Final = read
        self._find_hash: Final = find_hash

    def __call__(self, hash: Hash, /) -> bytes:
        return self._read(hash)

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        """Return the content hash of the blob with this SHA-256 name; None if the name is
        unknown. The blob itself may be gone."""
        return self._find_hash(sha256)


def is_sha256(ref: str) -> bool:
    """Whether ``ref`` begins as a SHA-256 name does. The rest is not checked."""
    return ref.startswith(SHA256_PREFIX)


def blob_of(ref: str, read: BlobReader) -> Hash:
    """The content hash of the blob that ``ref`` names. The blob itself may be absent.

    Raises:
        ValueProblem: It is not a hash, has another algorithm, or is an unknown name.
    """
    if not is_sha256(ref):
        return parse_hash(ref)
    name = parse_sha256(ref)
    blob = read.hash_by_sha256(name) if name is not None and isinstance(read, StoredBlobs) else None
    if blob is None:
        raise ValueProblem(f"{ref} is the name of no blob of this world")
    return blob


def documents(*blobs: bytes) -> dict[Hash, bytes]:
    """The name documents for these blobs, with their true names."""
    names = [true_name(data) for data in blobs]
    return {name.hash: name.to_bytes() for name in names}


def names_among(blobs: Mapping[Hash, bytes]) -> dict[bytes, Hash]:
    """True names in these blobs. Any client may put bytes that look like a name document."""
    names = names_in(blobs, lambda _: None)
    return {name.sha256: name.blob for name, is_right in names if is_right}
