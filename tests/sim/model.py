"""A naive model of the core, written a second time from spec/kernel.md and spec/journal.md.

Plain dicts and lists, in the words of the journal: it takes an input or a step, decides, changes
itself, and gives the whole record as the map that is journaled (J-11). Words for people (of faults,
problems, errors) are not foretold: they are taken from the record at hand, ``words``.

This file holds the state, inputs and deliveries; ``model_settle`` how intents end, ``model_step``
what one run of the ring's head comes to. Nothing here is imported from ``aos.core``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from aos.errors import Damage
from tests.sim.naive import CellId, Manifest, content, digest

Record = dict[str, Any]
Given = dict[str, Any]
"""An input: its fields by name."""

Told = tuple[Any, ...]
"""An answer: ("admitted", seq), ("duplicate", seq) or ("refused", rule), perhaps with more."""

INLINE: Final = 1024
SECOND: Final = 10**9
TIME_MAX: Final = 2**63 - 1
ATTEMPT_MAX: Final = 2**32 - 1
CODE_BYTES_MAX: Final = 128
BATCH_MAX: Final = 65_536
STATUSES: Final = ("ok", "error", "timeout", "canceled")
TERMINAL: Final = ("completed", "failed")
FROM_OUTSIDE: Final = ("receipt_invalid", "overloaded")
KERNEL_EFFECTS: Final = {
    "sys/timer.cancel@1", "sys/effect.cancel@1", "sys/introspect.manifest@1",
    "sys/introspect.workflow_state@1", "sys/introspect.journal_head@1",
    "sys/introspect.list_cells@1",
}  # fmt: skip


class Refused(Exception):
    """An input breaks a rule."""

    def __init__(self, rule: str, *more: Any) -> None:
        super().__init__(rule)
        self.told: Told = ("refused", rule, *more)


@dataclass
class Root:
    """An input and what it has caused."""

    seq: int
    ns: int
    entropy: bytes
    steps: int = 0


@dataclass
class Mail:
    entry: tuple[int, int]
    root: Root
    depth: int
    what: tuple[Any, ...]
    """("event", schema, value), ("receipt", intent, record, payload) or ("stream", intent, record,
    payload)."""


@dataclass
class Cell:
    id: CellId
    state: bytes | None = None
    declared: str | None = None
    fault: str | None = None
    fault_seq: int | None = None
    last_seq: int = 0
    last_active_ns: int = 0
    uncounted: int = 0
    mail: list[Mail] = field(default_factory=list)
    inflight: list[bytes] = field(default_factory=list)
    keys: list[tuple[str, bytes]] = field(default_factory=list)
    home: tuple[int, Manifest] | None = None
    """The manifest that it came in flight under, and the record of that (``model_pins``)."""
    kept: bool = False
    failed_pinned: bool = False

    @property
    def status(self) -> str:
        if self.fault:
            return "failed"
        return self.declared or ("waiting" if self.inflight else "running")


@dataclass
class Intent:
    hash: bytes
    cell: CellId
    workflow_hash: bytes
    seq: int
    index: int
    effect: str
    effect_hash: bytes
    under: Manifest
    params: bytes
    key: str | bytes | None
    idempotency_key: str
    issuer_ref: str | None

    @property
    def node(self) -> Record:
        return self.under.effects[self.effect]

    @property
    def once(self) -> bool:
        return self.node.get("delivery") == "at_most_once"


@dataclass
class Owed:
    intent: bytes
    why: str
    root: Root
    depth: int
    canceled: int = 0
    settled: tuple[str, bytes] | None = None
    """The status and payload that an operator stated (K-108)."""


@dataclass
class StreamState:
    last: int = -1
    frames: int = 0
    since_ns: int = 0
    recent: int = 0


@dataclass
class Marks:
    """Changes to intents and values since the last frame was sealed."""

    opened: list[bytes] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)
    abandoned: list[bytes] = field(default_factory=list)
    canceled: list[bytes] = field(default_factory=list)
    erased: list[bytes] = field(default_factory=list)
    submitted: list[tuple[str, int]] = field(default_factory=list)


Run = Callable[[bytes, bytes, int], tuple[bytes | None, str | None, int]]
"""(module, input, output bytes) -> (output, kind of fault, fuel): what the modules do."""


class Model:
    """One world. ``blobs`` are all values that were ever too long for a record."""

    def __init__(self, run: Run, blobs: dict[bytes, bytes]) -> None:
        self.run = run
        self.blobs = blobs
        self.world = b""
        self.world_key = b""
        self.operators: dict[str, bytes] = {}
        self.clock = 0
        self.window = 0
        """The window time (K-12a)."""
        self.seq = 1
        self.serial = 0
        self.controls = 0
        self.manifest: Manifest | None = None
        self.manifest_seq = 0
        self.eras: list[tuple[int, Manifest]] = []
        """The manifests that something may run under, the one in force last."""
        self.revoked: set[bytes] = set()
        self.pinned: set[bytes] = set()
        self.snapshot: tuple[int, int, bytes] | None = None
        """The last one: its record, the record that it was taken after, its document's hash."""
        self.parts: set[bytes] = set()
        """The blobs that the last snapshot consists of, without values."""
        self.cells: dict[CellId, Cell] = {}
        self.ring: list[CellId] = []
        self.owed: list[Owed] = []
        self.open: dict[bytes, Intent] = {}
        self.abandoned: dict[bytes, Intent] = {}
        self.attempts: dict[bytes, int] = {}
        self.halts: dict[bytes, tuple[Any, ...]] = {}
        self.streams: dict[bytes, StreamState] = {}
        self.submissions: dict[str, tuple[int, bytes, int]] = {}
        self.world_keys: list[tuple[str, bytes]] = []
        self.settled: dict[bytes, tuple[int, bytes]] = {}
        self.proposed = 0
        self.proposals: dict[Any, Record] = {}
        self.closed: dict[Any, str] = {}
        self.marks = Marks()
        self.words: Record = {}

    @property
    def now(self) -> Manifest:
        assert self.manifest is not None
        return self.manifest

    def genesis(self, record: Record) -> None:
        self.world = digest("aos/world/1", record["nonce"], record["world_key"])
        self.world_key = record["world_key"]
        self.operators = {each["name"]: each["key"] for each in record["operators"]}
        self.clock = self.window = record["stamp"]["ns"]
        self.seq = 2

    def window_after(self, stamp: Record, manifest: Manifest | None) -> int:
        """K-12a: the window time after a record with this stamp under this manifest."""
        ahead: int = max(0, stamp["ns"] - self.clock)
        limits = {} if manifest is None else manifest.limits
        return self.window + min(ahead, limits.get("dedup_step_ns", ahead))

    def tick(self, stamp: Record, comes: Manifest | None = None) -> int:
        """Take an input's stamp and number its record; ``comes`` is the manifest that it brings."""
        self.window = self.window_after(stamp, comes or self.manifest)
        self.clock = max(self.clock, stamp["ns"])
        self.seq += 1
        return self.seq - 1

    def set_clock(self, stamp: Record) -> None:
        """K-109b."""
        self.clock = stamp["ns"]
        for known in self.streams.values():
            known.since_ns = min(known.since_ns, self.clock)

    def slot(self, data: bytes) -> Any:
        if len(data) <= INLINE:
            return data
        self.blobs[content(data)] = data
        # A blob that is put again after its erasure is kept.
        self.marks.erased = [each for each in self.marks.erased if each != content(data)]
        return {"hash": content(data), "size": len(data)}

    def bytes_of(self, slot: Any) -> bytes:
        if isinstance(slot, bytes):
            return slot
        data = self.blobs.get(slot["hash"])
        if data is None:
            raise Damage(f"the model has no {slot['hash'].hex()}")
        return data

    # Deliveries (K-41 to K-44)

    def place(
        self, targets: Iterable[tuple[CellId, bool]], taken: Counter[CellId]
    ) -> tuple[list[CellId], list[CellId], list[CellId]]:
        to: list[CellId] = []
        over: list[CellId] = []
        unknown: list[CellId] = []
        for id, creates in targets:
            cell = self.cells.get(id)
            if not creates and cell is None and not taken[id]:
                unknown.append(id)
            elif cell is not None and cell.fault:
                to.append(id)
            elif (len(cell.mail) if cell else 0) + taken[id] < self.now.limits["mailbox"]:
                taken[id] += 1
                to.append(id)
            else:
                over.append(id)
        return to, over, unknown

    def spread(
        self,
        mail: Mail,
        to: list[CellId],
        over: list[CellId],
        seq: int,
        *,
        kept: list[CellId],
        runs: CellId | None = None,
    ) -> None:
        for id in to:
            self.deliver(self._reached(id, kept), mail, runs)
        for id in over:
            self.overload(self._reached(id, kept), seq)

    def _reached(self, id: CellId, kept: list[CellId]) -> Cell:
        from tests.sim import model_pins

        if id not in self.cells:
            self.cells[id] = Cell(id, home=(self.manifest_seq, self.now))
        model_pins.reached(self, self.cells[id], kept)
        return self.cells[id]

    def deliver(self, cell: Cell, mail: Mail, runs: CellId | None = None) -> None:
        if cell.fault and len(cell.mail) >= self.now.limits["mailbox"]:
            cell.uncounted += 1
            return
        cell.mail.append(mail)
        if cell.id != runs:
            self.ready(cell)

    def ready(self, cell: Cell) -> None:
        if not cell.fault and cell.id not in self.ring:
            self.ring.append(cell.id)

    def overload(self, cell: Cell, seq: int) -> None:
        cell.uncounted += 1
        self.fail(cell, "overloaded", seq)

    def fail(self, cell: Cell, kind: str, seq: int) -> None:
        if not cell.fault:
            home = None if cell.home is None else cell.home[1].hash
            cell.failed_pinned = home not in (None, self.now.hash)
            cell.fault, cell.fault_seq = kind, seq
            if cell.id in self.ring:
                self.ring.remove(cell.id)

    def drop_if_gone(self, cell: Cell) -> None:
        if cell.state is None and not cell.mail and not cell.inflight and not cell.fault:
            del self.cells[cell.id]

    def forget(self, intent: bytes) -> None:
        """Drop the work of a settled intent. Its last attempt is kept while a receipt may still
        arrive."""
        self.streams.pop(intent, None)
        self.halts.pop(intent, None)
        self.owed = [each for each in self.owed if each.intent != intent]

    def abandon(self, cell: Cell, intents: list[bytes]) -> None:
        for intent in intents:
            self.abandoned[intent] = self.open.pop(intent)
            self.forget(intent)
        cell.inflight = []
        self.marks.abandoned += intents
        for late in list(self.abandoned)[: -self.now.limits["abandoned_intents"]]:
            del self.abandoned[late]
            self.attempts.pop(late, None)


def is_nat(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def is_signed(message: bytes, signature: bytes, key: bytes) -> bool:
    try:
        VerifyKey(key).verify(message, signature)
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True


def without_nothing(**fields: Any) -> Record:
    """J-12: an option that is absent is left out."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def cells_of(ids: Iterable[CellId]) -> list[list[Any]]:
    return [list(id) for id in ids]
