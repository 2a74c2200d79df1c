"""A log says of every cell and effect what the kernel says of it (EX-20 to EX-29)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from aos.core.journal.records import (
    Control,
    Event,
    Faulted,
    Fork,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
)
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.prove.event_log.journal_events import cell_name
from aos.prove.event_log.log_event import (
    CELL,
    FIELDS_MAX,
    INTENT,
    TEXT_MAX,
    LogEvent,
    ScalarValues,
    iso_time,
    scalars,
)
from aos.store.stored_world import empty_state
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text
from tests.core.busy import busy
from tests.core.desk import DESK, cell_id, pay, tell, timer
from tests.memory_world import MemoryWorld
from tests.prove.desks import Desk, every_kind
from tests.prove.event_log.logs import ReadObject, events_of, objects_of
from tests.prove.journals import CHARGE, ORDER, PLACED, busy_shop, store_of


def forked() -> MemoryWorld:
    world = Desk()
    tell(world, "a", pay("p"), timer(world, "t"))
    tell(world, "b", note="fail")
    world.fork()
    tell(world, "a", pay("p"))
    world.run()
    return world


def commanded() -> MemoryWorld:
    """Instances that an operator ends and removes while effects are open, in every order."""
    world = Desk()
    for key in ("ended", "removed", "again"):
        tell(world, key, pay("p"), timer(world, "t"))
    world.command("end", cell=cell_id("ended"), status="failed", why="stuck")
    world.command("remove", cell=cell_id("removed"), why="gone")
    world.command("end", cell=cell_id("again"), status="completed", why="done")
    tell(world, "again", pay("q"))
    tell(world, "removed", note="back")
    tell(world, "failed", note="fail")
    world.command("end", cell=cell_id("failed"), status="completed", why="by hand")
    return world


WORLDS: dict[str, Callable[[], MemoryWorld]] = {
    "shop": busy_shop,
    "every kind": every_kind,
    "busy": busy,
    "forked": forked,
    "commanded": commanded,
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_status_is_the_kernels_after_every_frame(name: str) -> None:  # EX-25
    world = WORLDS[name]()
    store = store_of(world)
    frames = list(store.frames())
    state = empty_state(store)
    settled: dict[str, str] = {}
    for number, frame in enumerate(frames, 1):
        for record in fold_frame(state, frame, store.blob):
            if isinstance(record, Receipt | KernelReceipt):
                settled[hash_text(record.intent)] = record.status
        found = objects_of(store, frames[:number], frame.header.world)
        check_cells(state, found)
        expected = settled | {hash_text(each): "open" for each in state.intents}
        expected |= {hash_text(each): "abandoned" for each in state.abandoned}
        intents = {id: each for id, each in found.items() if each.kind == INTENT}
        # A world remembers only some intents that no cell waits for; a log has all of them.
        assert {id: each.statuses[-1] for id, each in intents.items() if id in expected} == expected
        assert {each.statuses[-1] for id, each in intents.items() if id not in expected} <= {
            "abandoned"
        }


def check_cells(state: State, found: dict[str, ReadObject]) -> None:
    cells = {cell_name(*cell.id): cell for cell in state.cells.values()}
    logged = {id: each.statuses[-1] for id, each in found.items() if each.kind == CELL}
    assert set(cells) <= set(logged)
    for id, status in logged.items():
        cell = cells.get(id)
        if cell is None or (cell.state is None and status == "deleted"):
            # It was deleted, or its first event left no state behind.
            assert status == "deleted" or cell is None
        else:
            assert status == cell.status, id


@pytest.mark.parametrize("name", WORLDS)
def test_every_record_has_the_events_that_it_should(name: str) -> None:  # EX-21, EX-22
    world = WORLDS[name]()

    found = Counter(each.activity for each in events_of(store_of(world)))

    assert found == Counter(activity for record in world.records() for activity in expected(record))


def expected(record: Record) -> Iterator[str]:
    match record:
        case Event():
            yield record.schema
        case Step():
            yield from (f"ask {each.effect}" for each in record.intents)
            yield from (each.schema for each in record.events)
        case Receipt() | KernelReceipt():
            yield f"{record.effect} {record.status}"
        case Faulted():
            yield f"fault {record.fault.kind.value}"
        case Control():
            yield f"operator {record.action}"
        case Manifest():
            yield "manifest"
        case Fork():
            yield "fork"
        case _:
            pass


def test_events_are_in_the_order_of_the_journal_and_of_their_names() -> None:  # EX-23
    found = events_of(store_of(every_kind()))

    assert [each.id for each in found] == sorted({each.id for each in found})
    assert [each.time_ns for each in found] == sorted(each.time_ns for each in found)


def links(event: LogEvent) -> list[tuple[str, str]]:
    return [(each.id, each.qualifier) for each in event.links]


def test_an_event_names_the_cells_and_the_effect_that_it_is_about() -> None:  # EX-24
    world = busy_shop()
    found = events_of(store_of(world))
    first = next(each for each in found if each.activity == PLACED)
    asked = next(each for each in found if each.activity == f"ask {CHARGE}")
    answered = next(each for each in found if each.activity == f"{CHARGE} ok")
    told = next(each for each in found if each.activity == "shop/Paid@1")
    intent = asked.links[1].id

    assert links(first) == [(f"{ORDER} ord-1", "received")]
    assert links(asked) == [(f"{ORDER} ord-1", "asked"), (intent, "asked")]
    assert links(answered) == [(f"{ORDER} ord-1", "answered"), (intent, "answered")]
    assert links(told) == [(f"{ORDER} ord-1", "emitted"), ("shop/ledger@1 c-1", "received")]


def test_a_command_about_an_effect_names_its_cell_too() -> None:  # EX-24
    [found] = [e for e in events_of(store_of(every_kind())) if e.activity == "operator cancel"]

    assert [each.qualifier for each in found.links] == ["commanded", "commanded"]
    assert found.links[0].id == f"{DESK} given-up"
    assert found.links[1].type == "t/pay@1"


def test_an_event_about_no_cell_is_about_the_world() -> None:  # EX-24
    world = busy_shop()
    [found] = [each for each in events_of(store_of(world)) if each.activity == "manifest"]

    assert links(found) == [(hash_text(world.state.world), "concerned")]


def test_a_workflow_selects_its_cells_and_their_effects_alone() -> None:  # EX-28
    whole = events_of(store_of(busy_shop()))
    found = events_of(store_of(busy_shop()), workflow="shop/ledger@1")

    assert {each.type for event in found for each in event.links} == {"shop/ledger@1"}
    assert {each.id for each in found} == {
        each.id for each in whole if any(link.type == "shop/ledger@1" for link in each.links)
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ord-1", "w ord-1"),
        ("7", 'w "7"'),
        (7, "w 7"),
        ('"x"', 'w "\\"x\\""'),
        (b"\x01", 'w {"$bytes":"AQ=="}'),
        ([1, "a"], 'w [1,"a"]'),
        ("null", 'w "null"'),
    ],
)
def test_different_keys_have_different_names(key: object, name: str) -> None:  # EX-24
    assert cell_name("w", encode(key)) == name  # type: ignore[arg-type]


def test_a_cell_without_a_key_is_named_by_its_workflow() -> None:
    assert cell_name("shop/all@1", b"") == "shop/all@1"


def test_values_are_there_only_if_they_are_asked_for() -> None:  # EX-27
    store = store_of(busy_shop())
    plain, full = events_of(store), events_of(store, values=ScalarValues(store))
    first = next(each for each in full if each.activity == PLACED)
    paid = next(each for each in full if each.activity == f"{CHARGE} ok")

    assert not any(n.startswith("value") for each in plain for n, _ in each.attributes)
    assert dict(first.attributes) == {"value.order_id": "ord-1", "value.amount": 5}
    assert dict(paid.attributes)["value.id"] == "ch-ord-1"


def test_an_erased_value_has_no_attributes() -> None:  # EX-27
    store = store_of(every_kind())
    found = events_of(store, values=ScalarValues(store))
    named = [each for each in found if (f"{DESK} erased", "received") in links(each)]

    assert [dict(each.attributes) for each in named] == [{}]


def test_only_scalars_of_the_first_level_become_attributes() -> None:  # EX-27
    assert scalars({"a": 1, "b": "x", "c": True, "d": None, "e": [1], "f": {"g": 1}}) == (
        ("value.a", 1), ("value.b", "x"), ("value.c", True),
    )  # fmt: skip
    assert scalars("x") == (("value", "x"),)
    assert scalars([1]) == ()
    assert scalars({"$tag": "paid", "$value": {"a": 1}}) == (("value.$tag", "paid"),)
    assert scalars({"$large": "blake3:00", "size": 9000}) == ()
    assert scalars({"a": 2**64}) == (("value.a", str(2**64)),)
    assert scalars({"a": "x" * (TEXT_MAX + 1)}) == ()
    assert len(scalars({f"f{n}": n for n in range(1000)})) == FIELDS_MAX


def test_times_have_one_form_up_to_the_end_of_time() -> None:  # EX-23
    assert iso_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"
    assert iso_time(0) == "1970-01-01T00:00:00.000000Z"
    assert iso_time(2**80) == "9999-12-31T23:59:59.999999Z"


def test_an_unknown_intent_of_a_command_is_left_out() -> None:
    """No record of this journal requested it: it was pruned, and settled before."""
    store = store_of(every_kind())

    class Forgetful(type(store)):  # type: ignore[misc]
        def intent(self, _: Hash) -> None:
            return None

    forgetful = Forgetful.__new__(Forgetful)
    forgetful.__dict__ = store.__dict__
    [found] = [each for each in events_of(forgetful) if each.activity == "operator cancel"]

    assert [each.qualifier for each in found.links] == ["concerned"]
