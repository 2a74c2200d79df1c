"""Find the blobs that a world's values name, under all its manifests (spec/state.md, RT-12)."""

from __future__ import annotations

from collections.abc import Iterator

from aos.core.journal.ports import BlobReader
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.manifest.named import BlobReferences, is_document
from aos.store.store import Store


def named_of(state: State, store: Store) -> BlobReferences:
    """The rules by which values name blobs, from all manifests that the world ever had.

    Raises:
        Damage: A manifest cannot be read.
    """
    name_rules = BlobReferences(store.hash_by_sha256)
    for manifest in manifests_of(state, store.blob):
        name_rules.add(manifest)
    return name_rules


def manifests_of(state: State, read: BlobReader) -> Iterator[Effective]:
    """All manifests that the world ever had, in no particular order."""
    for hash in sorted(state.pinned):
        data = read(hash)
        if is_document(data):
            yield Effective.from_document(data)
