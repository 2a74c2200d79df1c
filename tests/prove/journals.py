"""A small shop whose journals the audit tests read, and ways to damage them.

An order asks for its card to be charged, waits a while with a timer when that fails, and tells the
customer's ledger once it is paid. Its amount decides the outcome: 0 traps, 13 overflows the
machine's stack, more than 10,000 makes a state that is too long to be inlined in a record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from aos.core.journal.faults import FaultKind
from aos.core.journal.fork import forked_world_id
from aos.core.journal.frame import Frame, Head, Tip, seal
from aos.core.journal.inputs import StartInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Fork, Record
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import Damage
from aos.host.folder.restore import restore
from aos.manifest.load import Loaded
from aos.prove.verify.findings import VerifyReport
from aos.prove.verify.verify import Verifier
from aos.store.memory_store import MemoryStore
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.memory_world import (
    START_NS,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    PythonRunner,
    Trap,
    air,
    ask,
    effect,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

ORDER, LEDGER = "shop/order.step@1", "shop/ledger@1"
CHARGE, TIMER = "shop/card.charge@1", "sys/timer.set@1"
PLACED, PAID = "shop/Placed@1", "shop/Paid@1"
SECOND = 10**9


def order(envelope: Envelope) -> Envelope:
    """Charge; on an error wait two seconds and charge once more; then tell the ledger."""
    state = state_of(envelope) or {"phase": "new", "tries": 0, "amount": 0, "note": ""}
    event = event_of(envelope)
    tag, value = event["$tag"], event["$value"]
    if tag == "placed":
        return _placed(value)
    if value["effect"] == TIMER:
        return _charging({**state, "tries": state["tries"] + 1})
    if value["status"] != "ok":
        if state["tries"] >= 2:
            return {"state": encode({**state, "phase": "refused"}), "status": "failed"}
        due = START_NS + 2 * SECOND
        wait = ask(TIMER, {"deliver_at_ns": due, "key": None}, issuer_ref="retry")
        return {"state": encode({**state, "phase": "waiting"}), "effects": [wait]}
    paid = emit(PAID, {"customer": "c-1", "amount": state["amount"]})
    return {
        "state": encode({**state, "phase": "paid"}),
        "domain_events": [paid],
        "status": "completed",
        "ann": encode({"why": "charged"}),
    }


def _placed(value: dict[str, Any]) -> Envelope:
    amount = value["amount"]
    if amount == 0:
        raise Trap(FaultKind.TRAP, "step: an unreachable instruction is reached")
    if amount == 13:
        raise Trap(FaultKind.STACK, "step: the guest's stack is used up")
    note = "n" * 3000 if amount > 10_000 else ""
    return _charging({"phase": "new", "tries": 1, "amount": amount, "note": note})


def _charging(state: Envelope) -> Envelope:
    params: Value = {"amount": state["amount"], "memo": "m" * 2000 if state["note"] else ""}
    charge = ask(CHARGE, params, idempotency_key=f"charge-{state['tries']}")
    return {"state": encode({**state, "phase": "charging"}), "effects": [charge]}


def ledger(envelope: Envelope) -> Envelope:
    state = state_of(envelope) or {"total": 0, "count": 0}
    event = event_of(envelope)
    total: Value = {"total": state["total"] + event["amount"], "count": state["count"] + 1}
    return {"state": encode(total)}


MODULES = {ORDER: order, LEDGER: ledger}


@cache
def shop(version: int = 1) -> Loaded:
    return shop_with(version)


def shop_with(
    version: int = 1, *, effects: Sequence[str] = (CHARGE, TIMER), **manifest: Any
) -> Loaded:
    """The shop's manifest, with more fields of the manifest node; ``effects`` are those that an
    order may ask for."""
    integer: dict[str, object] = {"int": {}}
    text: dict[str, object] = {"text": {}}
    nodes = [
        schema(PLACED, {"record": {"order_id": text, "amount": integer}}),
        schema(PAID, {"record": {"customer": text, "amount": integer}}),
        schema(
            "shop/OrderEvent@1",
            {
                "variant": {
                    "placed": {"ref": PLACED},
                    "receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                }
            },
        ),
        schema(
            "shop/Order@1",
            {"record": {"phase": text, "tries": integer, "amount": integer, "note": text}},
        ),
        schema("shop/Total@1", {"record": {"total": integer, "count": integer}}),
        schema("shop/Key@1", text),
        schema("shop/Why@1", {"record": {"why": text}}),
        schema("shop/Charge@1", {"record": {"amount": integer, "memo": text}}),
        schema("shop/Charged@1", {"record": {"id": text}}),
        effect(CHARGE, "shop/Charge@1", "shop/Charged@1"),
        workflow(
            ORDER,
            state="shop/Order@1",
            event="shop/OrderEvent@1",
            key_schema="shop/Key@1",
            annotations="shop/Why@1",
            context="sys/WorkflowContext@1",
            effects=effects,
        ),
        workflow(LEDGER, state="shop/Total@1", event=PAID, key_schema="shop/Key@1"),
    ]
    routes = [route(PLACED, ORDER, "order_id"), route(PAID, LEDGER, "customer")]
    return air(nodes, routes, version=version, **manifest)


class Shop(MemoryWorld):
    """A world of the shop, with a start record and its modules among the blobs."""

    def __init__(self, loaded: Loaded | None = None) -> None:
        super().__init__(loaded or shop(), MODULES)
        self.blobs.update(self.loaded.modules)
        host = (("wasmtime", "50.0.1"), ("kernel", "0.1.0"))
        self.kernel.admit(StartInput(host=host), self.stamp())

    def place(self, order_id: str, amount: int, submission_id: str | None = None) -> None:
        self.send(PLACED, {"order_id": order_id, "amount": amount}, submission_id)

    def intent_of(self, order_id: str) -> OpenIntent:
        return next(each for each in self.open() if each.cell == (ORDER, encode(order_id)))

    def charged(self, order_id: str) -> None:
        self.settle(self.intent_of(order_id), {"id": f"ch-{order_id}"})

    def fired(self, order_id: str) -> None:
        self.now_ns = max(self.now_ns, START_NS + 2 * SECOND)
        self.settle(self.intent_of(order_id), {"delivered_at_ns": self.now_ns, "key": None})


def busy_shop() -> Shop:
    """Six orders: paid, paid at the second try, stuck, trapped, out of stack, and a long one."""
    world = Shop()
    world.place("ord-1", 5, "sub-1")
    world.place("ord-2", 7)
    world.run()
    world.charged("ord-1")
    world.fail(world.intent_of("ord-2"), "declined")
    world.run()
    world.place("ord-3", 1)
    world.place("ord-4", 0)
    world.place("ord-5", 13)
    world.place("ord-6", 20_000)
    world.run()
    world.fired("ord-2")
    world.run()
    world.charged("ord-2")
    world.charged("ord-6")
    world.run()
    return world


def store_of(world: MemoryWorld) -> MemoryStore:
    """A store that holds the whole world."""
    store = MemoryStore()
    store.put_blobs(world.blobs)
    groups: list[Sealed] = list(world.sealed)
    for group in groups:
        head = store.head()
        expected = group.frame.header.prev if head is None else head.frame
        store.append([group], Head.of(group.tip).signed(WORLD_KEY), expected=expected)
    return store


def state_at(world: MemoryWorld, seq: int) -> State:
    """The world's state as it was after this record, read from its journal (A-2)."""
    return restore(store_of(world), world.state.tip.world, at=seq)


