"""The rows derived from the records equal the rows stored with them (ST-31, ST-33)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.records import KernelReceipt
from aos.core.pending import receipt_digest
from aos.errors import Damage
from aos.store.derived import DerivedRows, differences
from aos.store.memory_store import MemoryStore
from aos.store.rows import ErasedRow, IntentRow, SubmissionRow
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from tests.memory_world import (
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    air,
    ask,
    effect,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)
from tests.store.journal import CELL, Journal, derived_rows, put

SHOP = "t/shop@1"
KINDS = [(False, False), (False, True), (False, True), (True, False), (True, False), (True, True)]
"""(settled, abandoned) of the six intents of ``lived``."""


def shop(envelope: Envelope) -> Envelope:
    """Two charges for each order; deleted by an order for nothing, failed by a receipt."""
    event = event_of(envelope)
    if event["$tag"] == "order" and event["$value"]["amount"] == 0:
        return {"state": None}
    state = encode({"seen": 1 + (state_of(envelope) or {"seen": 0})["seen"]})
    if event["$tag"] != "order":
        return {"state": state}
    charge = ask("t/charge@1", {"amount": event["$value"]["amount"]})
    return {"state": state, "effects": [charge, charge]}


def orders() -> MemoryWorld:
    text: dict[str, object] = {"text": {}}
    nat: dict[str, object] = {"nat": {}}
    loaded = air(
        [
            schema("t/Order@1", {"record": {"id": text, "amount": nat}}),
            schema("t/Charge@1", {"record": {"amount": nat}}),
            schema("t/State@1", {"record": {"seen": nat}}),
            schema("t/Key@1", text),
            schema(
                "t/In@1",
                {
                    "variant": {
                        "order": {"ref": "t/Order@1"},
                        "settled": {"ref": "sys/EffectReceiptEnvelope@1"},
                    }
                },
            ),
            effect("t/charge@1", "t/Charge@1", "t/Charge@1"),
            workflow(
                SHOP,
                state="t/State@1",
                event="t/In@1",
                effects=["t/charge@1"],
                key_schema="t/Key@1",
            ),
        ],
        [route("t/Order@1", SHOP, "id")],
    )
    return MemoryWorld(loaded, {SHOP: shop})


def order(world: MemoryWorld, id: str, amount: int, submission_id: str | None = None) -> None:
    world.send("t/Order@1", {"id": id, "amount": amount}, submission_id)


def lived() -> MemoryWorld:
    """A world with intents that are open, settled, abandoned, and settled after that."""
    world = orders()
    for name in ("a", "b", "c"):
        order(world, name, 5, f"first {name}")
    world.run()
    world.settle(world.open()[0], {"amount": 5})
    world.run()
    order(world, "b", 0, "delete b")
    world.run()
    world.settle(world.open()[-1], {"wrong": True})
    world.run()
    world.settle(next(iter(world.state.abandoned.values())), {"amount": 5})
    world.run()
    return world


def stored(world: MemoryWorld) -> MemoryStore:
    store = MemoryStore()
    for sealed in world.sealed:
        head = Head.of(sealed.tip).signed(WORLD_KEY)
        store.append([sealed], head, expected=sealed.frame.header.prev)
    return store


def test_a_real_world_stores_what_its_records_say() -> None:
    """ST-31."""
    world = lived()
    store = stored(world)

    rows = derived_rows(store.frames())

    assert dict(store.intents()) == rows.intents
    assert {row.submission_id: row for row in store.submissions()} == rows.submissions
    assert list(differences(store, rows)) == []
    kinds = [(row.settled_seq is not None, row.abandoned) for row in rows.intents.values()]
    assert sorted(kinds) == KINDS
    assert len(rows.submissions) == 4
    assert rows.seq == world.state.tip.seq


@pytest.fixture
def small() -> tuple[MemoryStore, Journal]:
    store = MemoryStore()
    journal = Journal()
    journal.genesis()
    journal.event("name")
    first, _ = journal.step(intents=2)
    journal.seal()
    journal.receipt(first)
    journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)
    return store, journal


def test_each_difference_is_told(small: tuple[MemoryStore, Journal]) -> None:
    """ST-33."""
    store, _ = small
    first, second = derived_rows(store.frames()).intents
    extra = content_hash(b"extra")

    def told(
        intents: Mapping[Hash, IntentRow] = MappingProxyType({}),
        submissions: Mapping[str, SubmissionRow] = MappingProxyType({}),
        gone: Hash | str = "",
    ) -> str:
        other = MemoryStore()
        other._head = store._head
        other._intents = {
            hash: row for hash, row in {**store._intents, **intents}.items() if hash != gone
        }
        other._submissions = {
            name: row for name, row in {**store._submissions, **submissions}.items() if name != gone
        }
        return "\n".join(differences(other, derived_rows(store.frames())))

    assert told() == ""
    assert told(gone=second) == (
        f"intent {hash_text(second)} has no row: expected opened by record 3 as number 1"
    )
    assert told({extra: IntentRow(opened_seq=3, index=2)}) == (
        f"intent {hash_text(extra)} has a row, and record 3 opens none"
    )
    assert told({extra: IntentRow(opened_seq=5, index=0)}) == (
        f"intent {hash_text(extra)} has a row that names record 5"
    )
    assert told({first: IntentRow(opened_seq=3, index=0)}) == (
        f"intent {hash_text(first)}: expected opened by record 3 as number 0, settled by record 4, "
        "found opened by record 3 as number 0"
    )
    assert told({second: IntentRow(opened_seq=3, index=1, abandoned=True)}) == (
        f"intent {hash_text(second)}: expected opened by record 3 as number 1, "
        "found opened by record 3 as number 1, abandoned"
    )
    name = derived_rows(store.frames()).submissions["name"]
    assert told(gone="name") == "submission 'name' has no row: expected record 2"
    assert told(submissions={"other": replace(name, submission_id="other")}) == (
        "submission 'other' has a row, and no record came under it"
    )
    assert told(submissions={"name": replace(name, payload=extra)}) == (
        f"submission 'name': expected record 2 and payload {hash_text(name.payload)}, "
        f"found record 2 and payload {hash_text(extra)}"
    )


def test_a_world_may_be_verified_while_it_runs(small: tuple[MemoryStore, Journal]) -> None:
    """ST-33: rows that newer records touched are left out."""
    store, journal = small
    rows = derived_rows(store.frames())
    _, second = rows.intents
    journal.event("name", b"\x05")
    journal.event("new")
    third, fourth = journal.step(intents=2)
    journal.receipt(second)
    journal.receipt(third, abandoned=[fourth])
    journal.seal()
    put(store, journal)

    assert list(differences(store, rows)) == []
    assert store.submission("name") == SubmissionRow(
        submission_id="name", seq=5, payload=journal.made[-1].submissions[0].payload
    )
    (intent,) = (hash for hash, row in store.intents() if row.settled_seq == 8)
    store._intents[intent] = store._intents[intent]._replace(index=7)
    assert len(list(differences(store, rows))) == 1


ONE, TWO, THREE = (bytes([n]) * 2000 for n in (1, 2, 3))


def with_erased() -> tuple[MemoryStore, Journal]:
    """One value erased for good, one that came again, one that a record erased twice."""
    store, journal = MemoryStore(), Journal()
    journal.genesis()
    for value in (ONE, TWO, THREE):
        journal.event(value=value)
        journal.erase(content_hash(value))
        journal.seal()
    journal.event(value=TWO)
    journal.erase(content_hash(THREE))
    journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)
    return store, journal


def test_rows_of_erased_values_are_what_the_records_say() -> None:
    """ST-31, ST-33: whether the bytes came again, records do not tell, and the store does."""
    store, journal = with_erased()
    rows = derived_rows(store.frames())

    assert rows.erased == {content_hash(ONE): 3, content_hash(TWO): 5, content_hash(THREE): 9}
    assert {hash: row.seq for hash, row in store.erasures()} == {
        content_hash(ONE): 3,
        content_hash(THREE): 9,
    }
    assert len(rows) == 3
    assert list(differences(store, rows)) == []

    journal.event(value=ONE)
    journal.erase(content_hash(TWO))
    journal.erase(content_hash(THREE))
    journal.seal()
    put(store, journal)
    assert list(differences(store, rows)) == [], (
        "rows of an earlier state remain valid after more records"
    )
    assert list(differences(store, derived_rows(store.frames()))) == []


def test_each_difference_of_an_erased_value_is_told() -> None:
    """ST-33."""
    store, _ = with_erased()
    rows = derived_rows(store.frames())
    one, two, three = map(content_hash, (ONE, TWO, THREE))
    never = content_hash(b"never erased")
    del store._erased[one]
    store._erased[two] = ErasedRow(seq=5, size=2000)
    store._erased[three] = ErasedRow(seq=7, size=2000)
    store._erased[never] = ErasedRow(seq=2, size=1)
    store._erased[content_hash(b"newer")] = ErasedRow(seq=10, size=1)

    assert set(differences(store, rows)) == {
        f"value {hash_text(one)} has no row: expected erased by record 3",
        f"value {hash_text(two)} is erased by record 5, and its bytes are there",
        f"value {hash_text(three)}: expected erased by record 9, found by record 7",
        f"value {hash_text(never)} has a row, and record 2 does not erase it",
        f"value {hash_text(content_hash(b'newer'))} has a row that names record 10",
    }


def test_a_receipt_that_the_kernel_made_settles_its_intent() -> None:
    """ST-31."""
    journal = Journal()
    (intent,) = journal.step(intents=1)
    (opens,) = journal.records
    receipt = KernelReceipt(
        seq=2, intent=intent, cell=CELL, effect="t/charge@1", status="canceled", payload=b"\xf6",
        payload_schema=None, root=1, depth=0, by=None, outcome="delivered", problem=None,
        abandoned=(),
    )  # fmt: skip
    rows = DerivedRows()
    rows.take(opens)
    rows.take(receipt)

    row = rows.intents[intent]
    assert (row.settled_seq, row.receipt_digest) == (2, receipt_digest(receipt))


def test_records_that_cannot_follow_are_damage() -> None:
    journal = Journal()
    (intent,) = journal.step(intents=1)
    journal.receipt(intent)
    opens, settles = journal.records
    rows = DerivedRows()
    with pytest.raises(Damage, match="record 1 calls itself record 2"):
        rows.take(settles)
    with pytest.raises(Damage, match=r"record 1 ends .*, which no record opened"):
        rows.take(replace(settles, seq=1))
    rows = DerivedRows()
    rows.take(opens)
    with pytest.raises(Damage, match="record 2 opens an intent a second time"):
        rows.take(replace(opens, seq=2))
    rows = DerivedRows()
    rows.take(opens)
    rows.take(settles)
    with pytest.raises(Damage, match="record 3 settles an intent that record 2 settled"):
        rows.take(replace(settles, seq=3))
