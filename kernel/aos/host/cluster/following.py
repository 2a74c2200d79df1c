"""Take the entries of a log that count into the store and the kernel of a node (spec/cluster.md,
CL-60 to CL-68).

    log ──▶ entry that counts ──▶ all values there? ──▶ kernel folds ──▶ LMDB, with the place

A node that follows has everything that it needs to own the world: the journal in its store, and a
kernel that has folded it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record, Snapshot
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.core.snapshot.load import parts
from aos.errors import Unavailable
from aos.fastcore.core_choice import ChosenCore, reference_core
from aos.host.folder.restore import Progress
from aos.host.transfer.intake import FrameIntake, erased_by
from aos.host.world.collecting import Arrivals
from aos.host.world.core_thread import CoreThread
from aos.host.world.restored_world import RestoredWorld, restored_world
from aos.host.world.signatures import Signatures
from aos.host.world.unit import Overlay
from aos.store.log.counting import CountedEntry
from aos.store.log.entry import FramesEntry
from aos.store.log.logged_store import LoggedStore
from aos.store.store import erased_error
from aos.store.stored_world import finding, snapshot_with
from aos.values.digests import Hash, content_hash, hash_text

Fetch = Callable[[Hash], bytes | None]
"""Asks another node for a blob; None if it does not have it, or does not answer."""

REJOIN: Final = "move this folder away and make the node again from a base of the world"


class NeedsBase(Unavailable):
    """The node lacks bytes that the journal needs, and no other node has them. It cannot continue
    from its own files. Nothing was written."""


def no_others(_: Hash) -> None:
    """For a node that knows no other one."""


def open_world(
    store: LoggedStore,
    world: Hash,
    *,
    core: ChosenCore | None = None,
    limits: Limits = LIMITS,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> RestoredWorld:
    """Restore the world in ``store``, or one before its genesis if the store is empty, for a node
    that follows. Its kernel spills, so that it can be rebased at each snapshot. ``progress`` and
    ``note`` are as for ``restored_world``.

    Raises:
        Damage, WorldStopped: As ``restored_world``.
    """
    if store.head() is None:
        restored = _empty_world(store, world, core or reference_core(), limits)
    else:
        restored = restored_world(
            store, world, core=core, limits=limits, progress=progress, note=note
        )
    restored.thread.call(restored.kernel.spill)
    return restored


def _empty_world(
    store: LoggedStore, world: Hash, core: ChosenCore, limits: Limits
) -> RestoredWorld:
    thread, blobs, signatures = CoreThread(), Overlay(store.blob), Signatures()
    try:
        kernel = thread.call(
            lambda: core.opens(
                world=world,
                read=blobs.read,
                find=finding(store),
                verify=signatures,
                limits=limits,
                keeps=True,
            )
        )
        tip, figures = thread.call(lambda: (kernel.tip, kernel.figures()))
    except BaseException:
        thread.close()
        raise
    return RestoredWorld(
        kernel=kernel, core=core.kind, thread=thread, blobs=blobs, signatures=signatures,
        tip=tip, figures=figures,
    )  # fmt: skip


@dataclass(slots=True)
class _EntryValues:
    """The values that an entry brings, those that other nodes had, and those of the store."""

    store: LoggedStore
    brought: dict[Hash, bytes]
    erased: dict[Hash, int]
    """Values that the entry erases, with the record that does."""

    def blob(self, hash: Hash, /) -> bytes:
        """As ``Values.blob``."""
        data = self.brought.get(hash)
        if data is not None:
            return data
        if hash in self.erased:
            raise erased_error(hash, self.erased[hash])
        return self.store.blob(hash)

    def lacks(self, hash: Hash) -> bool:
        """Whether the node has neither the bytes of a value nor the reason why there are none."""
        return not (
            hash in self.brought
            or hash in self.erased
            or self.store.has_blob(hash)
            or self.store.erased(hash) is not None
        )


@dataclass(frozen=True, slots=True)
class _Taken:
    """An entry that the kernel has folded, and that the store does not have yet."""

    counted: CountedEntry
    group: list[Sealed]
    dropped: tuple[int, ...]
    rebase_to: Hash | None
    """The document of the newest snapshot that the entry announces."""


class EntryIntake:
    """Follows a log: ``store`` is connected to it, and ``world`` was restored from ``store``.

    After an exception other than NoRoom, LogUnreachable and NeedsBase, neither ``world`` nor the
    connection of ``store`` can be used any more.
    """

    def __init__(
        self,
        world: RestoredWorld,
        store: LoggedStore,
        *,
        fetch: Fetch = no_others,
        on_taken: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_taken`` is called after each entry that the store has."""
        self.world = world
        self.store = store
        self.arrivals = Arrivals(world.kernel.pins)
        """The values that arrive, for the removal of those that nothing needs."""
        self._fetch = fetch
        self._on_taken = on_taken
        self._opened_at = world.tip.seq
        self._values = _EntryValues(store, {}, {})
        self._intake = FrameIntake(
            world.kernel,
            values=self._values,
            store=store,
            source_path=store.location,
            keeps_snapshot=lambda _: True,
        )
        self._waiting: CountedEntry | None = None
        """An entry that lacks values."""
        self._taken: _Taken | None = None
        self._whole_parts: set[Hash] = set()
        """Parts of snapshots that are here with everything below them."""

    def advance(self) -> int:
        """Take the entries that count, up to the tail of the log; return how many.

        Raises:
            LogUnreachable: The log does not answer. Entries before that are taken.
            NoRoom: The disk is full. Call again: the same entry is stored then.
            NeedsBase: An entry names bytes that neither this node nor another one has, or erases a
                value that the journal of this node begins with. Nothing of it was taken.
            Damage: The log does not continue this journal (LG-14), or an entry is not as its frames
                say.
        """
        number = 0
        if self._taken is not None:
            self._store_taken()
            number += 1
        if self._waiting is not None:
            self._take(self._waiting)
            number += 1
        for counted in self.store.counted():
            self._waiting = counted
            self._take(counted)
            number += 1
        return number

    def removed_blobs(self) -> None:
        """Look at every part of the next snapshot again: blobs of the store were removed."""
        self._whole_parts.clear()

    def current(self) -> RestoredWorld:
        """Return the world with the tip and the figures after the last entry taken."""
        kernel = self.world.kernel
        tip, figures = self.world.thread.call(lambda: (kernel.tip, kernel.figures()))
        return replace(self.world, tip=tip, figures=figures)

    def _take(self, counted: CountedEntry) -> None:
        entry = counted.entry
        if isinstance(entry, FramesEntry):
            self._taken = self.world.thread.call(lambda: self._fold(counted, entry))
        else:
            self.arrivals.note(map(content_hash, entry.blobs))
            self._taken = _Taken(counted, [], (), None)
        self._waiting = None
        self._store_taken()

    def _fold(self, counted: CountedEntry, entry: FramesEntry) -> _Taken:
        """Fold the frames of an entry, once everything that they name is here."""
        frames = [[from_bytes(data) for data in frame.records] for frame in entry.frames]
        records = [record for of_frame in frames for record in of_frame]
        erased = {value: record.seq for record in records for value in erased_by(record)}
        values, intake = self._values, self._intake
        values.brought = {content_hash(blob): blob for blob in entry.blobs}
        values.erased = erased
        dropped = self._dropped(erased)
        snapshots = [record for record in records if isinstance(record, Snapshot)]
        self._check_values(records)
        for snapshot in snapshots:
            self._check_parts(snapshot)
            self.arrivals.give_up()
        if erased:
            self._whole_parts.clear()
        overlay = self.world.blobs
        for frame, of_frame in zip(entry.frames, frames, strict=True):
            sealed = intake.take(frame, of_frame)
            overlay.hold(sealed.blobs, until=sealed.tip.seq)
        group = intake.end_group()
        # The rest are states that left the owner's memory, and modules that only a proposal names.
        without = {*erased, *[hash for sealed in group for hash in sealed.blobs]}
        rest = {hash: data for hash, data in values.brought.items() if hash not in without}
        group[-1] = replace(group[-1], blobs={**group[-1].blobs, **rest})
        for sealed in group:
            self.arrivals.note(sealed.blobs)
        values.brought, values.erased = {}, {}
        return _Taken(counted, group, dropped, self._rebase_to(snapshots))

    def _store_taken(self) -> None:
        taken = self._taken
        assert taken is not None
        self.store.take(taken.counted, taken.group, dropped=taken.dropped)
        self._taken = None
        for sealed in taken.group:
            self.world.blobs.drop(sealed.blobs, durable=sealed.tip.seq)
        document = taken.rebase_to
        if document is not None:
            self.world.thread.call(lambda: self.world.kernel.rebase(document))
        self._on_taken()

    def _rebase_to(self, snapshots: Sequence[Snapshot]) -> Hash | None:
        """The document of the newest snapshot, unless it was taken before the kernel was opened: it
        has cells of whose removal the kernel does not know any more (``rebase``)."""
        if not snapshots or snapshots[-1].at < self._opened_at:
            return None
        return snapshots[-1].document.hash

    def _check_values(self, records: Iterable[Record]) -> None:
        for record in records:
            for value in self._intake.needed_values(record):
                self._need(value, f"record {record.seq}")

    def _check_parts(self, snapshot: Snapshot) -> None:
        """Check that a snapshot is whole here: a restart may begin with it."""
        user = f"the snapshot of record {snapshot.seq}"

        def read(part: Hash) -> bytes:
            self._need(part, user)
            return self._values.blob(part)

        whole: set[Hash] = set()
        for part in parts(snapshot.document.hash, read, self._whole_parts.__contains__):
            self._need(part, user)
            whole.add(part)
        self._whole_parts |= whole

    def _need(self, value: Hash, user: str) -> None:
        """Have the bytes of a value here, from another node if need be. Raises NeedsBase."""
        self.arrivals.note((value,))
        if not self._values.lacks(value):
            return
        data = self._fetch(value)
        if data is None or content_hash(data) != value:
            raise NeedsBase(
                f"this node lacks {hash_text(value)}, which {user} needs, and the owner did not "
                "give it",
                location=self.store.location,
                hint=REJOIN,
            )
        self._values.brought[value] = data

    def _dropped(self, erased: Iterable[Hash]) -> tuple[int, ...]:
        """The snapshots that this node keeps, perhaps alone, and that a value is a part of.

        Raises:
            NeedsBase: The journal of this node begins with one of them.
        """
        dropped: list[int] = []
        cut = self.store.cut()
        for value in erased:
            while (row := snapshot_with(self.store, value, but=dropped)) is not None:
                if cut is not None and cut.document == row.document:
                    raise NeedsBase(
                        f"the value {hash_text(value)} is to be erased, and it is a part of the "
                        f"snapshot after record {row.at}, with which the journal of this node "
                        "begins",
                        location=self.store.location,
                        hint=REJOIN,
                    )
                dropped.append(row.at)
        return tuple(dropped)
