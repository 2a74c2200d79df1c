"""An instance of a workflow while it is in memory, with its mail and its open intents (K-60)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from aos.core.journal.faults import Fault
from aos.core.journal.records import CellId, EntryId, KernelReceipt, Receipt, Slot, Stamp, Stream
from aos.core.journal.vocabulary import CellStatus, HaltPhase, TerminalStatus
from aos.manifest.effective import Effect, Executor
from aos.values.digests import Hash


@dataclass(slots=True, eq=False)
class Root:
    """The input that a cascade of steps comes from, and how many steps it has caused. ``stamp`` is
    its own, or that of the last retry or skip that gave it another (K-101b)."""

    seq: int
    stamp: Stamp
    steps: int = 0


class OpenIntent(NamedTuple):
    """An effect that a step requested and no receipt has settled.

    ``opened_ns`` is the journal clock at that step. Executors see ``idempotency_key``: it is the
    same for every attempt, and for every intent of this cell that requests the same ``key``.
    ``effect`` and ``executors`` are those of the manifest in force then, ``manifest`` is its hash.
    """

    intent: Hash
    cell: CellId
    workflow_hash: Hash
    seq: int
    index: int  # type: ignore[assignment]  # hides a tuple's method
    opened_ns: int
    manifest: Hash
    effect: Effect
    executors: Mapping[str, Executor] | None
    params: Slot
    params_hash: Hash
    key: str | bytes | None
    idempotency_key: str
    issuer_ref: str | None


@dataclass(slots=True)
class StreamState:
    """The progress of an intent's stream: the number of the last frame, the count of all frames,
    and the count of frames in the second of journal time that began at ``since_ns``."""

    last: int = -1
    frames: int = 0
    since_ns: int = 0
    recent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Why an open intent does not run: record ``seq`` held or parked ``attempt`` (K-99).

    ``since_ns`` is the journal clock at that record. ``code`` and ``problem`` are the record's.
    """

    phase: HaltPhase
    attempt: int
    seq: int
    since_ns: int
    code: str
    problem: str | None


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
    """A continuation in the mailbox of the cell that requested the effect."""

    entry: EntryId
    root: Root
    depth: int
    intent: OpenIntent
    receipt: Receipt | KernelReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMail:
    """A stream frame in the mailbox of the cell that requested the effect."""

    entry: EntryId
    root: Root
    depth: int
    intent: OpenIntent
    frame: Stream


Mail: TypeAlias = EventMail | ReceiptMail | StreamMail


@dataclass(slots=True, eq=False)
class Cell:
    """An instance of a workflow (K-60).

    ``declared`` is the terminal status that its module last declared, ``fault`` the reason why the
    kernel failed it. A faulted cell runs nothing: the entry that failed stays at the head of its
    mailbox, and later mail queues behind it. ``mail_uncounted`` counts the entries that arrived
    when the mailbox was full: only the journal holds them. ``keys`` are the idempotency keys of its
    requests, each with the hash of its params, the most recent last.

    ``runs`` is true while the kernel folds a step of the cell: the cell has left the ring, and
    events that it sends to itself do not put it back before its turn (K-41). ``changed`` is the
    last record that changed the cell; 0 if none did since the snapshot that it was read from.

    ``version`` is the record of the manifest under which the cell came in flight; 0, or a record
    before the oldest era, means the oldest era. ``is_kept`` means that the cell was done and
    stays under that manifest, because its state does not fit the one in force (``version.py``,
    K-74, K-74a).

    ``stepped_under`` is the record of the manifest under which a step wrote ``state``, if this
    process ran or folded that step since the cell came into memory; else 0. Nothing that is
    journaled depends on it: it only saves reading a state that is known to be complete (K-71d).
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
    stepped_under: int = 0
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
        """Whether the cell has no work and waits for nothing, so that it may leave memory."""
        return not (
            self.mailbox or self.inflight or self.in_ring or self.runs or self.fault is not None
        )

    @property
    def only_waits(self) -> bool:
        """Whether the cell waits for receipts and has nothing else to do."""
        return (
            bool(self.inflight)
            and self.state is not None
            and not (self.mailbox or self.in_ring or self.runs or self.fault is not None)
        )

    @property
    def is_idle(self) -> bool:
        """Whether the instance only waits for an event: its status is ``running``, and it has
        nothing in flight, queued or due."""
        return self.is_at_rest and self.status == "running"

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the cell is left: it was deleted, or its only event left no state."""
        return self.state is None and not self.mailbox and not self.inflight and self.fault is None
