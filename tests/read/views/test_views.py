"""The documents of `aos inspect` (spec/audit.md, A-30 to A-39 and A-60 to A-67)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Record, Ref, Step
from aos.errors import BadUsage, Damage
from aos.host.folder.restore import restore
from aos.manifest.load import Loaded
from aos.manifest.shards import with_shard
from aos.read.lens.lens import Lens, Manifests
from aos.read.views.cell_selection import CellSelection
from aos.read.views.cell_view import cell, cells, faults
from aos.read.views.intent_view import intent, intents
from aos.read.views.journal_view import KINDS, RecordReader, Selection, journal, record, selection
from aos.read.views.record_view import document, summary
from aos.read.views.view import LIMIT_MAX, View
from aos.read.views.world_view import manifest, world
from aos.store.memory_store import MemoryStore
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text
from tests.memory_world import (
    OPERATOR_KEY,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    air,
    route,
    schema,
    workflow,
)
from tests.prove.journals import (
    CHARGE,
    LEDGER,
    MODULES,
    ORDER,
    PAID,
    PLACED,
    SECOND,
    TIMER,
    Shop,
    blob_reader,
    busy_shop,
    records,
    shop,
    state_at,
    store_of,
)


@cache
def a_shop() -> Shop:
    """One world for all tests that do not change it."""
    return busy_shop()


@cache
def view() -> View:
    world = a_shop()
    return View(world.state, store_of(world), now_ns=world.now_ns + 12 * SECOND)


def two_manifests() -> Shop:
    """An order under one manifest, another under the next."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    world.charged("ord-1")
    world.run()
    assert isinstance(world.apply(shop(2), MODULES), Admitted)
    world.blobs.update(shop(2).modules)
    world.place("ord-2", 6)
    world.run()
    return world


def test_every_document_is_json() -> None:
    """A-30. Every document that a view returns can be written as JSON, and keeps its keys."""
    found = [
        world(view()), manifest(view()), cells(view()), cell(view(), "order", "ord-6"),
        faults(view()), intents(view(), status=None), journal(view()), journal(view(), first=1),
        *(record(view(), seq) for seq in range(1, 29)),
        *(intent(view(), row["intent"]) for row in intents(view(), status=None)["intents"]),
    ]  # fmt: skip

    for each in found:
        assert json.loads(json.dumps(each)) == each


def test_the_world_is_counted() -> None:
    """A-61."""
    found = world(view())

    assert found["world"] == f"blake3:{a_shop().state.world.hex()}"
    assert found["world_key"] == f"ed25519:{bytes(WORLD_KEY.verify_key).hex()}"
    assert found["operators"] == [
        {"name": "operator", "public_key": f"ed25519:{bytes(OPERATOR_KEY.verify_key).hex()}"}
    ]
    assert found["created_ns"] == next(iter(records(a_shop().frames))).stamp.ns  # type: ignore[union-attr]  # a genesis
    assert (found["journal"]["records"], found["journal"]["frames"]) == (28, 6)
    assert found["manifest"]["record"] == 2
    assert found["manifest"]["serial"] == 0
    assert found["cells"] == {
        "total": 7, "running": 1, "waiting": 1, "completed": 3, "failed": 2, "idle": 1,
        "ready": 0,
        "by_workflow": {
            LEDGER: {"running": 1, "waiting": 0, "completed": 0, "failed": 0, "idle": 1},
            ORDER: {"running": 0, "waiting": 1, "completed": 3, "failed": 2, "idle": 0},
        },
    }  # fmt: skip
    assert found["intents"]["by_effect"] == {CHARGE: 1}
    oldest_ns = found["intents"]["oldest_open_ns"]
    assert found["intents"]["by_executor"] == {
        "test": {
            "open": 1, "retried": 0, "oldest_open_ns": oldest_ns, "oldest_retried_ns": None,
        }
    }  # fmt: skip
    assert (found["intents"]["open"], found["intents"]["abandoned"]) == (1, 0)
    assert found["intents"]["timers"] == {"open": 0, "oldest_open_ns": None}
    assert found["mail"] == {"queued": 0, "behind_faults": 2, "uncounted": 0}
    assert found["submissions"] == 1


