"""The world that a journal belongs to at a record (spec/kernel.md, K-110; spec/bundle.md, B-70)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.core.journal.fork import forked_world_id
from aos.core.journal.frame import Frame
from aos.core.journal.identity import world_id
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis, Principal
from aos.errors import Damage
from aos.store.store import Store, first_kept
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The world that a journal belongs to from record ``since`` on, and its keys."""

    world: Hash
    world_key: bytes
    operators: tuple[Principal, ...]
    since: int


def identity_at(store: Store, seq: int) -> Identity:
    """Return the world of record ``seq``: that of the genesis, or of the last fork up to it.

    Raises:
        Damage: A frame cannot be read, or is no genesis or fork where it has to be.
    """
    world = _frame(store, seq).header.world
    first = 1
    if _frame(store, 1).header.world != world:
        # The worlds of a journal follow one another: search for the first frame of this one.
        low, high = first_kept(store), seq
        while low < high:
            middle = (low + high) // 2
            frame = _frame(store, middle)
            if frame.header.world == world:
                high = frame.header.first
            else:
                low = frame.header.last + 1
        first = low
    record = from_bytes(_frame(store, first).records[0])
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


def _frame(store: Store, seq: int) -> Frame:
    frame = store.frame_at(seq)
    if frame is None:
        raise Damage(f"record {seq}: expected a frame, found the end of the journal")
    return frame
