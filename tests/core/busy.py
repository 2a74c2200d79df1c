"""A world in which everything is open that can be, at the end of a frame."""

from __future__ import annotations

from typing import Any

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import PIN
from aos.core.journal.records import Ref
from aos.manifest.load import Loaded
from aos.values.cbor import Value, encode
from tests.core.desk import (
    ARMS,
    DESK,
    EFFECTS,
    INTROSPECT,
    ONCE,
    PAY,
    cell_id,
    nodes,
    receipt_line,
    timer,
    wish,
)
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    air,
    effect,
    emit,
    event_of,
    route,
    state_of,
    workflow,
)

COPY = "t/copy@1"
WIDE = "t/wide@1"
LONG = "n" * 1100
"""Too long to be inlined in a record."""

MAILBOX = 6


def teller(envelope: Envelope) -> Envelope:
    """As ``desk``; a ref of ``key NAME`` is a requested key, and some notes are commands."""
    log = state_of(envelope) or []
    event = event_of(envelope)
    value = event["$value"]
    if event["$tag"] == "Receipt":
        return {"state": encode([*log, receipt_line(value)])}
    if event["$tag"] != "Tell":
        return {"state": encode([*log, f"{value['kind']} {value['seq']}"])}
    note = value["note"]
    if note == "fail":
        return {"fault": {"kind": "told", "message": "to fail", "detail": b"why"}}
    if note == "delete":
        return {"state": None}
    found: Envelope = {
        "state": encode([*log, note]),
        "effects": [_asked(each) for each in value["asks"]],
    }
    if note == "end":
        found["status"] = "completed"
    if note == "emit":
        said: Value = {"key": value["key"] + "-2", "asks": [], "note": LONG}
        found["domain_events"] = [emit("t/Tell@1", said)]
    return found


def _asked(each: Any) -> Envelope:
    ref = each["ref"]
    asked = {"effect": each["effect"], "params": each["params"], "issuer_ref": ref}
    if ref is not None and ref.startswith("key "):
        asked["idempotency_key"] = ref[4:]
    return asked


def copier(envelope: Envelope) -> Envelope:
    log = state_of(envelope) or []
    return {"state": encode([*log, event_of(envelope)["note"][:10]])}


MODULES = {DESK: teller, COPY: copier}


def manifest(version: int) -> Loaded:
    listed = nodes(ARMS)
    (desk,) = (each for each in listed if each["name"] == DESK)
    desk["effects_emitted"] = [*EFFECTS, WIDE]
    more = [
        effect(WIDE, "t/Pay@1", "t/Paid@1", idempotency_scope="world"),
        workflow(COPY, state="t/Log@1", event="t/Tell@1", key_schema="t/Key@1"),
    ]
    routes = [route("t/Tell@1", DESK, "key"), route("t/Tell@1", COPY, "key")]
    limits = {"world": {"mailbox": MAILBOX, "dedup_rows": 50}}
    return air([*listed, *more], routes, version=version, limits=limits)


def busy() -> MemoryWorld:
    """Cells at rest with long states, keys and a status; abandoned work of an older manifest; one
    that waits, with streams, attempts and a parked effect, under a manifest that is no longer in
    force; one that failed, with mail behind; receipts that the core owes for three reasons; mail of
    every kind in the ring, and some of one input in several mailboxes."""
    world = MemoryWorld(manifest(1), MODULES)
    world.blobs.update(world.loaded.modules)
    tell(world, "c", wish(PAY, {"n": 1}, "c1"), wish(PAY, {"n": 2}), run=True)
    assert isinstance(world.attempt(world.open()[1], 2), Admitted)
    tell(world, "c", note="delete", run=True)
    apply(world, 2)
    tell(world, "d", note=LONG + "d", run=True)
    tell(world, "e", wish(PAY, {"n": 3}, "key k"), run=True)
    tell(world, "g", wish(WIDE, {"n": 4}, "key w"), run=True)
    for intent in world.open():
        assert isinstance(world.settle(intent, {"ref": "paid"}), Admitted)
    tell(world, "f", note="end", run=True)
    tell(
        world, "a", wish(PAY, {"n": 5}, "key p"), wish(ONCE, {"n": 6}), timer(world, "t"),
        wish(WIDE, {"n": 7}), run=True,
    )  # fmt: skip
    paid, once, _, wide = world.open()
    for number in (0, 3):
        assert isinstance(world.stream(paid, number), Admitted)
    assert isinstance(world.attempt(once, 1), Admitted)
    assert isinstance(world.attempt(wide, 2), Admitted)
    assert isinstance(world.attempt(wide, 2, "parked", code="exception"), Admitted)
    world.run()
    tell(world, "b", note="fail", run=True)
    for number in range(MAILBOX + 2):
        tell(world, "b", note=f"behind {number}", run=True)
    apply(world, 3, mode=PIN)
    world.seal()
    # From here on mail is left where it is.
    tell(world, "j", wish(INTROSPECT[2], {}), note="emit")
    assert world.step() is not None
    assert isinstance(world.settle(paid, {"ref": LONG}), Admitted)
    assert isinstance(world.stream(wide, 0, attempt=2, payload=encode(LONG)), Admitted)
    assert isinstance(world.control("cancel", intent=wide.intent), Admitted)
    assert isinstance(world.attempt(once, 1, "lost"), Admitted)
    tell(world, "h", note=LONG)
    world.seal()
    return world


def tell(world: MemoryWorld, key: str, *asks: Value, note: str = "", run: bool = False) -> None:
    said: Value = {"key": key, "asks": list(asks), "note": note}
    answer = world.send("t/Tell@1", said, f"submission-{world.state.next_seq}")
    assert isinstance(answer, Admitted), answer
    if run:
        world.run()


def apply(world: MemoryWorld, version: int, **how: Any) -> None:
    loaded = manifest(version)
    answer = world.apply(loaded, MODULES, **how)
    assert isinstance(answer, Admitted), answer
    world.blobs.update(loaded.modules)


def is_busy(world: MemoryWorld) -> None:
    """Assert that the world has everything that the docstring of ``busy`` lists."""
    state = world.state
    mails = [mail for cell in state.cells.active.values() for mail in cell.mailbox]
    assert {owed.debt.value for owed in state.owed} == {"answer", "cancel", "loss"}
    assert {type(each).__name__ for each in mails} == {"EventMail", "ReceiptMail", "StreamMail"}
    roots = [mail.root for mail in mails]
    assert len(set(map(id, roots))) < len(roots)
    assert state.ring
    assert state.abandoned
    assert {each.manifest for each in state.abandoned.values()} != {state.effective.hash}
    assert {each.manifest for each in state.intents.values()} > {state.effective.hash}
    assert set(state.attempts) & set(state.abandoned)
    assert set(state.attempts) & set(state.intents)
    assert state.streams
    assert state.halts
    assert state.world_keys
    assert len(state.submissions) > 10
    assert not state.eras.is_one
    failed = state.cells[cell_id("b")]
    assert (len(failed.mailbox), failed.mail_uncounted) == (MAILBOX, 3)
    assert state.cells[cell_id("e")].keys
    assert state.cells[cell_id("f")].declared == "completed"
    assert isinstance(state.cells[cell_id("d")].state, Ref)
