"""The state of a world at one point of its journal. Only ``fold`` changes it (spec/kernel.md)."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from aos.core.journal.frame import Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Principal, Slot
from aos.core.journal.vocabulary import SettledStatus
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import Halt, OpenIntent, Root, StreamState
from aos.core.state.cells import Cells
from aos.core.state.eras import Eras, ManifestOf
from aos.core.state.open_intents import OpenIntents
from aos.core.state.proposals import Proposals
from aos.core.state.submissions import Find, Submissions
from aos.manifest.effective import Effective
from aos.values.digests import Hash


class Debt(enum.Enum):
    """Why the core owes a receipt (K-80)."""

    ANSWER = "answer"
    """The intent requests one of the core's own effects."""
    CANCEL = "cancel"
    """An operator canceled it."""
    LOSS = "loss"
    """The intent may run only once, and it is unknown how that run ended."""
    SETTLE = "settle"
    """An operator settled it."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The status and the payload with which an operator settled an intent (K-108)."""

    status: SettledStatus
    payload: Slot


@dataclass(slots=True, eq=False)
class Owed:
    """A receipt that the core itself is about to make.

    ``canceled`` counts the intents that this one, a cancel effect, has ended so far. ``settlement``
    is present exactly if an operator settled it.
    """

    intent: Hash
    debt: Debt
    root: Root
    depth: int
    problem: str | None = None
    canceled: int = 0
    settlement: Settlement | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A journaled snapshot: the record that announces it, the record ``at`` that ends the frame
    after which it was taken, and the content hash of its document."""

    seq: int
    at: int
    document: Hash


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A world from which this one was forked, and the last record that it has from there."""

    world: Hash
    at: int


@dataclass(slots=True, eq=False)
class State:
    """The whole world.

    ``clock_ns`` is the journal clock (K-4), ``window_ns`` the window time, by which submission ids
    are forgotten (K-12a).

    ``intents`` are the open intents in the order of opening; ``abandoned`` those whose receipts no
    cell waits for. ``owed`` are receipts that the core makes itself before the ring continues.
    ``attempts`` has the last journaled attempt of each intent that is open or abandoned,
    ``halts`` the last reason why an open intent did not run, also if it has run again since (see
    ``halt``), ``streams`` the progress of each open intent's stream. ``serial`` counts manifest
    records, ``controls`` control records. ``revoked`` are all keys that a manifest of this world
    ever revoked, ``pinned`` the hashes of all its manifests and their modules, ``snapshot`` the
    last journaled one. ``eras`` are the manifests that instances may still run under; the last is
    the one in force. ``ancestors`` are the worlds from which this one was forked, the nearest last.
    ``limits`` are in no journal: the caller that makes the state sets them, to other values than
    ``LIMITS`` only in tests.

    Collections that forget their oldest entry are OrderedDicts: removing the first entry of a dict
    repeatedly walks over every removed entry.
    """

    tip: Tip
    limits: Limits = LIMITS
    clock_ns: int = 0
    window_ns: int = 0
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
    eras: Eras = field(default_factory=Eras)
    snapshot: Mark | None = None
    ancestors: tuple[Ancestor, ...] = ()
    cells: Cells = field(default_factory=Cells)
    ring: deque[CellId] = field(default_factory=deque)
    owed: deque[Owed] = field(default_factory=deque)
    abandoned: OrderedDict[Hash, OpenIntent] = field(default_factory=OrderedDict)
    submissions: Submissions = field(default_factory=Submissions)
    world_keys: OrderedDict[str, Hash] = field(default_factory=OrderedDict)
    proposals: Proposals = field(default_factory=Proposals)

    @property
    def intents(self) -> OpenIntents:
        return self.cells.intents

    @property
    def attempts(self) -> dict[Hash, int]:
        """The last journaled attempts of abandoned intents, and of those of cells in memory."""
        return self.cells.intents.attempts

    @property
    def halts(self) -> dict[Hash, Halt]:
        return self.cells.intents.halts

    @property
    def streams(self) -> dict[Hash, StreamState]:
        return self.cells.intents.streams

    def attempt(self, intent: OpenIntent) -> int:
        """The current attempt of an open intent; 0 if its first must still be journaled."""
        return self.intents.last_attempt(intent.intent) or first_attempt(intent)

    def halt(self, intent: OpenIntent) -> Halt | None:
        """Why an open intent is held or parked; None if it is not, or if a later attempt has
        begun."""
        halt = self.halts.get(intent.intent)
        return halt if halt is not None and halt.attempt >= self.attempt(intent) else None

    def is_inherited(self, intent: OpenIntent) -> bool:
        """Whether the intent was opened in a world from which this one was forked: executors do not
        run it here (K-113)."""
        return bool(self.ancestors) and intent.seq <= self.ancestors[-1].at

    def window_at(self, stamp_ns: int) -> int:
        """The window time after a record with this stamp: it grows with the journal clock, but by
        at most ``dedup_step_ns`` for one record (K-12a)."""
        ahead = stamp_ns - self.clock_ns
        if ahead <= 0:
            return self.window_ns
        step_ns_max = None if self.manifest is None else self.manifest.limits.dedup_step_ns
        return self.window_ns + (ahead if step_ns_max is None else min(ahead, step_ns_max))

    @property
    def world(self) -> Hash:
        return self.tip.world

    @property
    def effective(self) -> Effective:
        assert self.manifest is not None, "asked before a manifest was applied"
        return self.manifest


def first_attempt(intent: OpenIntent) -> int:
    """The current attempt of an intent for which the journal has none: 0 if the first must be
    journaled."""
    return 0 if intent.effect.delivery == "at_most_once" else 1


def empty(
    tip: Tip,
    read: BlobReader,
    *,
    find: Find | None = None,
    limits: Limits = LIMITS,
    manifest_of: ManifestOf = Effective.from_document,
) -> State:
    """Return the state before a world's genesis. Its layers read blobs with ``read``; ``find``
    returns the record of a submission id."""
    return State(
        tip=tip,
        limits=limits,
        eras=Eras(manifest_of=manifest_of),
        cells=Cells(read, limits=limits, manifest_of=manifest_of),
        submissions=Submissions(read=read, find=find, limits=limits),
    )
