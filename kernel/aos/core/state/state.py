"""What a world is at one point of its journal. Only ``fold`` changes it (spec/kernel.md)."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from aos.core.journal.frame import Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Principal
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import OpenIntent, Root
from aos.core.state.cells import Cells
from aos.core.state.eras import Eras
from aos.core.state.submissions import Find, Submissions
from aos.manifest.effective import Effective
from aos.values.digests import Hash


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


@dataclass(frozen=True, slots=True)
class Mark:
    """A snapshot that is journaled: the record that says so, the record ``at`` whose frame it was
    taken after, and the content hash of its document."""

    seq: int
    at: int
    document: Hash


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A world that this one was forked of, and the last record that it has from there."""

    world: Hash
    at: int


@dataclass(slots=True, eq=False)
class State:
    """The whole world. ``clock_ns`` is the journal clock: the highest stamp so far.

    ``intents`` are open work in the order of opening; ``abandoned`` those that nobody waits for any
    more. ``owed`` are receipts that the core makes itself before the ring goes on. ``attempts`` has
    the last journaled attempt of an intent that is open or abandoned, ``streams`` how far the
    stream of an open one is. ``serial`` counts manifest records, ``controls`` control records.
    ``revoked`` are all keys that a manifest of this world ever revoked, ``pinned`` the hashes of
    all its manifests and their modules, ``snapshot`` the last one that is journaled. ``eras`` are
    the manifests that something may run under, the one in force the last of them. ``ancestors``
    are the worlds that it was forked of, the nearest last. ``limits`` are of no journal: they come
    from whoever makes the state, and are ``LIMITS`` but in tests.

    What is forgotten oldest first is an OrderedDict: taking the first entry off a dict again and
    again walks over every entry that is gone.
    """

    tip: Tip
    limits: Limits = LIMITS
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
    eras: Eras = field(default_factory=Eras)
    snapshot: Mark | None = None
    ancestors: tuple[Ancestor, ...] = ()
    cells: Cells = field(default_factory=Cells)
    ring: deque[CellId] = field(default_factory=deque)
    owed: deque[Owed] = field(default_factory=deque)
    intents: dict[Hash, OpenIntent] = field(default_factory=dict)
    abandoned: OrderedDict[Hash, OpenIntent] = field(default_factory=OrderedDict)
    attempts: dict[Hash, int] = field(default_factory=dict)
    streams: dict[Hash, StreamState] = field(default_factory=dict)
    submissions: Submissions = field(default_factory=Submissions)
    world_keys: OrderedDict[str, Hash] = field(default_factory=OrderedDict)

    def attempt(self, intent: OpenIntent) -> int:
        """The attempt that counts for an open intent; 0 where the first must be journaled yet."""
        first = 0 if intent.effect.delivery == "at_most_once" else 1
        return self.attempts.get(intent.intent, first)

    def is_inherited(self, intent: OpenIntent) -> bool:
        """Whether it was opened in a world that this one was forked of: nobody carries it out
        here (K-113)."""
        return bool(self.ancestors) and intent.seq <= self.ancestors[-1].at

    @property
    def world(self) -> Hash:
        return self.tip.world

    @property
    def effective(self) -> Effective:
        assert self.manifest is not None, "asked before a manifest was applied"
        return self.manifest


def empty(
    tip: Tip, read: BlobReader, *, find: Find | None = None, limits: Limits = LIMITS
) -> State:
    """Return the state before a world's genesis. Its layers read blobs by ``read``; ``find`` knows
    which record a submission id names."""
    return State(
        tip=tip,
        limits=limits,
        cells=Cells(read, limits=limits),
        submissions=Submissions(read=read, find=find, limits=limits),
    )
