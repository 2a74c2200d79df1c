"""Collect what the records since the last seal changed, and seal it as one frame (K-6).

``Kernel`` owns one ``Pending`` at a time. Each record is added after it is folded; ``seal`` turns
all of them into a ``Sealed``, which the host makes durable and then publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aos.core.journal.frame import Frame, Tip, seal
from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.records import (
    Control,
    Event,
    Fork,
    KernelReceipt,
    Receipt,
    Record,
    Ref,
    Snapshot,
    Step,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.state import Mark, State
from aos.manifest.names import KERNEL_EFFECTS
from aos.values.digests import Hash, digest


class Settled(NamedTuple):
    """An intent that ended, the record of its receipt, and the digest that identifies the receipt
    (``receipt_digest``)."""

    intent: Hash
    seq: int
    receipt: Hash


class Submitted(NamedTuple):
    """A submission id, the record of its event, and the event's payload hash."""

    submission_id: str
    seq: int
    payload: Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """One frame and everything that its records changed outside of it.

    The host works through a ``Sealed`` in three phases:

    1. One transaction of the store makes it durable: first it erases the bytes of ``erased``, then
       it writes ``frame``, ``blobs`` and the rows of ``opened_intents``, ``settled``,
       ``abandoned``, ``submissions`` and ``snapshots``. Several ``Sealed`` may share one
       transaction; they keep their order.
    2. Until that transaction has committed, the host publishes nothing of it: no answer, no effect,
       no metric. Only the kernel itself continues, on a state that already has these records.
    3. After the commit, executors receive ``to_publish``, and drop their work on ``abandoned`` and
       ``canceled``; senders receive their answers.

    After a crash before the commit, nothing of it exists. After a crash between the commit and
    phase 3, the next process publishes the intents that are still open.
    """

    frame: Frame
    """The canonical records and their header; linked to the frame before by its hash."""

    tip: Tip
    """The end of the chain with this frame: what the store's head must hold after the commit."""

    blobs: Mapping[Hash, bytes]
    """Values that the records name and do not hold, and the cell states that left memory with this
    frame. They are committed with the frame, because readers of its records need them."""

    opened_intents: tuple[OpenIntent, ...]
    """All intents that the steps of this frame opened, in the order of the journal: each gets a
    row in the store, also where it ended within the frame."""

    settled: tuple[Settled, ...]
    """Intents that got a receipt in this frame. Their rows answer a receipt that comes again."""

    abandoned: tuple[Hash, ...]
    """Intents whose cell was deleted, failed or was ended: no cell waits for their receipts, so
    executors may drop them."""

    submissions: tuple[Submitted, ...]
    """Submission ids of admitted events: the store finds the record of an id by their rows."""

    canceled: tuple[Hash, ...] = ()
    """Intents of executors that the core settled itself: canceled, settled by an operator, or lost;
    each is in ``settled``, too. Executors may drop them."""

    erased: tuple[Hash, ...] = ()
    """Values whose bytes are erased in the same transaction, before ``blobs`` are written. A value
    that is stored again later in the frame is in ``blobs`` and not here."""

    snapshots: tuple[Mark, ...] = ()
    """Snapshots that a record of this frame names: they count from the commit on, and a restart
    may begin at them."""

    replaced: Mapping[Hash, Hash] = field(default_factory=dict)
    """New states among ``blobs``, each with the hash of the state that it replaced. Most of their
    bytes are the same, and the store may make use of this. Nothing hashes it."""

    @property
    def to_publish(self) -> tuple[OpenIntent, ...]:
        """The intents of ``opened_intents`` that executors run and that are still open at the end
        of the frame. Executors receive them after the commit, never before."""
        over = {*self.abandoned, *[settled.intent for settled in self.settled]}
        return tuple(
            intent
            for intent in self.opened_intents
            if intent.intent not in over and intent.effect.name not in KERNEL_EFFECTS
        )


def receipt_digest(receipt: ReceiptInput | Receipt | KernelReceipt) -> Hash:
    """Identify a receipt: two receipts for one intent are the same if signature and key are."""
    if isinstance(receipt, KernelReceipt):
        return digest("aos/receipt-id/1", receipt.intent, b"", b"")
    return digest("aos/receipt-id/1", receipt.intent, receipt.key_id, receipt.signature)