def test_a_world_without_a_manifest_says_so() -> None:
    """A-61, A-62."""
    whole = a_shop()
    early = View(state_at(whole, 1), store_of(whole))

    assert world(early)["manifest"] is None
    with pytest.raises(BadUsage, match="no manifest yet"):
        manifest(early)


def test_a_manifest_is_listed_and_its_definitions_shown_by_name() -> None:
    """A-62."""
    found = manifest(view())

    assert [each["name"] for each in found["workflows"]] == [LEDGER, ORDER]
    order = found["workflows"][1]
    assert order["effects_emitted"] == [CHARGE, TIMER]
    assert order["arms"] == {PLACED: "placed", "sys/EffectReceiptEnvelope@1": "receipt"}
    assert (order["key_schema"], order["context"]) == ("shop/Key@1", True)
    assert found["ingress"] is None
    assert found["routes"] == [
        {"event": PLACED, "workflow": ORDER, "key_field": "order_id", "creates": True},
        {"event": PAID, "workflow": LEDGER, "key_field": "customer", "creates": True},
    ]
    assert found["executors"] is None
    assert found["limits"]["mailbox"] == 100_000
    assert manifest(view(), PAID)["type"] == {
        "record": {"customer": {"text": {}}, "amount": {"int": {}}}
    }
    with pytest.raises(BadUsage, match="one of shop/Paid@1"):
        manifest(view(), "Paid")


def test_a_world_in_a_group_names_its_shard_and_where_its_workflows_are() -> None:
    """A-61, A-62; groups.md GR-10."""
    whole = shop()
    effective = with_shard(whole.effective, 1, 4)
    in_group = MemoryWorld(Loaded(effective=effective, modules=whole.modules), MODULES)
    in_group.seal()
    shown = View(in_group.state, store_of(in_group))

    found = manifest(shown)

    assert world(shown)["manifest"]["shard"] == found["shard"] == {"index": 1, "count": 4}
    assert found["manifest_hash"] == hash_text(whole.effective.manifest_hash)
    assert found["workflows"][0]["placement"] == {"kind": "key", "shard_by": None}
    assert world(view())["manifest"]["shard"] is None


def test_cells_are_filtered_and_paged() -> None:
    """A-63."""
    found = cells(view(), CellSelection(workflow="order", status="completed"))

    assert [row["key"] for row in found["cells"]] == ["ord-1", "ord-2", "ord-6"]
    assert (found["total"], found["next_offset"]) == (3, None)
    page = cells(view(), CellSelection(workflow="order"), limit=2, offset=2)
    assert [row["key"] for row in page["cells"]] == ["ord-3", "ord-4"]
    assert (page["total"], page["offset"], page["next_offset"]) == (6, 2, 4)
    assert cells(view(), CellSelection(key_prefix="c-"))["total"] == 1
    assert cells(view(), CellSelection(key_prefix="ord-"))["total"] == 6


def keys_of(selection: CellSelection, **more: Any) -> list[str]:
    return [row["key"] for row in cells(view(), selection, **more)["cells"]]


def test_cells_are_found_by_what_they_wait_for_and_how_they_failed() -> None:
    """A-63."""
    every = cells(view())

    assert every["by_reason"] == {
        "completed": 3, "event": 1, "fault stack": 1, "fault trap": 1, CHARGE: 1,
    }  # fmt: skip
    assert every["looked_at"] == 7
    assert keys_of(CellSelection(waits_for="charge")) == ["ord-3"]
    assert keys_of(CellSelection(waits_for="event")) == ["c-1"]
    assert keys_of(CellSelection(waits_for="timer")) == []
    assert keys_of(CellSelection(fault="trap")) == ["ord-4"]
    assert keys_of(CellSelection(pinned=True)) == []
    waiting = cells(view(), CellSelection(workflow="order", status="waiting"))
    assert waiting["cells"][0]["waits_for"] == [CHARGE]
    assert (waiting["total"], waiting["by_reason"]) == (1, {CHARGE: 1})
    assert waiting["looked_at"] == 3, "cells at rest wait for no effect"