def verify_frames(
    frames: Iterable[Frame], read: BlobReader, *, head: Head | None = None
) -> VerifyReport:
    """Verify these frames, the first of which begins with the genesis, and return the report.

    Without a ``head``, the verifier does not check where the journal ends.
    """
    verifier = Verifier(read)
    try:
        for frame in frames:
            verifier.take(frame)
    except Damage as problem:
        verifier.unreadable(str(problem))
    verifier.finish(head)
    return verifier.report()


def head_of(frames: Sequence[Frame]) -> Head:
    """The head that the world's key signs over these frames."""
    tip = Tip(world=frames[0].header.world)
    for frame in frames:
        _, tip = seal(entered(tip, frame.records[0]), frame.records, frame.salt)
    return Head.of(tip).signed(WORLD_KEY)


def entered(tip: Tip, first: bytes) -> Tip:
    """Return the tip that a frame with this first record follows: a fork's has the fork's world."""
    try:
        record = from_bytes(first)
    except Damage:
        return tip
    return (
        dataclasses.replace(tip, world=forked_world_id(record)) if isinstance(record, Fork) else tip
    )


def records(frames: Sequence[Frame]) -> Iterator[Record]:
    return (from_bytes(data) for frame in frames for data in frame.records)


def resealed(
    frames: Sequence[Frame], seq: int, change: Callable[[Any], Record | None]
) -> list[Frame]:
    """Change record ``seq`` (None: leave it out) and seal every frame again.

    Anyone who can write the file can do this without a key."""
    tip = Tip(world=frames[0].header.world)
    found = []
    for frame in frames:
        kept = []
        for at, data in enumerate(frame.records, frame.header.first):
            record = change(from_bytes(data)) if at == seq else from_bytes(data)
            if record is not None:
                kept.append(to_bytes(record))
        if kept:
            again, tip = seal(entered(tip, kept[0]), kept, frame.salt)
            found.append(again)
    return found


def with_header(frame: Frame, **fields: Any) -> Frame:
    """The frame with another header, as a store would read it."""
    header = dataclasses.replace(frame.header, **fields)
    return dataclasses.replace(frame, header=header, hash=header.hash())


def replaced(record: Any, **fields: Any) -> Any:
    return dataclasses.replace(record, **fields)


def runner(world: MemoryWorld) -> PythonRunner:
    return PythonRunner(dict(world.runner.modules))


def blob_reader(world: MemoryWorld, *, without: Hash | None = None) -> Callable[[Hash], bytes]:
    def read(hash: Hash, /) -> bytes:
        return world.read(Hash(bytes(32)) if hash == without else hash)

    return read
