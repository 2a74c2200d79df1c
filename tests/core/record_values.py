"""Records to test with: one of each kind with everything in it, and strategies for all of them."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.records import (
    Attempt,
    Batch,
    Control,
    Emitted,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    Intent,
    KernelReceipt,
    Manifest,
    Migrated,
    Principal,
    Receipt,
    Record,
    Ref,
    Snapshot,
    Stamp,
    Start,
    Step,
    Stream,
)
from aos.core.journal.vocabulary import (
    ACTIONS,
    CELL_STATUSES,
    CONTROL_STATUSES,
    GOVERNANCE_ACTIONS,
    MODES,
    OPEN_WORK,
    OUTCOMES,
    PHASES,
    STATUSES,
)
from aos.values.digests import Hash, content_hash

STAMP = Stamp(1_700_000_000_000_000_000, bytes(range(64)))
REF = Ref(content_hash(b"a long value"), 5000)
A, B = content_hash(b"a"), content_hash(b"b")
CELL = ("t/shop@1", b"\x61a")
OTHER = ("t/stock@1", b"")

FULL: Final[tuple[Record, ...]] = (
    Genesis(
        seq=1,
        stamp=STAMP,
        nonce=b"nonce",
        world_key=bytes(32),
        operators=(Principal("ann", bytes(32)), Principal("bob", b"\x01" * 32)),
        semantics=1,
        signature=bytes(64),
    ),
    Start(seq=2, stamp=STAMP, host=(("kernel", "0.1.0"), ("target", "x86_64-linux"))),
    Manifest(
        seq=3,
        stamp=STAMP,
        document=REF,
        principal="ann",
        serial=0,
        signature=b"\x02" * 64,
        mode="migrate",
        leaves=("t/a@1", "t/b@1"),
        migrated=(Migrated(workflow="t/shop@1", root=A, count=7),),
        proposal=2,
    ),
    Event(
        seq=4,
        stamp=STAMP,
        schema="t/Order@1",
        value=b"\xa0",
        submission_id="order-1",
        to=(CELL, OTHER),
        overloaded=(("t/full@1", b"\x01"),),
        kept=(OTHER,),
    ),
    Step(
        seq=5,
        cell=CELL,
        entry=(4, 0),
        root=4,
        depth=0,
        state=REF,
        status="waiting",
        events=(
            Emitted(schema="t/Sold@1", value=REF, to=(OTHER,), overloaded=(CELL,), unknown=(CELL,)),
        ),
        intents=(
            Intent(
                intent=A,
                effect="t/charge@1",
                effect_hash=B,
                params=b"\x01",
                key=b"\x00key",
                issuer_ref="ref",
            ),
        ),
        abandoned=(A, B),
        ann=b"\xf6",
        fuel=12_345,
        pages=17,
        output=B,
        under=3,
        fits=4,
    ),
    Faulted(
        seq=6,
        cell=OTHER,
        entry=(5, 0),
        root=4,
        depth=1,
        fault=Fault(kind=FaultKind.GUEST, message="out of stock", detail=b"\x01"),
        fuel=0,
        pages=1,
        output=A,
        under=3,
    ),
    Receipt(
        seq=7,
        stamp=STAMP,
        intent=A,
        cell=CELL,
        effect="t/charge@1",
        attempt=1,
        status="error",
        payload=REF,
        payload_schema="sys/EffectError@1",
        started_ns=1,
        finished_ns=2,
        cost_cents=3,
        executor="shop",
        key_id=bytes(32),
        signature=bytes(64),
        outcome="rejected",
        problem="$: no arm",
        abandoned=(B,),
        batch=Batch(index=1, size=3, path=(A, B)),
    ),
    KernelReceipt(
        seq=8,
        intent=A,
        cell=CELL,
        effect="sys/timer.set@1",
        status="canceled",
        payload=REF,
        payload_schema="sys/EffectError@1",
        root=4,
        depth=1,
        by=B,
        outcome="faulted",
        problem="no arm",
        abandoned=(B,),
    ),
    Stream(
        seq=9,
        stamp=STAMP,
        intent=A,
        cell=CELL,
        effect="t/charge@1",
        attempt=2,
        frame_seq=7,
        frame_kind="token",
        payload=b"\x01",
        payload_ref=B,
        executor="shop",
        key_id=bytes(32),
        signature=bytes(64),
    ),
    Attempt(
        seq=10,
        stamp=STAMP,
        intent=A,
        cell=CELL,
        attempt=2,
        phase="parked",
        problem="KeyError: 'id'",
        code="exception",
    ),
    Control(
        seq=11,
        stamp=STAMP,
        action="retry",
        cell=CELL,
        intent=A,
        value=B,
        principal="ann",
        serial=0,
        signature=b"\x02" * 64,
        status="completed",
        payload=REF,
        why="it waits for an order that is gone",
        restamp=True,
        dropped=3,
        abandoned=(A, B),
    ),
    Snapshot(seq=12, stamp=STAMP, at=9, frame=A, document=Ref(B, 700)),
    Fork(
        seq=13,
        stamp=STAMP,
        parent=A,
        at=12,
        frame=B,
        nonce=b"nonce",
        world_key=bytes(32),
        operators=(Principal("ann", bytes(32)),),
        open_work="cancel",
        erased=(A, B),
        cut=A,
        signature=bytes(64),
    ),
    Governance(
        seq=14,
        stamp=STAMP,
        action="propose",
        principal="ann",
        signature=bytes(64),
        proposal=9,
        serial=0,
        base=A,
        document=REF,
        patch=Ref(B, 90),
        mode="pin",
        leaves=("t/a@1",),
        report=REF,
        seen=B,
        note="a new price",
    ),
)
"""One of each kind, every option present."""

EMPTY: Final[tuple[Record, ...]] = (
    Genesis(
        seq=1, stamp=STAMP, nonce=b"", world_key=b"", operators=(), semantics=0, signature=b""
    ),
    Start(seq=1, stamp=Stamp(0, bytes(64)), host=()),
    Manifest(seq=1, stamp=STAMP, document=Ref(A, 0), principal="", serial=0, signature=b""),
    Event(
        seq=1, stamp=STAMP, schema="", value=b"", submission_id=None, to=(), overloaded=()
    ),
    Step(
        seq=1,
        cell=("", b""),
        entry=(0, 0),
        root=0,
        depth=0,
        state=None,
        status="running",
        events=(Emitted(schema="", value=b"", to=(), overloaded=()),),
        intents=(
            Intent(intent=A, effect="", effect_hash=A, params=b"", key=None, issuer_ref=None),
        ),
        abandoned=(),
        ann=None,
        fuel=0,
        pages=0,
        output=A,
    ),
    Faulted(
        seq=1,
        cell=("", b""),
        entry=(0, 0),
        root=0,
        depth=0,
        fault=Fault(kind=FaultKind.TRAP, message=""),
        fuel=0,
        pages=0,
        output=None,
    ),
    Receipt(
        seq=1,
        stamp=STAMP,
        intent=A,
        cell=("", b""),
        effect="",
        attempt=0,
        status="ok",
        payload=b"",
        payload_schema=None,
        started_ns=0,
        finished_ns=0,
        cost_cents=None,
        executor="",
        key_id=b"",
        signature=b"",
        outcome="delivered",
        problem=None,
        abandoned=(),
    ),
    KernelReceipt(
        seq=1,
        intent=A,
        cell=("", b""),
        effect="",
        status="ok",
        payload=b"",
        payload_schema=None,
        root=0,
        depth=0,
        by=None,
        outcome="delivered",
        problem=None,
        abandoned=(),
    ),
    Stream(
        seq=1,
        stamp=STAMP,
        intent=A,
        cell=("", b""),
        effect="",
        attempt=0,
        frame_seq=0,
        frame_kind="",
        payload=b"",
        payload_ref=None,
        executor="",
        key_id=b"",
        signature=b"",
    ),
    Attempt(seq=1, stamp=STAMP, intent=A, cell=("", b""), attempt=0, phase="begun", problem=None),
    Control(
        seq=1,
        stamp=STAMP,
        action="retry",
        cell=None,
        intent=None,
        value=None,
        principal="",
        serial=0,
        signature=b"",
    ),
    Snapshot(seq=1, stamp=STAMP, at=0, frame=A, document=Ref(A, 0)),
    Fork(
        seq=1,
        stamp=STAMP,
        parent=A,
        at=0,
        frame=A,
        nonce=b"",
        world_key=b"",
        operators=(),
        open_work="keep",
        erased=(),
        cut=None,
        signature=b"",
    ),
    Governance(seq=1, stamp=STAMP, action="withdraw", principal="", signature=b""),
)  # fmt: skip
"""One of each kind, every option absent."""


# Few characters, each chosen to hurt: NUL, a letter beyond ASCII, one beyond the BMP.
texts = st.text(st.sampled_from("a$\0 \né😀"), max_size=30) | st.just("x" * 300)
nats = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 2**32, 2**63, 2**64 - 1])
blobs = st.binary(max_size=40) | st.just(bytes(1024))
hashes = st.binary(min_size=32, max_size=32).map(Hash)
refs = st.builds(Ref, hashes, nats)
slots = blobs | refs
stamps = st.builds(Stamp, nats, st.binary(min_size=64, max_size=64))
cells = st.tuples(texts, blobs)
entries = st.tuples(nats, nats)


def some(item: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=3).map(tuple)


def maybe(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | item


cell_statuses = st.sampled_from(CELL_STATUSES)
receipt_statuses = st.sampled_from(STATUSES)
outcomes = st.sampled_from(OUTCOMES)
phases = st.sampled_from(PHASES)
actions = st.sampled_from(ACTIONS)
control_statuses = st.sampled_from(CONTROL_STATUSES)
modes = st.sampled_from(MODES)
open_work = st.sampled_from(OPEN_WORK)
faults = st.builds(
    Fault, kind=st.sampled_from(FaultKind), message=texts, detail=maybe(blobs)
)  # fmt: skip
genesis = st.builds(
    Genesis, seq=nats, stamp=stamps, nonce=blobs, world_key=blobs,
    operators=some(st.builds(Principal, texts, blobs)), semantics=nats, signature=blobs,
)  # fmt: skip
starts = st.builds(
    Start, seq=nats, stamp=stamps,
    host=st.dictionaries(texts, texts, max_size=4).map(lambda host: tuple(sorted(host.items()))),
)  # fmt: skip
manifests = st.builds(
    Manifest, seq=nats, stamp=stamps, document=refs, principal=texts, serial=nats, signature=blobs,
    mode=maybe(modes), leaves=some(texts),
    migrated=some(st.builds(Migrated, workflow=texts, root=hashes, count=nats)),
    proposal=maybe(nats),
)  # fmt: skip
events = st.builds(
    Event, seq=nats, stamp=stamps, schema=texts, value=slots, submission_id=maybe(texts),
    to=some(cells), overloaded=some(cells), kept=some(cells),
)  # fmt: skip
emitted = st.builds(
    Emitted, schema=texts, value=slots, to=some(cells), overloaded=some(cells),
    unknown=some(cells), kept=some(cells),
)  # fmt: skip
intents = st.builds(
    Intent, intent=hashes, effect=texts, effect_hash=hashes, params=slots, key=maybe(texts | blobs),
    issuer_ref=maybe(texts),
)  # fmt: skip
steps = st.builds(
    Step, seq=nats, cell=cells, entry=entries, root=nats, depth=nats, state=maybe(slots),
    status=cell_statuses, events=some(emitted), intents=some(intents), abandoned=some(hashes),
    ann=maybe(slots), fuel=nats, pages=nats, output=hashes, under=maybe(nats), fits=maybe(nats),
)  # fmt: skip
faulted = st.builds(
    Faulted, seq=nats, cell=cells, entry=entries, root=nats, depth=nats, fault=faults, fuel=nats,
    pages=nats, output=maybe(hashes), under=maybe(nats),
)  # fmt: skip
receipts = st.builds(
    Receipt, seq=nats, stamp=stamps, intent=hashes, cell=cells, effect=texts, attempt=nats,
    status=receipt_statuses, payload=slots, payload_schema=maybe(texts), started_ns=nats,
    finished_ns=nats, cost_cents=maybe(nats), executor=texts, key_id=blobs, signature=blobs,
    outcome=outcomes, problem=maybe(texts), abandoned=some(hashes),
    batch=maybe(st.builds(Batch, index=nats, size=nats, path=some(hashes))),
)  # fmt: skip
kernel_receipts = st.builds(
    KernelReceipt, seq=nats, intent=hashes, cell=cells, effect=texts, status=receipt_statuses,
    payload=slots, payload_schema=maybe(texts), root=nats, depth=nats, by=maybe(hashes),
    outcome=outcomes, problem=maybe(texts), abandoned=some(hashes),
)  # fmt: skip
streams = st.builds(
    Stream, seq=nats, stamp=stamps, intent=hashes, cell=cells, effect=texts, attempt=nats,
    frame_seq=nats, frame_kind=texts, payload=slots, payload_ref=maybe(hashes), executor=texts,
    key_id=blobs, signature=blobs,
)  # fmt: skip
attempts = st.builds(
    Attempt, seq=nats, stamp=stamps, intent=hashes, cell=cells, attempt=nats, phase=phases,
    problem=maybe(texts), code=maybe(texts),
)  # fmt: skip
controls = st.builds(
    Control, seq=nats, stamp=stamps, action=actions, cell=maybe(cells), intent=maybe(hashes),
    value=maybe(hashes), principal=texts, serial=nats, signature=blobs,
    status=maybe(control_statuses), payload=maybe(slots), why=maybe(texts), dropped=maybe(nats),
    abandoned=some(hashes),
)  # fmt: skip
forks = st.builds(
    Fork,
    seq=nats,
    stamp=stamps,
    parent=hashes,
    at=nats,
    frame=hashes,
    nonce=st.binary(max_size=40),
    world_key=st.binary(max_size=40),
    operators=st.lists(st.builds(Principal, texts, st.binary(max_size=40)), max_size=2).map(tuple),
    open_work=open_work,
    erased=st.lists(hashes, max_size=2).map(tuple),
    cut=st.none() | hashes,
    signature=st.binary(max_size=70),
)
governance = st.builds(
    Governance, seq=nats, stamp=stamps, action=st.sampled_from(GOVERNANCE_ACTIONS),
    principal=texts, signature=blobs, proposal=maybe(nats), serial=maybe(nats), base=maybe(hashes),
    document=maybe(refs), patch=maybe(refs), mode=maybe(modes), leaves=some(texts),
    report=maybe(refs), seen=maybe(hashes), note=maybe(texts),
)  # fmt: skip
snapshots = st.builds(Snapshot, seq=nats, stamp=stamps, at=nats, frame=hashes, document=refs)
records: Final[st.SearchStrategy[Record]] = st.one_of(
    genesis, starts, manifests, events, steps, faulted, receipts, kernel_receipts, streams,
    attempts, snapshots, forks, controls, governance,
)  # fmt: skip