def test_a_cell_that_waits_for_a_timer_is_found_by_it() -> None:
    """A-63."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    world.fail(world.intent_of("ord-1"), "declined")
    world.run()
    shown = View(world.state, store_of(world))

    for word in ("timer", TIMER):
        (row,) = cells(shown, CellSelection(waits_for=word))["cells"]
        assert (row["key"], row["waits_for"]) == ("ord-1", ["timer"])


def test_cells_are_sorted_and_the_old_ones_found() -> None:
    """A-63."""
    ages = [row["last_active_ns"] for row in cells(view(), order="age")["cells"]]
    assert ages == sorted(ages)
    assert len(set(ages)) > 1
    oldest_ns = view().now_ns - ages[0]
    assert keys_of(CellSelection(older_than_ns=oldest_ns)) == keys_of(
        CellSelection(), order="age", limit=ages.count(ages[0])
    )
    assert keys_of(CellSelection(older_than_ns=oldest_ns + 1)) == []
    mail = [row["mailbox"] for row in cells(view(), order="mail")["cells"]]
    assert mail == [1, 1, 0, 0, 0, 0, 0]


def test_states_are_listed_on_request_and_long_ones_by_their_hash() -> None:
    """A-63."""
    world = Shop()
    world.place("ord-1", 1)
    world.place("ord-2", 20_000)
    world.place("ord-3", 0)
    world.run()
    store = store_of(world)
    shown = View(restore(store, world.state.world), store)
    shown.lens = Lens(shown.manifests, store.blob, value_bytes_max=1500)

    states = {row["key"]: row["state"] for row in cells(shown, with_state=True)["cells"]}

    assert states["ord-1"] == {"phase": "charging", "tries": 1, "amount": 1, "note": ""}
    assert list(states["ord-2"]) == ["$large", "size"]
    assert states["ord-3"] is None
    assert all("state" not in row for row in cells(view())["cells"])


def test_a_row_of_a_cell_shows_its_status() -> None:
    """A-63."""
    failed = cells(view(), CellSelection(workflow="order", status="failed"))["cells"][0]

    assert failed == {
        "workflow": ORDER, "key": "ord-4", "key_cbor": "656f72642d34", "status": "failed",
        "is_idle": False,
        "declared": None,
        "fault": {
            "kind": "trap", "message": "step: an unreachable instruction is reached",
            "detail": None, "environmental": False, "record": 18, "engine_text": None,
        },
        "in_flight": 0, "mailbox": 1, "mail_uncounted": 0, "last_record": 18,
        "last_active_ns": failed["last_active_ns"], "state_size": None,
        "version": failed["version"], "waits_for": [],
    }  # fmt: skip
    assert failed["version"]["record"] == 2
    assert not failed["version"]["is_pinned"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"status": "happy"}, "no cell status is 'happy': expected one of running, waiting"),
        ({"fault": "bang"}, "no fault kind is 'bang': expected one of trap, fuel"),
        ({"older_than_ns": -1}, "older than: expected 0 or more, found -1 ns"),
        ({"waits_for": "nothing"}, "no effect is called 'nothing'.* or one of timer, event, mail"),
        (
            {"order": "size"},
            "no order of cells is .size.: expected one of key, age, activity",
        ),
        ({"limit": 0}, f"limit: expected 1 to {LIMIT_MAX}, found 0"),
        ({"limit": LIMIT_MAX + 1}, "limit"),
        ({"offset": -1}, "offset: expected 0 or more, found -1"),
        ({"workflow": "nothing"}, "no workflow is called 'nothing'"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(more: dict[str, object], message: str) -> None:
    """A-60."""
    of_page = {name: more.pop(name) for name in ("limit", "offset", "order") if name in more}

    with pytest.raises(BadUsage, match=message):
        cells(view(), CellSelection(**more), **of_page)  # type: ignore[arg-type]  # as a caller without types may


def test_a_cell_is_shown_with_its_state_and_what_it_waits_for() -> None:
    """A-64."""
    found = cell(view(), "order", "ord-3")

    assert found["state"] == {"phase": "charging", "tries": 1, "amount": 1, "note": ""}
    assert [row["effect"] for row in found["intents"]] == [CHARGE]
    assert found["intents"][0]["age_ns"] > 12 * SECOND
    assert found["reasons"][0]["kind"] == "effect"


def test_a_long_state_is_shown_whole_in_its_cell() -> None:
    """A-64."""
    assert cell(view(), "order", "ord-6")["state"]["note"] == "n" * 3000


def test_the_mail_of_a_failed_cell_is_shown() -> None:
    """A-64."""
    mail = cell(view(), "order", "ord-4")["mail"]

    assert mail == [
        {
            "record": 14, "index": 0, "root": 14, "depth": 0, "kind": "event", "schema": PLACED,
            "value": {"order_id": "ord-4", "amount": 0},
        }
    ]  # fmt: skip


def test_mail_that_waits_is_shown_before_it_runs() -> None:
    """A-64. A receipt is mail, too."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    world.charged("ord-1")
    world.seal()

    found = cell(View(world.state, store_of(world)), ORDER, "ord-1")

    assert found["mail"][0]["kind"] == "receipt"
    assert (found["mail"][0]["effect"], found["mail"][0]["status"]) == (CHARGE, "ok")
    assert found["reasons"][0] == {
        "kind": "ready", "text": "events wait to be handled: 1 event", "is_stuck": True,
        "next": "run the world: aos run",
    }  # fmt: skip


