"""The journal that a report is about: that of a world's store, or of a bundle (EX-61)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aos.core.journal.frame import Frame, Head, Tip
from aos.core.journal.ports import BlobReader
from aos.core.snapshot.load import load
from aos.core.state.state import State, empty
from aos.errors import Damage
from aos.manifest.judging import judge
from aos.prove.verify.pruned_journal import Beginning, beginning, beginning_of
from aos.store.bundle.reader import Bundle
from aos.store.store import Store
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """``begins`` is where a pruned journal, or an archive, continues from."""

    frames: Callable[[], Iterator[Frame]]
    blob: BlobReader
    has_blob: Callable[[Hash], bool]
    head: Head
    begins: Beginning | None

    def state_before(self, world: Hash) -> State:
        """Return the state before the first frame, of a journal whose first frame names ``world``.

        Raises:
            Damage: The snapshot that a pruned journal continues from cannot be read.
        """
        if self.begins is not None:
            return self.begins.state(self.blob)
        return empty(Tip(world=world), self.blob, manifest_of=judge)

    def state_at(self, snapshot: Hash) -> State | None:
        """Return the state of a snapshot; None if it is not kept."""
        return load(snapshot, self.blob, manifest_of=judge) if self.has_blob(snapshot) else None


def source_of_store(store: Store) -> ReportSource:
    """Raises: Damage: The head, or where a pruned journal begins, cannot be read."""
    head = store.head()
    if head is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    cut = store.cut()
    first = 1 if cut is None else cut.seq + 1
    return ReportSource(
        frames=lambda: store.frames(first, head.seq),
        blob=store.blob,
        has_blob=store.has_blob,
        head=head,
        begins=None if cut is None else beginning(store, cut),
    )


def source_of_bundle(bundle: Bundle) -> ReportSource:
    """Raises: Damage: The head, or where an archive begins, cannot be read."""
    return ReportSource(
        frames=bundle.frames,
        blob=bundle.blob,
        has_blob=bundle.has_blob,
        head=bundle.head(),
        begins=beginning_of(bundle),
    )
