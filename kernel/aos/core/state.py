"""What a world is at one point of its journal. Only ``fold`` changes it (spec/kernel.md)."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aos.core.faults import Fault
from aos.core.frame import Tip
from aos.core.records import (
    CellId,
    EntryId,
    KernelReceipt,
    Principal,
    Receipt,
    Slot,
    Stamp,
    Stream,
)
from aos.manifest.effective import Effect, Effective, Executor
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
    ``effect`` and ``executors`` are those of the manifest in force then.
    """

    intent: Hash
    cell: CellId
    workflow_hash: Hash
    seq: int
    index: int
    opened_ns: int
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


class Debt(enum.Enum):
    """Why the core owes a receipt (K-80)."""

    ANSWER = "answer"
    """The intent is of one of its own effects."""
    CANCEL = "cancel"
    """An operator canceled it."""
    LOSS = "loss"
    """It may run only once, and nobody knows how that ended."""


@dataclass(slots=True, eq=False)
class Owed:
    """A receipt that the core itself is about to make.

    ``canceled`` counts the intents that this one, a cancel effect, has ended so far.
    """

    intent: Hash
    why: Debt
    root: Root
    depth: int
    problem: str | None = None
    canceled: int = 0


@dataclass(slots=True)
class StreamState:
    """How far an intent's stream is: the last frame's number, frames in all, and how many came in
    the second of journal time that began at ``since_ns``."""

    last: int = -1
    frames: int = 0
    since_ns: int = 0
    recent: int = 0


@dataclass(slots=True, eq=False)
class Cell:
    """An instance of a workflow (K-60).

    ``declared`` is the terminal status that its module last declared, ``fault`` why the kernel
    failed it. A faulted cell keeps the entry that it failed on at the head of its mailbox and what
    comes after behind it; nothing runs. ``mail_uncounted`` are entries that came when that was
    full: the journal alone holds them. ``keys`` are the idempotency keys that it asked with, each
    with the hash of its params, the one that was asked for last at the end.

    ``runs`` while a step of it is folded: it has left the ring, and what it sends itself does not
    put it back before its turn (K-41).
    """

    id: CellId
    workflow_hash: Hash
    module_hash: Hash
    state: Slot | None = None
    declared: str | None = None
    fault: Fault | None = None
    fault_seq: int | None = None
    last_seq: int = 0
    last_active_ns: int = 0
    mail_uncounted: int = 0
    in_ring: bool = False
    runs: bool = False
    inflight: dict[Hash, None] = field(default_factory=dict)
    keys: OrderedDict[str, Hash] = field(default_factory=OrderedDict)
    mailbox: deque[Mail] = field(default_factory=deque)

    @property
    def status(self) -> str:
        if self.fault is not None:
            return "failed"
        if self.declared is not None:
            return self.declared
        return "waiting" if self.inflight else "running"

    @property
    def is_gone(self) -> bool:
        """Nothing is left of it: a deleted cell, or one whose only event left no state."""
        return self.state is None and not self.mailbox and not self.inflight and self.fault is None


@dataclass(frozen=True, slots=True)
class Submission:
    """An event that came under this submission id: its record and what it was."""

    seq: int
    payload: Hash
    at_ns: int


@dataclass(slots=True, eq=False)
class State:
    """The whole world. ``clock_ns`` is the journal clock: the highest stamp so far.

    ``intents`` are open work in the order of opening; ``abandoned`` those that nobody waits for any
    more. ``owed`` are receipts that the core makes itself before the ring goes on. ``attempts`` has
    the last journaled attempt of an intent that is open or abandoned, ``streams`` how far the
    stream of an open one is. ``serial`` counts manifest records, ``controls`` control records.
    ``revoked`` are all keys that a manifest of this world ever revoked, ``pinned`` the hashes of
    all its manifests and their modules.

    What is forgotten oldest first is an OrderedDict: taking the first entry off a dict again and
    again walks over every entry that is gone.
    """

    tip: Tip
    clock_ns: int = 0
    next_seq: int = 1
    world_key: bytes = b""
    operators: tuple[Principal, ...] = ()
    semantics: int = 0
    serial: int = 0
    controls: int = 0
    revoked: frozenset[bytes] = frozenset()
    pinned: set[Hash] = field(default_factory=set)
    manifest: Effective | None = None
    manifest_seq: int = 0
    cells: dict[CellId, Cell] = field(default_factory=dict)
    ring: deque[CellId] = field(default_factory=deque)
    owed: deque[Owed] = field(default_factory=deque)
    intents: dict[Hash, OpenIntent] = field(default_factory=dict)
    abandoned: OrderedDict[Hash, OpenIntent] = field(default_factory=OrderedDict)
    attempts: dict[Hash, int] = field(default_factory=dict)
    streams: dict[Hash, StreamState] = field(default_factory=dict)
    submissions: OrderedDict[str, Submission] = field(default_factory=OrderedDict)
    world_keys: OrderedDict[str, Hash] = field(default_factory=OrderedDict)

    def attempt(self, intent: OpenIntent) -> int:
        """The attempt that counts for an open intent; 0 where the first must be journaled yet."""
        first = 0 if intent.effect.delivery == "at_most_once" else 1
        return self.attempts.get(intent.intent, first)

    @property
    def world(self) -> Hash:
        return self.tip.world

    @property
    def effective(self) -> Effective:
        assert self.manifest is not None, "asked before a manifest was applied"
        return self.manifest
