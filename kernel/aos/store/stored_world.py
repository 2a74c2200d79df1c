"""The world in a store at a record: its state, from a snapshot or empty before the genesis
(spec/host.md, H-40), and its identity (spec/kernel.md, K-110; spec/bundle.md, B-70)."""

from __future__ import annotations

import contextlib
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aos.core.journal.fork import forked_world_id
from aos.core.journal.frame import Frame, Tip
from aos.core.journal.identity import world_id
from aos.core.journal.ports import BlobReader, Verify
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis, Principal, Snapshot
from aos.core.journal.signing import is_signed
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import load, parts
from aos.core.state.state import State, empty
from aos.core.state.submissions import Find
from aos.errors import Damage, Erased
from aos.store.rows import SnapshotRow
from aos.store.store import Store, first_kept
from aos.values.digests import Hash

if TYPE_CHECKING:
    from aos.core.kernel_protocol import KernelProtocol, OpenKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The world that a journal belongs to from record ``since`` on, and its keys."""

    world: Hash
    world_key: bytes
    operators: tuple[Principal, ...]
    since: int


def empty_state(store: Store, *, limits: Limits = LIMITS) -> State:
    """The state before the genesis of the world in ``store``, with its layers there. Of a forked
    world that is its first ancestor's.

    Raises:
        Damage: The store has no first frame.
    """
    tip = Tip(world=first_world(store))
    return empty(tip, store.blob, find=finding(store), limits=limits)


def first_world(store: Store) -> Hash:
    """Return the world of the first frame: of a forked world, its first ancestor.

    Raises:
        Damage: The store has no frame.
    """
    first = store.frame_at(1)
    if first is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    return first.header.world


def state_of(store: Store, row: SnapshotRow, *, limits: Limits = LIMITS) -> State:
    """The state that a snapshot holds. Cells at rest are read from the store when asked for.

    Raises:
        Damage: No record of the journal says so, or the snapshot cannot be read (H-40a).
    """
    record = _record_of(store, row)
    state = load(row.document, store.blob, find=finding(store), limits=limits)
    _check_place(record, state.tip)
    return state


def open_stored(
    store: Store,
    row: SnapshotRow | None,
    *,
    read: BlobReader,
    verify: Verify = is_signed,
    limits: Limits = LIMITS,
    keeps: bool = False,
    opens: OpenKernel | None = None,
) -> KernelProtocol:
    """Open a kernel with the world that a snapshot holds, or as it was before the genesis.

    ``opens`` opens it (default: ``open_kernel``); the other arguments are those of that function.

    Raises:
        Damage: As ``state_of`` or ``empty_state``.
    """
    if opens is None:
        # A command that only reads has no kernel.
        from aos.core.kernel import open_kernel  # noqa: PLC0415

        opens = open_kernel
    record = None if row is None else _record_of(store, row)
    kernel = opens(
        world=first_world(store) if row is None else None,
        read=read,
        snapshot=None if row is None else row.document,
        find=finding(store),
        verify=verify,
        limits=limits,
        keeps=keeps,
    )
    if record is not None:
        _check_place(record, kernel.tip)
    return kernel


def _record_of(store: Store, row: SnapshotRow) -> Snapshot:
    frame = store.frame_at(row.seq)
    record = None if frame is None else from_bytes(frame.records[row.seq - frame.header.first])
    if (
        not isinstance(record, Snapshot)
        or record.at != row.at
        or record.document.hash != row.document
    ):
        raise Damage(
            f"record {row.seq} says of no snapshot after record {row.at}, and its row does "
            "(run aos verify for details)"
        )
    return record


def _check_place(record: Snapshot, tip: Tip) -> None:
    if (tip.seq, tip.frame) != (record.at, record.frame):
        raise Damage(f"the snapshot of record {record.seq} is of another place in the journal")


def snapshot_with(store: Store, value: Hash, *, but: Container[int] = ()) -> SnapshotRow | None:
    """The first snapshot that ``store`` keeps and ``value`` is a part of, ``but`` those after these
    records.

    Parts that snapshots share are looked at once: some 100 bytes each are held meanwhile.
    """
    walked: set[Hash] = set()

    def is_walked(node: Hash) -> bool:
        return node in walked

    for row in store.snapshots():
        if row.at in but:
            continue
        # One that lost a part to an earlier release is of no use.
        with contextlib.suppress(Erased):
            for part in parts(row.document, store.blob, is_walked):
                if part == value:
                    return row
                walked.add(part)
    return None


def finding(store: Store) -> Find:
    """How a state or a kernel finds the record of a submission id in a store."""

    def find(submission_id: str) -> int | None:
        row = store.submission(submission_id)
        return None if row is None else row.seq

    return find


def identity_at(store: Store, seq: int) -> Identity:
    """Return the world of record ``seq``: that of the genesis, or of the last fork up to it.

    Raises:
        Damage: A frame cannot be read, or is no genesis or fork where it has to be.
    """
    world = _stored_frame(store, seq).header.world
    first = 1
    if _stored_frame(store, 1).header.world != world:
        # The worlds of a journal follow one another: search for the first frame of this one.
        low, high = first_kept(store), seq
        while low < high:
            middle = (low + high) // 2
            frame = _stored_frame(store, middle)
            if frame.header.world == world:
                high = frame.header.first
            else:
                low = frame.header.last + 1
        first = low
    record = from_bytes(_stored_frame(store, first).records[0])
    cut = store.cut()
    if cut is not None and not isinstance(record, Genesis | Fork):
        # The world began before the cut, which keeps its first record.
        record = from_bytes(cut.genesis)
    if isinstance(record, Genesis):
        record_world = world_id(record.nonce, record.world_key)
    elif isinstance(record, Fork):
        record_world = forked_world_id(record)
    else:
        raise Damage(f"record {first}: expected the beginning of a world, found {record.KIND}")
    if record_world != world:
        raise Damage(f"record {first}: it begins another world than its frame says")
    return Identity(
        world=world, world_key=record.world_key, operators=record.operators, since=first
    )


def _stored_frame(store: Store, seq: int) -> Frame:
    frame = store.frame_at(seq)
    if frame is None:
        raise Damage(f"record {seq}: expected a frame, found the end of the journal")
    return frame