def test_a_cell_that_is_not_there_is_named() -> None:
    """A-64."""
    with pytest.raises(BadUsage, match=r"shop/order.step@1 ord-99: there is no such cell"):
        cell(view(), "order", "ord-99")


def test_faults_are_listed_with_advice() -> None:
    """A-65."""
    found = faults(view())

    assert [(row["key"], row["kind"], row["record"]) for row in found["faults"]] == [
        ("ord-5", "stack", 19), ("ord-4", "trap", 18),
    ]  # fmt: skip
    assert found["faults"][0]["environmental"] is True
    assert found["faults"][1]["advice"].startswith("fix its module")
    assert faults(view(), CellSelection(fault="trap", workflow="order"))["total"] == 1
    with pytest.raises(BadUsage, match="no fault kind is 'bad luck'"):
        faults(view(), CellSelection(fault="bad luck"))


def test_faults_are_selected_and_ordered_by_a_condition() -> None:
    """A-65, SE-11"""

    def keys(where: str, kind: str | None = None) -> list[str]:
        document = faults(view(), CellSelection(condition=where, fault=kind))
        return [row["key"] for row in document["faults"]]

    assert keys("fault = trap") == keys("key ^= ord-4") == ["ord-4"]
    assert keys("order by key") == ["ord-4", "ord-5"]
    assert keys("key in (ord-4, ord-5)") == ["ord-5", "ord-4"], "the latest first"
    assert keys("key = ord-5", kind="trap") == []
    with pytest.raises(BadUsage, match="where, column 1"):
        keys("nothing = 1")


def test_intents_are_open_unless_others_are_asked_for() -> None:
    """A-66."""
    assert [row["key"] for row in intents(view())["intents"]] == ["ord-3"]
    assert intents(view(), status="settled")["total"] == 5
    assert intents(view(), status="abandoned")["total"] == 0
    assert intents(view(), status=None)["total"] == 6
    by_effect = intents(view(), status=None, effect="sys/timer.set")
    assert [row["effect"] for row in by_effect["intents"]] == [TIMER]
    assert intents(view(), status=None, effect="timer.set")["total"] == 1
    with pytest.raises(BadUsage, match="no effect is called 'chrage': expected one of"):
        intents(view(), effect="chrage")
    by_key = intents(view(), status=None, workflow="order", key_prefix="ord-2", limit=1)
    assert (by_key["total"], by_key["next_offset"]) == (3, 1)


