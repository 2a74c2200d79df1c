"""States over a store: from a snapshot, or empty before the genesis (spec/host.md, H-40)."""

from __future__ import annotations

import contextlib

from aos.core.journal.frame import Tip
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Snapshot
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import load, parts
from aos.core.state.state import State, empty
from aos.core.state.submissions import Find
from aos.errors import Damage, Erased
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.values.digests import Hash


def empty_state(store: Store, *, limits: Limits = LIMITS) -> State:
    """The state before the genesis of the world in ``store``, with its layers there. Of a forked
    world that is its first ancestor's.

    Raises:
        Damage: The store has no first frame.
    """
    first = store.frame_at(1)
    if first is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    tip = Tip(world=first.header.world)
    return empty(tip, store.blob, find=_finding(store), limits=limits)


def state_of(store: Store, row: SnapshotRow, *, limits: Limits = LIMITS) -> State:
    """The state that a snapshot holds. Cells at rest are read from the store when asked for.

    Raises:
        Damage: No record of the journal says so, or the snapshot cannot be read (H-40a).
    """
    frame = store.frame_at(row.seq)
    record = None if frame is None else from_bytes(frame.records[row.seq - frame.header.first])
    if (
        not isinstance(record, Snapshot)
        or record.at != row.at
        or record.document.hash != row.document
    ):
        raise Damage(
            f"record {row.seq} says of no snapshot after record {row.at}, and its row does "
            "(aos verify tells more)"
        )
    state = load(row.document, store.blob, find=_finding(store), limits=limits)
    if state.tip.seq != row.at or state.tip.frame != record.frame:
        raise Damage(f"the snapshot of record {row.seq} is of another place in the journal")
    return state


def snapshot_with(store: Store, value: Hash) -> SnapshotRow | None:
    """The first snapshot that ``store`` keeps and ``value`` is a part of.

    Parts that snapshots share are looked at once: some 100 bytes each are held meanwhile.
    """
    walked: set[Hash] = set()

    def is_walked(node: Hash) -> bool:
        return node in walked

    for row in store.snapshots():
        # One that lost a part to an earlier release is of no use.
        with contextlib.suppress(Erased):
            for part in parts(row.document, store.blob, is_walked):
                if part == value:
                    return row
                walked.add(part)
    return None


def _finding(store: Store) -> Find:
    def find(submission_id: str) -> int | None:
        row = store.submission(submission_id)
        return None if row is None else row.seq

    return find