@dataclass(slots=True, eq=False)
class Pending:
    """The records since the last seal and what they changed, while the frame is being filled.

    Nothing here is durable. Each list becomes the field of the same name of ``Sealed``, where it is
    explained.

    The order for one record is: ``keep`` its blobs, ``replace`` the state before it, fold it
    (folding may read the blobs), ``add`` it. A record that cannot be folded is therefore never
    added.
    """

    records: list[bytes] = field(default_factory=list)
    """Canonical bytes, in the order of the journal."""

    size: int = 0
    """Bytes of ``records``: the host seals a frame before it becomes too long."""

    blob_bytes: int = 0
    """Bytes of the blobs that came with ``records``, also of those that came twice."""

    blobs: dict[Hash, bytes] = field(default_factory=dict)
    """The kernel reads these before it asks the host, which does not have them yet."""

    replaced: dict[Hash, Hash] = field(default_factory=dict)
    opened_intents: list[OpenIntent] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    abandoned: list[Hash] = field(default_factory=list)
    canceled: list[Hash] = field(default_factory=list)
    erased: list[Hash] = field(default_factory=list)
    submissions: list[Submitted] = field(default_factory=list)
    snapshots: list[Mark] = field(default_factory=list)

    def keep(self, blobs: Mapping[Hash, bytes]) -> None:
        """Store blobs with this frame. A value that was erased in it before stays, then."""
        self.blobs.update(blobs)
        self.blob_bytes += sum(map(len, blobs.values()))
        if self.erased and blobs:
            self.erased = [blob_hash for blob_hash in self.erased if blob_hash not in blobs]

    def replace(self, record: Record, state: State) -> None:
        """Note which state the new one of a step replaces, if both are blobs. ``state`` is the
        world's before the record is folded."""
        if isinstance(record, Step) and isinstance(record.state, Ref):
            cell = state.cells.active.get(record.cell)
            old_state = None if cell is None else cell.state
            if isinstance(old_state, Ref) and old_state != record.state:
                self.replaced[record.state.hash] = old_state.hash

    def add(self, record: Record, data: bytes, state: State) -> None:
        """Add a record; ``data`` are its canonical bytes, ``state`` the state after folding it."""
        self.records.append(data)
        self.size += len(data)
        match record:
            case Step():
                self.opened_intents.extend(
                    state.intents[intent.intent] for intent in record.intents
                )
                self.abandoned.extend(record.abandoned)
            case Receipt() | KernelReceipt():
                self.settled.append(Settled(record.intent, record.seq, receipt_digest(record)))
                self.abandoned.extend(record.abandoned)
                if isinstance(record, KernelReceipt) and record.effect not in KERNEL_EFFECTS:
                    self.canceled.append(record.intent)
            case Control(action="erase", value=bytes(value)):
                self.blobs.pop(Hash(value), None)
                self.erased.append(Hash(value))
            case Control():
                self.abandoned.extend(record.abandoned)
            case Fork():
                assert len(self.records) == 1, "a fork is the first record of its frame"
                self.erased.extend(record.erased)
            case Snapshot():
                mark = state.snapshot
                assert mark is not None
                self.snapshots.append(mark)
            case Event(submission_id=str(name)):
                payload = state.submissions[name].payload
                self.submissions.append(Submitted(name, record.seq, payload))
            case _:
                pass

    def seal(self, tip: Tip, salt: bytes) -> Sealed:
        """Make the frame that follows ``tip``. The ``Sealed`` takes over the blobs: this object
        must not be used after it."""
        frame, next_tip = seal(tip, self.records, salt)
        return Sealed(
            frame=frame,
            tip=next_tip,
            blobs=self.blobs,
            replaced=self.replaced,
            opened_intents=tuple(self.opened_intents),
            settled=tuple(self.settled),
            abandoned=tuple(self.abandoned),
            submissions=tuple(self.submissions),
            canceled=tuple(self.canceled),
            erased=tuple(self.erased),
            snapshots=tuple(self.snapshots),
        )