def test_settled_intents_are_found_by_status_and_code() -> None:
    """A-66a."""
    ok = intents(view(), status="ok")
    failed = intents(view(), status="error")
    by_code = intents(view(), status=None, code="declined")

    assert ok["total"] + failed["total"] == intents(view(), status="settled")["total"]
    settled = [row["settled_record"] for row in ok["intents"]]
    assert settled == sorted(settled, reverse=True)
    assert {row["code"] for row in ok["intents"]} == {None}
    (row,) = failed["intents"]
    assert (row["key"], row["status"], row["code"]) == ("ord-2", "settled", "declined")
    assert by_code == failed
    assert failed["looked_at"] == 5
    assert intents(view(), status=None, code="declined", effect="timer")["total"] == 0
    assert intents(view(), status=None, code="other")["total"] == 0
    assert intents(view(), status="timeout")["total"] == 0
    with pytest.raises(BadUsage, match="a code selects intents by their receipts: expected one of"):
        intents(view(), status="open", code="declined")


def test_held_and_parked_intents_are_open() -> None:
    """A-66b."""
    assert intents(view(), halted=True)["total"] == 0
    with pytest.raises(BadUsage, match="are open: expected status open, found status settled"):
        intents(view(), status="settled", halted=True)
    with pytest.raises(BadUsage, match="are open: expected status open, found status all"):
        intents(view(), status=None, halted=True)


def test_a_settled_intent_has_the_same_key_as_when_it_was_open() -> None:
    """A-66."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    before = intents(View(world.state, store_of(world)))["intents"][0]
    world.charged("ord-1")
    world.run()

    after = intents(View(world.state, store_of(world)), status="settled")["intents"][0]

    same = ("intent", "effect", "executor", "workflow", "key", "record", "index",
            "idempotency_key", "requested_key", "issuer_ref")  # fmt: skip
    assert [before[name] for name in same] == [after[name] for name in same]
    assert before["idempotency_key"] != before["intent"]
    assert (after["settled_record"], after["receipt_status"]) == (6, "ok")


def test_abandoned_intents_are_told_apart() -> None:
    """A-66. The receipt does not fit, so that the cell fails and its other intents are dropped."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    intent_hash = world.intent_of("ord-1").intent
    world.state.abandoned[intent_hash] = world.state.intents.pop(intent_hash)

    assert intents(View(world.state, store_of(world)), status="abandoned")["total"] == 1


def test_an_intent_is_shown_with_its_receipt() -> None:
    """A-67."""
    settled = intents(view(), status="settled")["intents"][0]

    found = intent(view(), settled["intent"].removeprefix("blake3:")[:8])

    assert found["intent"] == settled["intent"]
    assert found["params"] == {"amount": 5, "memo": ""}
    assert found["receipt"]["payload"] == {"id": "ch-ord-1"}
    assert found["receipt"]["payload_schema"] == "shop/Charged@1"
    assert found["reason"] is None
    assert intent(view(), intents(view())["intents"][0]["intent"])["reason"]["kind"] == "effect"


def test_every_record_has_a_document_and_a_line() -> None:
    """A-30 to A-37."""
    kinds = set()
    for seq in range(1, 29):
        found = record(view(), seq)
        kinds.add(found["kind"])
        assert found["seq"] == seq
        line = summary(found)
        assert line
        assert "\n" not in line
    assert kinds == set(KINDS) - {
        "kernel_receipt", "stream", "attempt", "control", "governance", "snapshot", "fork",
    }  # fmt: skip


