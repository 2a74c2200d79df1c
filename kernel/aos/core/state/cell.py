"""An instance of a workflow while it is in memory, and what waits for it (spec/kernel.md, K-60)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aos.core.journal.faults import Fault
from aos.core.journal.records import CellId, EntryId, KernelReceipt, Receipt, Slot, Stamp, Stream
from aos.core.journal.vocabulary import CellStatus, TerminalStatus
from aos.manifest.effective import Effect, Executor
from aos.values.digests import Hash


@dataclass(slots=True, eq=False)
class Root:
    """The input that a cascade of steps comes from, and how many steps it has caused."""

    seq: int
    stamp: Stamp
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIntent:
    """An effect that was asked for and is not settled.

    ``opened_ns`` is the journal clock at the step; ``idempotency_key`` is what executors see, the
    same for every attempt, and for every intent of this cell that asks with the same ``key``.
    ``effect`` and ``executors`` are those of the manifest in force then, ``manifest`` is its hash.
    """

    intent: Hash
    cell: CellId
    workflow_hash: Hash
    seq: int
    index: int
    opened_ns: int
    manifest: Hash
    effect: Effect
    executors: Mapping[str, Executor] | None
    params: Slot
    params_hash: Hash
    key: str | bytes | None
    idempotency_key: str
    issuer_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMail:
    """A domain event in a mailbox."""

    entry: EntryId
    root: Root
    depth: int
    schema: str
    value: Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptMail:
    """A continuation in the mailbox of the cell that asked for the effect."""

    entry: EntryId
    root: Root
    depth: int
    intent: OpenIntent
    receipt: Receipt | KernelReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMail:
    """A stream frame in the mailbox of the cell that asked for the effect."""

    entry: EntryId
    root: Root
    depth: int
    intent: OpenIntent
    frame: Stream


Mail: TypeAlias = EventMail | ReceiptMail | StreamMail


@dataclass(slots=True, eq=False)
class Cell:
    """An instance of a workflow (K-60).

    ``declared`` is the terminal status that its module last declared, ``fault`` why the kernel
    failed it. A faulted cell keeps the entry that it failed on at the head of its mailbox and what
    comes after behind it; nothing runs. ``mail_uncounted`` are entries that came when that was
    full: the journal alone holds them. ``keys`` are the idempotency keys that it asked with, each
    with the hash of its params, the one that was asked for last at the end.

    ``runs`` while a step of it is folded: it has left the ring, and what it sends itself does not
    put it back before its turn (K-41). ``changed`` is the last record that changed anything of it;
    0 for one that came out of a snapshot and did not change since.

    ``version`` is the record of the manifest that it came in flight under; 0, or one before the
    oldest that still counts: that. ``is_kept`` where it is done and stays under it all the same,
    because its state does not fit the manifest in force (``version.py``, K-74).
    """

    id: CellId
    workflow_hash: Hash
    module_hash: Hash
    state: Slot | None = None
    declared: TerminalStatus | None = None
    fault: Fault | None = None
    fault_seq: int | None = None
    last_seq: int = 0
    last_active_ns: int = 0
    mail_uncounted: int = 0
    changed: int = 0
    version: int = 0
    is_kept: bool = False
    in_ring: bool = False
    runs: bool = False
    inflight: dict[Hash, None] = field(default_factory=dict)
    keys: OrderedDict[str, Hash] = field(default_factory=OrderedDict)
    mailbox: deque[Mail] = field(default_factory=deque)

    @property
    def status(self) -> CellStatus:
        if self.fault is not None:
            return "failed"
        if self.declared is not None:
            return self.declared
        return "waiting" if self.inflight else "running"

    @property
    def is_at_rest(self) -> bool:
        """Nothing waits for it and it waits for nothing: it need not be in memory."""
        return not (
            self.mailbox or self.inflight or self.in_ring or self.runs or self.fault is not None
        )

    @property
    def is_gone(self) -> bool:
        """Nothing is left of it: a deleted cell, or one whose only event left no state."""
        return self.state is None and not self.mailbox and not self.inflight and self.fault is None
