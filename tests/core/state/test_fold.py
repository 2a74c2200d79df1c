"""A record that cannot follow is damage, and never anything worse (K-2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from aos.core.journal.frame import Tip
from aos.core.journal.records import Event, Genesis, Manifest, Receipt, Record, Start, Step
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.errors import Damage
from aos.values.digests import Hash, content_hash
from tests.core.decide.test_effects import BUYER, PAID, buyers
from tests.core.decide.test_isolation import same
from tests.core.decide.test_steps import COUNTER, add, counters, relay
from tests.memory_world import Envelope, MemoryWorld, ask, cbor, event_of


def module(envelope: Envelope) -> Envelope:
    """Asks, deletes itself, traps or logs, as it is told."""
    event = event_of(envelope)
    n = event["$value"].get("n")
    if n == 0:
        return {"state": None}
    if n == 9:
        return {"fault": {"kind": "nine", "message": "9"}}
    asked = [] if n is None else [ask("t/pay@1", {"n": n}, idempotency_key="k")]
    return {"state": cbor(["x"]), "effects": asked, "status": "completed"}


def shopping() -> MemoryWorld:
    """A world whose journal has every kind of record and every outcome of a receipt but one."""
    world = buyers(module, limits={"world": {"mailbox": 2}})
    for key, n in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("a", 9)]:
        world.send("t/Buy@1", {"key": key, "n": n}, submission_id=f"{key}{n}")
        world.run()
    a, b, c, d, e = world.open()
    world.settle(a, PAID)
    world.settle(b, {"ref": 5})
    world.settle(c, PAID)
    world.send("t/Buy@1", {"key": "d", "n": 0})
    world.run()
    world.settle(d, PAID)
    for _ in range(3):
        world.send("t/Buy@1", {"key": "e", "n": 5})
    world.settle(e, PAID)
    world.run()
    return world


def journal(world: MemoryWorld) -> list[Record]:
    return world.records()


def test_the_journal_has_every_kind_and_outcome() -> None:
    records = journal(shopping())
    kinds = {type(record).__name__ for record in records}
    assert kinds == {"Genesis", "Manifest", "Event", "Step", "Faulted", "Receipt"}
    outcomes = {record.outcome for record in records if isinstance(record, Receipt)}
    assert outcomes == {"delivered", "faulted", "abandoned"}
    assert any(record.overloaded for record in records if isinstance(record, Event))


# Values that a record may hold and this one should not.
ODD: dict[str, list[Any]] = {
    "seq": [0, 1, 2, 10**6],
    "cell": [("t/seller@1", b""), (BUYER, b"\x61a"), (BUYER, b"\x61b"), (BUYER, b"")],
    "entry": [(0, 0), (3, 0), (3, 1)],
    "root": [0, 3],
    "depth": [1, 99],
    "to": [(), ((BUYER, b"\x61z"),), (("t/seller@1", b""),), ((BUYER, b"\x61a"),) * 5],
    "overloaded": [((BUYER, b"\x61z"),), (("t/seller@1", b""),), ((BUYER, b"\x61a"),)],
    "kept": [(), ((BUYER, b"\x61z"),), ((BUYER, b"\x61a"),)],
    "intent": [content_hash(b"another")],
    "abandoned": [(), (content_hash(b"another"),)],
    "outcome": ["delivered", "rejected", "faulted", "abandoned", "overloaded"],
    "state": [None, b"\x80"],
    "status": ["running", "waiting", "completed", "failed"],
    "semantics": [0, 2],
    "nonce": [b""],
    "serial": [5],
    "submission_id": [None, "", "a1"],
    "problem": [None, "it is wrong"],
}


def altered(record: Record, others: list[Record]) -> Iterator[Record]:
    """``record`` with each field replaced: by odd values and by those of other records."""
    for each in fields(record):
        now = getattr(record, each.name)
        values = [getattr(other, each.name, now) for other in others] + ODD.get(each.name, [])
        if each.name == "intents":
            values += [now * 2] + [
                (replace(intent, effect="t/nothing@1", intent=content_hash(b"x")),)
                for intent in now
            ]
        for value in values:
            if value != now:
                yield replace(record, **{each.name: value})


def test_any_record_folds_or_is_damage() -> None:
    world = shopping()
    records = journal(world)

    def state_before(index: int) -> State:
        state = State(tip=Tip(world=world.state.world))
        for record in records[:index]:
            fold(state, record, world.read)
        return state

    damaged = 0
    for index, record in enumerate(records):
        others = [records[0], records[1], *records[max(0, index - 2) : index + 3]]
        for wrong in [
            *altered(record, others),
            *(other for other in others if other is not record),
        ]:
            state = state_before(index)
            try:
                fold(state, wrong, world.read)
            except Damage as problem:
                assert "record" in str(problem)  # noqa: PT017  # said of thousands, not of one
                damaged += 1
    whole = state_before(len(records))
    whole.tip = world.state.tip
    same(world.state, whole)
    assert damaged > 500


def first(records: list[Record], kind: type) -> Any:
    return next(record for record in records if isinstance(record, kind))


def refolded(world: MemoryWorld, old: Record, new: Record) -> str:
    """Fold the journal with ``new`` in the place of ``old``; return the message of the damage."""
    state = State(tip=Tip(world=world.state.world))
    for record in journal(world)[: old.seq - 1]:
        fold(state, record, world.read)
    with pytest.raises(Damage) as caught:
        fold(state, new, world.read)
    return str(caught.value)


def test_the_damage_says_what_cannot_be() -> None:
    world = shopping()
    records = journal(world)
    genesis, manifest = first(records, Genesis), first(records, Manifest)
    event, step, receipt = (first(records, kind) for kind in (Event, Step, Receipt))
    stamp = event.stamp
    start = Start(seq=1, stamp=stamp, host=())
    cases: list[tuple[Record, Record, str]] = [
        (genesis, start, "record 1 is of kind start: record 1 alone is a genesis"),
        (manifest, replace(genesis, seq=2), "record 2 is of kind genesis: record 1 alone"),
        (genesis, replace(genesis, semantics=2), "semantics: expected 1, found 2"),
        (manifest, replace(event, seq=2), "record 2 is of kind event, and no manifest came before"),
        (manifest, replace(manifest, serial=1), "manifest serial: expected 0, found 1"),
        (event, replace(event, seq=4), "record 3 calls itself record 4"),
        (event, replace(event, to=(("t/seller@1", b""),)), "is for t/seller@1, which the manifest"),
        (event, replace(event, schema="t/Key@1"), "delivers t/Key@1 to t/buyer@1, which takes no"),
        (step, replace(step, entry=(3, 1)), "takes mail (3, 1), where (3, 0) is first"),
        (step, replace(step, depth=1), "names record 3 as its cause, 1 events away"),
        (step, replace(step, abandoned=(Hash(bytes(32)),)), "abandons intents and keeps their"),
        (step, replace(step, intents=step.intents * 2), "opens an intent that it cannot"),
        (receipt, replace(receipt, cell=(BUYER, b"\x61b")), "settles an intent that is not open"),
        (receipt, replace(receipt, outcome="abandoned"), "an intent that was not abandoned"),
    ]  # fmt: skip
    for old, new, message in cases:
        assert message in refolded(world, old, new)


def test_a_cascade_folds_to_what_was_computed() -> None:
    world = counters(relay)
    world.send("t/Add@1", add("a", 5))
    world.run()
    state = State(tip=Tip(world=world.state.world))
    for record in journal(world):
        fold(state, record, world.read)
    assert state.cells[COUNTER, b"\x61a"].last_seq == world.state.next_seq - 1