LINES = {
    3: '{"kernel":"0.1.0","wasmtime":"50.0.1"}',
    4: 'shop/Placed@1 {"amount":5,"order_id":"ord-1"} → shop/order.step@1 ord-1 (submission sub-1)',
    6: "shop/order.step@1 ord-1 ← 4 · waiting · asks shop/card.charge@1",
    10: "shop/order.step@1 ord-1 ← 8 · completed · emits shop/Paid@1",
    18: "shop/order.step@1 ord-4 ← 14 · failed: trap: step: an unreachable instruction is reached",
}


@pytest.mark.parametrize(("seq", "line"), LINES.items())
def test_a_line_says_what_a_record_means(seq: int, line: str) -> None:
    """A-30."""
    assert summary(record(view(), seq)) == line


def test_a_record_shows_its_values_decoded() -> None:
    """A-35, A-37."""
    step = record(view(), 10)

    assert step["cell"] == {"workflow": ORDER, "key": "ord-1"}
    assert (step["entry"], step["root"], step["depth"]) == ([8, 0], 8, 0)
    assert step["state"]["phase"] == "paid"
    assert step["annotations"] == {"why": "charged"}
    assert step["events"] == [
        {
            "schema": PAID, "value": {"customer": "c-1", "amount": 5},
            "to": [{"workflow": LEDGER, "key": "c-1"}], "overloaded": [], "unknown": [],
        }
    ]  # fmt: skip
    receipt = record(view(), 9)
    assert receipt["payload"] == {"code": "declined", "message": "on purpose", "retryable": False}
    assert (receipt["outcome"], receipt["status"]) == ("delivered", "error")


def test_the_journal_is_read_from_either_end() -> None:
    """A-38."""
    newest = journal(view(), limit=3)
    assert [each["seq"] for each in newest["records"]] == [26, 27, 28]
    assert newest["next"] is None
    first = journal(view(), first=4, limit=2)
    assert [each["seq"] for each in first["records"]] == [4, 5]
    assert first["next"] == 6
    assert journal(view(), first=27, limit=5)["next"] is None
    assert [each["seq"] for each in journal(view(), first=4, last=5)["records"]] == [4, 5]
    assert [each["seq"] for each in journal(view(), last=6, limit=2)["records"]] == [5, 6]


def test_the_journal_is_filtered_by_kind_workflow_and_key() -> None:
    """A-38."""

    def seqs(**more: object) -> list[int]:
        found = journal(view(), first=1, **more)  # type: ignore[arg-type]  # as each case says
        return [each["seq"] for each in found["records"]]

    assert seqs(kinds=("genesis", "manifest", "start")) == [1, 2, 3]
    assert seqs(workflow="ledger") == [10, 12, 25, 26, 27, 28]
    assert seqs(workflow="order", key="ord-4") == [14, 18]
    assert seqs(kinds=("event",), workflow="order", key="ord-1") == [4]
    with pytest.raises(BadUsage, match="no record is a 'stepp'"):
        selection(view(), kinds=("stepp",))
    with pytest.raises(BadUsage, match="only with its workflow"):
        selection(view(), key="ord-1")


def test_following_reads_only_what_came_since() -> None:
    """A-39. A manifest that came since is in force for what follows it."""
    world = two_manifests()
    early = View(state_at(world, 3), store_of(world))

    head = world.state.next_seq - 1
    reader = RecordReader(early.journal, early.lens)

    found = list(reader.forward(4, head))

    assert [each["seq"] for each in found] == list(range(4, head + 1))
    assert found[-1]["state"]["phase"] == "charging"
    assert early.manifests.at(found[-1]["seq"]) is not early.state.manifest
    only_events = list(reader.forward(4, head, selection=Selection(kinds=("event",))))
    assert [each["kind"] for each in only_events] == ["event", "event"]


def test_values_are_read_with_the_manifest_that_was_in_force() -> None:
    """A-3."""
    world = two_manifests()
    found = View(world.state, store_of(world))

    assert record(found, 4)["value"] == {"order_id": "ord-1", "amount": 5}
    assert found.manifests.at(2) is None
    assert found.manifests.at(4) is not found.manifests.at(world.state.next_seq)
    assert [row["key"] for row in cells(found, CellSelection(workflow="order"))["cells"]] == [
        "ord-1",
        "ord-2",
    ]


