"""Frames without a kernel: records that a test names, sealed and signed as a world would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nacl.signing import SigningKey

from aos.core.journal.frame import NO_FRAME, Frame, Head, Tip, seal
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import (
    CellId,
    Control,
    Event,
    Genesis,
    Intent,
    Principal,
    Receipt,
    Record,
    Slot,
    Stamp,
    Start,
    Step,
    slot,
)
from aos.core.pending import Sealed, Settled, Submitted
from aos.core.state.cell import OpenIntent
from aos.manifest.effective import Effect
from aos.store.derived import DerivedRows
from aos.store.lmdb_store import LmdbStore
from aos.store.memory_store import MemoryStore
from aos.values.digests import Hash, content_hash, derive, digest
from aos.values.schema import compile_schemas

WORLD_KEY = SigningKey(bytes([1]) * 32)
OPERATOR = Principal("operator", bytes(SigningKey(bytes([2]) * 32).verify_key))
NONCE = b"n" * 32
WORLD = world_id(NONCE, bytes(WORLD_KEY.verify_key))
CELL: CellId = ("t/shop@1", b"\x01")
NS = 1_700_000_000_000_000_000


EFFECT = Effect(
    name="t/charge@1",
    hash=content_hash(b"charge"),
    params=compile_schemas({"t/Charge@1": {"nat": {}}})["t/Charge@1"],
    receipt=compile_schemas({"t/Charged@1": {"nat": {}}})["t/Charged@1"],
    executor="node",
    executor_module=None,
    executor_entrypoint=None,
    executor_module_hash=None,
    attempts=1,
    base_ms=0,
    cap_ms=0,
    timeout_ms=30_000,
    delivery="at_least_once",
    idempotency_scope="cell",
    takes_secrets=False,
)


def opened(intent: Intent, seq: int, index: int) -> OpenIntent:
    """An intent that record ``seq`` opened, as the kernel's state holds it."""
    return OpenIntent(
        intent=intent.intent,
        cell=CELL,
        workflow_hash=content_hash(b"shop"),
        seq=seq,
        index=index,
        opened_ns=NS + seq,
        manifest=content_hash(b"manifest"),
        effect=EFFECT,
        executors=None,
        params=intent.params,
        params_hash=content_hash(b"params"),
        key=intent.key,
        idempotency_key=intent.intent.hex(),
        issuer_ref=intent.issuer_ref,
    )


def bytes_for(what: str, seq: int, size: int) -> bytes:
    """Return bytes in place of random ones: equal for equal world, record and purpose."""
    return derive("aos test", f"{what} {seq}".encode(), size)


def payload(schema: str, value: bytes) -> Hash:
    return digest("aos/submission/1", schema, content_hash(value))


