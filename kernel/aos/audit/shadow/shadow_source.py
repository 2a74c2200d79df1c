"""The journal that a shadow is of: that of a world's store, or of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aos.audit.verify.archives import beginning_of
from aos.audit.verify.beginning import Beginning, beginning
from aos.core.journal.frame import Frame, Tip
from aos.core.journal.ports import BlobReader
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import load
from aos.core.state.state import State, empty
from aos.errors import Damage
from aos.store.bundle.reader import Bundle
from aos.store.store import Store
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSource:
    """``frames(first, last)`` are those with these records. ``first`` is the first record that is
    kept, ``last`` the durable end. ``begins`` is where a pruned journal continues from.
    ``snapshots`` maps the record that a kept snapshot was taken after to its document. ``limits``
    are others than those of every world only in tests."""

    frames: Callable[[int, int], Iterator[Frame]]
    blob: BlobReader
    has_blob: Callable[[Hash], bool]
    first: int
    last: int
    begins: Beginning | None
    snapshots: dict[int, Hash]
    limits: Limits = LIMITS

    def state_before(self, seq: int) -> State:
        """Return a state at or before record ``seq`` - 1, from the newest snapshot there.

        Raises:
            Damage: A snapshot cannot be read.
        """
        for at in sorted(self.snapshots, reverse=True):
            if at < seq and self.has_blob(self.snapshots[at]):
                return load(self.snapshots[at], self.blob, limits=self.limits)
        if self.begins is not None:
            return self.begins.state(self.blob)
        first = next(self.frames(self.first, self.first))
        return empty(Tip(world=first.header.world), self.blob, limits=self.limits)


def source_of_store(store: Store) -> ShadowSource:
    """Raises: Damage: The head, or where a pruned journal begins, cannot be read."""
    head, cut = store.head(), store.cut()
    if head is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    return ShadowSource(
        frames=store.frames,
        blob=store.blob,
        has_blob=store.has_blob,
        first=1 if cut is None else cut.seq + 1,
        last=head.seq,
        begins=None if cut is None else beginning(store, cut),
        snapshots={snapshot.at: snapshot.document for snapshot in store.snapshots()},
    )


def source_of_bundle(bundle: Bundle) -> ShadowSource:
    """Raises: Damage: The file was altered, or where an archive begins cannot be read."""
    bundle.check()

    def frames(first: int, last: int) -> Iterator[Frame]:
        for frame in bundle.frames():
            if frame.header.first > last:
                return
            if frame.header.last >= first:
                yield frame

    begins = beginning_of(bundle)
    return ShadowSource(
        frames=frames,
        blob=bundle.blob,
        has_blob=bundle.has_blob,
        first=1 if begins is None else begins.tip.seq + 1,
        last=bundle.head().seq,
        begins=begins,
        snapshots={},
    )