def test_a_view_for_people_spells_times_in_lists_and_in_full() -> None:
    """A-48."""
    spelled = View(a_shop().state, store_of(a_shop()))
    spelled.spell()
    step, timer = next(
        (each, asked)
        for each in a_shop().records()
        if isinstance(each, Step)
        for asked in each.intents
        if asked.effect == TIMER
    )

    whole = intent(spelled, hash_text(timer.intent))["params"]
    listed = spelled.lens.params(TIMER, timer.params, seq=step.seq)

    assert listed == whole == {"deliver_at_ns": "2023-11-14T22:13:22Z", "key": None}


def test_a_key_is_shown_as_commands_read_it_also_to_people() -> None:
    """A-48: bytes are read as base64, whatever text they hold."""
    raw: dict[str, object] = {"bytes": {}}
    nodes = [
        schema("k/Go@1", {"record": {"id": raw}}),
        schema("k/Key@1", raw),
        schema("k/State@1", {"unit": {}}),
        workflow("k/kept@1", state="k/State@1", event="k/Go@1", key_schema="k/Key@1"),
    ]
    world = MemoryWorld(air(nodes, [route("k/Go@1", "k/kept@1", "id")]), {"k/kept@1": same})
    world.send("k/Go@1", {"id": b"ann"})
    world.run()
    spelled = View(world.state, store_of(world))
    spelled.spell()

    [row] = cells(spelled, CellSelection())["cells"]

    assert row["key"] == "YW5u"
    assert cell(spelled, "k/kept@1", "YW5u")["status"] == "running"


def same(_: Envelope) -> Envelope:
    """A module that keeps a unit state."""
    return {"state": encode(None)}


def lens_without(missing: Hash) -> Lens:
    world = a_shop()
    return Lens(Manifests.of(world.state, store_of(world)), blob_reader(world, without=missing))


def long_step() -> tuple[Record, Ref]:
    return next(
        (each, each.state)
        for each in records(a_shop().frames)
        if isinstance(each, Step) and isinstance(each.state, Ref)
    )


def test_a_value_that_cannot_be_read_is_shown_as_such() -> None:
    """A-3. A view does not fail on the world that it is asked about."""
    step, ref = long_step()

    found = document(step, lens_without(ref.hash))

    assert found["state"]["$unreadable"] == f"blake3:{ref.hash.hex()}"
    assert "missing" in found["state"]["why"]


def test_a_long_value_is_left_out_of_lists() -> None:
    """A-3."""
    step, ref = long_step()
    lens = Lens(
        Manifests.of(a_shop().state, store_of(a_shop())), a_shop().read, value_bytes_max=1000
    )

    assert document(step, lens)["state"] == {
        "$large": f"blake3:{ref.hash.hex()}", "size": ref.size,
    }  # fmt: skip


def test_a_value_without_a_schema_is_shown_by_its_own_shape() -> None:
    """A-3."""
    lens = Lens(Manifests(), a_shop().read)

    assert lens.value(None, b"\xa1\x61a\x01") == {"a": 1}
    assert lens.value(None, b"\xff") == {"$bytes": "/w=="}
    assert lens.key((ORDER, b"\x65ord-1")) == "ord-1"
    assert lens.key((ORDER, b"")) is None


def test_a_state_can_be_read_as_it_was_at_any_record() -> None:
    """A-2."""
    world = a_shop()

    for seq in range(1, 29):
        assert state_at(world, seq).next_seq == seq + 1
    then = View(state_at(world, 6), store_of(world))
    assert cell(then, "order", "ord-1")["status"] == "waiting"


def test_a_state_cannot_be_read_where_there_is_none() -> None:
    """A-2."""
    world = a_shop()

    with pytest.raises(BadUsage, match="record 99: expected a record from 1 to 28"):
        state_at(world, 99)
    with pytest.raises(Damage, match="expected the genesis record of a world"):
        restore(MemoryStore(), world.state.tip.world)