@dataclass
class Journal:
    """A chain that grows. The same calls make the same bytes."""

    tip: Tip = field(default_factory=lambda: Tip(world=WORLD))
    records: list[Record] = field(default_factory=list)
    made: list[Sealed] = field(default_factory=list)
    _blobs: dict[Hash, bytes] = field(default_factory=dict)
    _replaced: dict[Hash, Hash] = field(default_factory=dict)
    _submissions: list[Submitted] = field(default_factory=list)
    _erased: list[Hash] = field(default_factory=list)

    @property
    def seq(self) -> int:
        """The sequence of the next record."""
        return self.tip.seq + len(self.records) + 1

    def stamp(self) -> Stamp:
        return Stamp(NS + self.seq, bytes_for("entropy", self.seq, 64))

    def add(self, record: Record) -> Record:
        self.records.append(record)
        return record

    def value(self, data: bytes) -> Slot:
        return slot(data, self._blobs)

    def genesis(self) -> Sealed:
        self.add(
            Genesis(
                seq=1,
                stamp=self.stamp(),
                nonce=NONCE,
                world_key=bytes(WORLD_KEY.verify_key),
                operators=(OPERATOR,),
                semantics=1,
                signature=bytes(64),
            )
        )
        return self.seal()

    def event(self, name: str | None = None, value: bytes = b"\x01") -> int:
        seq = self.seq
        self.add(
            Event(
                seq=seq,
                stamp=self.stamp(),
                schema="t/Add@1",
                value=self.value(value),
                submission_id=name,
                to=(CELL,),
                overloaded=(),
            )
        )
        if name is not None:
            self._submissions.append(Submitted(name, seq, payload("t/Add@1", value)))
        return seq

    def start(self) -> int:
        seq = self.seq
        self.add(Start(seq=seq, stamp=self.stamp(), host=(("kernel", "test"),)))
        return seq

    def step(
        self,
        intents: int = 0,
        abandoned: Sequence[Hash] = (),
        state: bytes = b"\x02",
        replaces: bytes | None = None,
    ) -> list[Hash]:
        """A step that opens this many intents; return them. ``replaces`` is the state before."""
        if replaces is not None and replaces != state:
            self._replaced[content_hash(state)] = content_hash(replaces)
        seq = self.seq
        asked = tuple(
            Intent(
                intent=digest("test intent", seq, index),
                effect="t/charge@1",
                effect_hash=content_hash(b"charge"),
                params=b"\x03",
                key=None,
                issuer_ref=None,
            )
            for index in range(intents)
        )
        self.add(
            Step(
                seq=seq,
                cell=CELL,
                entry=(2, 0),
                root=2,
                depth=0,
                state=self.value(state),
                status="waiting",
                events=(),
                intents=asked,
                abandoned=tuple(abandoned),
                ann=None,
                fuel=10,
                pages=1,
                output=content_hash(b"output"),
            )
        )
        return [each.intent for each in asked]

    def receipt(self, intent: Hash, abandoned: Sequence[Hash] = ()) -> int:
        seq = self.seq
        self.add(
            Receipt(
                seq=seq,
                stamp=self.stamp(),
                intent=intent,
                cell=CELL,
                effect="t/charge@1",
                attempt=1,
                status="ok",
                payload=b"\x04",
                payload_schema="t/Charged@1",
                started_ns=NS,
                finished_ns=NS + 1,
                cost_cents=None,
                executor="node",
                key_id=bytes(WORLD_KEY.verify_key),
                signature=bytes_for("signature", seq, 64),
                outcome="delivered",
                problem=None,
                abandoned=tuple(abandoned),
            )
        )
        return seq

    def erase(self, value: Hash) -> int:
        """Add an erasure. As in the kernel, a value that comes again later in the frame stays."""
        seq = self.seq
        self.add(
            Control(
                seq=seq,
                stamp=self.stamp(),
                action=ERASE,
                cell=None,
                intent=None,
                value=value,
                principal=OPERATOR.name,
                serial=0,
                signature=bytes_for("signature", seq, 64),
            )
        )
        self._blobs.pop(value, None)
        self._erased.append(value)
        return seq

    def seal(self) -> Sealed:
        """All records since the last seal, as one frame."""
        intents: list[OpenIntent] = []
        settled: list[Settled] = []
        abandoned: list[Hash] = []
        for record in self.records:
            if isinstance(record, Step):
                intents += [opened(each, record.seq, at) for at, each in enumerate(record.intents)]
                abandoned += record.abandoned
            if isinstance(record, Receipt):
                settled.append(Settled(record.intent, record.seq, receipt_name(record)))
                abandoned += record.abandoned
        salt = bytes_for("salt", self.tip.seq + 1, 32)
        frame, self.tip = seal(self.tip, [to_bytes(each) for each in self.records], salt)
        made = Sealed(
            frame=frame,
            tip=self.tip,
            blobs=dict(self._blobs),
            replaced=dict(self._replaced),
            opened_intents=tuple(intents),
            settled=tuple(settled),
            abandoned=tuple(abandoned),
            submissions=tuple(self._submissions),
            erased=tuple(each for each in self._erased if each not in self._blobs),
        )
        self.made.append(made)
        self.records.clear()
        self._blobs.clear()
        self._replaced.clear()
        self._submissions.clear()
        self._erased.clear()
        return made

    def head(self) -> Head:
        return Head.of(self.tip).signed(WORLD_KEY)

    @property
    def frames(self) -> list[Frame]:
        return [each.frame for each in self.made]


def receipt_name(record: Receipt) -> Hash:
    return digest("aos/receipt-id/1", record.intent, record.key_id, record.signature)


AnyStore = LmdbStore | MemoryStore


def put(store: AnyStore, journal: Journal, *group: Sealed) -> None:
    """Append what ``journal`` sealed last, or these, with the head over it."""
    whole: Sequence[Sealed] = group or journal.made[-1:]
    store.append(whole, journal.head(), expected=whole[0].frame.header.prev)


def grown(store: AnyStore, frames: int, *, value: bytes = b"\x01") -> Journal:
    """A store with a genesis and this many frames of one event each, and the journal of it."""
    journal = Journal()
    journal.genesis()
    put(store, journal)
    for _ in range(frames):
        journal.event(value=value)
        journal.seal()
        put(store, journal)
    assert store.head() == journal.head()
    return journal


def world(folder: Path, frames: int = 3) -> Journal:
    """A closed store in ``folder`` with this many frames after the genesis."""
    with LmdbStore.create(folder) as store:
        return grown(store, frames)


def derived_rows(frames: Iterable[Frame]) -> DerivedRows:
    """The rows that these frames make, which begin at record 1 (ST-31).

    Raises:
        Damage: A record cannot be read or cannot follow.
    """
    rows = DerivedRows()
    for frame in frames:
        for data in frame.records:
            rows.take(from_bytes(data))
    return rows


__all__ = ["NO_FRAME", "Journal", "derived_rows", "grown", "put", "world"]
