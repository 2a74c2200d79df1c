"""Find the blobs that a world's values name, under all its manifests (spec/state.md, RT-12)."""

from __future__ import annotations

from collections.abc import Iterator

from aos.core.journal.ports import BlobReader
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.manifest.named import Named, is_document
from aos.store.store import Store


def named_of(state: State, store: Store) -> Named:
    """The rules by which values name blobs, from all manifests that the world ever had.

    Raises:
        Damage: A manifest cannot be read.
    """
    named = Named(store.named)
    for each in manifests_of(state, store.blob):
        named.add(each)
    return named


def manifests_of(state: State, read: BlobReader) -> Iterator[Effective]:
    """All manifests that the world ever had, in no particular order."""
    for hash in sorted(state.pinned):
        data = read(hash)
        if is_document(data):
            yield Effective.from_document(data)
