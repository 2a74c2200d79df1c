"""``aos flow`` (spec/cli.md, C-70 to C-76), on a world whose flow does what its events say."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.flow.flow_state import OTHER_SPELLINGS
from aos.flow.operation import OperationKind as Kind
from aos.flow.operation import OperationState, UndoState
from aos.host.door.writer import Item, open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.manifest.load import load
from aos.read.index.world_index import WorldIndex, use_index
from aos.read.views.cell_selection import CellSelection
from aos.read.views.cell_view import cells
from aos.read.views.view import View
from aos.values.cbor import encode
from tests.cli.shell import Aos, in_silence
from tests.cli.test_commands import is_sound, running
from tests.copies import copied
from tests.flow import shop
from tests.flow.histories import (
    SECOND,
    START_NS,
    failure,
    listen_extra,
    op,
    ops,
    state,
    step_extra,
    undo,
)
from tests.memory_world import route

RUNNING = OperationState.RUNNING
LATER = START_NS + 60 * SECOND


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flows") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(shop.manifest())
    return path


@pytest.fixture
def world(empty: Path, tmp_path: Path) -> Path:
    """A world with the flow in force, and no instance."""
    return copied(empty, tmp_path / "world")


@pytest.fixture(scope="module")
def driven(empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A world that a process runs meanwhile."""
    path = copied(empty, tmp_path_factory.mktemp("driven") / "world")
    with running(path):
        yield path


CHARGED = ops(
    op(Kind.STEP, "charge", attempts=1, last=START_NS, done=LATER, outcome={"charge": "c-1"},
       extra=[shop.CHARGE]),
    op(Kind.RACE, "ship-or-cancel", state=RUNNING, extra=[["ship", "cancel"]]), op(Kind.BRANCH,
    "ship", parent=2, state=RUNNING), op(Kind.STEP, "ship", parent=3, state=RUNNING, attempts=2,
    last=LATER, extra=step_extra(shop.SHIP)), op(Kind.BRANCH, "cancel", parent=2, state=RUNNING),
    op(Kind.LISTEN, "asked", parent=5, state=RUNNING, extra=listen_extra(shop.CANCEL)),
    undos=[undo("charge", shop.REFUND, {"charge": "c-1"})],
)  # fmt: skip
STUCK = ops(
    undos=[
        undo("charge", shop.REFUND, {"charge": "c-1"}, state=UndoState.STUCK, attempts=5,
             last=LATER, failure=failure("down", "the bank is closed", kind="exhausted")),
    ],
)  # fmt: skip
LOST = failure(
    "join", "2 branches failed", kind="join", path="all",
    causes=[failure("gone", path="all/a/x"), failure("late", kind="timeout", path="all/b/y")],
)  # fmt: skip
SHIPS = (shop.SHIP, {"number": "p-1"}, "flow:ship-or-cancel/ship/ship#2")


def input_of(key: str) -> Any:
    return {"order_id": key, "cents": 450, "out": None}


def send(world: Path, *items: Item) -> None:
    with open_writer(world) as writer:
        list(writer.send(items))
    in_silence("run", "--until-idle", "--world", world)


def comes(key: str, out: bytes, schema: str = shop.PLACED) -> Item:
    value: Any = shop.placed(key, out)
    if schema == shop.CANCEL:
        value = {"order_id": key, "why": "", "out": out}
    return Item(schema=schema, value=encode(value))


def live(key: str, history: bytes = CHARGED, **more: Any) -> Item:
    """A flow that has charged and waits for its shipment or a message."""
    return comes(key, shop.step(state(history, inputs=input_of(key), **more), SHIPS))


def ended(key: str, status: str, **more: Any) -> Item:
    declared = "failed" if status in ("failed", "stuck") else "completed"
    return comes(
        key, shop.step(state(status=status, inputs=input_of(key), **more), status=declared)
    )


def events(aos: Aos, world: Path, schema: str) -> list[Any]:
    rows = aos("inspect", "journal", "--kind", "event", "--json", world=world).lines
    return [row["value"] for row in rows if row["schema"] == schema]


@pytest.fixture(scope="module")
def template(empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = copied(empty, tmp_path_factory.mktemp("lived") / "world")
    bad = comes("bad", shop.diverged(), shop.CANCEL)
    stuck = shop.step(state(STUCK, status="stuck", inputs=input_of("stuck")), status="failed")
    send(
        path,
        live("o-1", inbox=[(shop.PAID, {"of": {"order_id": "o-1"}, "cents": 3})]),
        live("bad"), bad, bad,
        ended("done", "completed", output={"number": "p"}),
        ended("gone", "cancelled"),
        ended("lost", "failed", error=LOST),
        comes("stuck", stuck),
        live("later", ops(format=2)),
    )  # fmt: skip
    return path


@pytest.fixture
def lived(template: Path, tmp_path: Path) -> Path:
    """``o-1`` runs, a fault stopped ``bad``, the others ended; ``later`` has a later format."""
    return copied(template, tmp_path / "world")


# start


def test_a_flow_is_started_under_a_submission_id_of_its_own(aos: Aos, world: Path) -> None:
    """C-70"""
    started = aos("flow", "start", "order", '{"order_id": "o-1", "cents": 450}', world=world)
    [row] = aos("inspect", "journal", "--kind", "event", "--json", world=world).lines

    assert started.code == 0, started
    assert started.out == f"shop/order@1 o-1 started (record {row['seq']})\n"
    assert "no process runs this world" in started.err
    assert (row["submission_id"], row["schema"]) == ("flow:shop/order@1:o-1", shop.PLACED)
    is_sound(world)


def test_the_same_start_again_is_acknowledged_and_another_input_refused(
    aos: Aos, world: Path
) -> None:
    """C-70"""
    words = ("flow", "start", "shop/order@1")
    first = aos(*words, '{"order_id": "o-1", "cents": 450}', "--json", world=world).json
    again = aos(*words, '{"cents": 450, "order_id": "o-1"}', "--json", world=world).json
    other = aos(*words, '{"order_id": "o-1", "cents": 1}', world=world)

    assert (first["answer"], again["answer"]) == ("admitted", "duplicate")
    assert again["seq"] == first["seq"]
    said = (
        "aos: shop/order@1 o-1 was started before with another input; its status is pending (to "
        "start another one, use another key; its input: aos flow show shop/order@1 o-1)\n"
    )
    assert other == (1, "", said)
    assert len(events(aos, world, shop.PLACED)) == 1


def test_a_flow_that_was_started_in_another_way_is_told_with_its_status(
    aos: Aos, lived: Path
) -> None:
    """C-70"""
    world = lived
    before = len(events(aos, world, shop.PLACED))
    same = aos("flow", "start", "order", '{"order_id": "o-1", "cents": 450}', world=world)
    other = aos("flow", "start", "order", '{"order_id": "o-1", "cents": 451}', world=world)

    assert same == (0, "shop/order@1 o-1 was started before: running\n", "")
    assert other.code == 1
    assert "with another input; its status is running" in other.err
    assert len(events(aos, world, shop.PLACED)) == before


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("nothing", "{}"), 2, "no flow is called 'nothing': expected one of shop/order@1"),
        (("ledger", "{}"), 2, "shop/ledger@1 is no flow: its state is not aos/Flow@1"),
        (("order", "{"), 2, "JSON: "),
        (("order", '{"order_id": "o"}'), 1, "shop/Placed@1: $.cents: "),
        (("order", "[]"), 1, "shop/Placed@1: $: expected"),
        (
            ("order", json.dumps({"order_id": "k" * 300, "cents": 1})),
            1,
            "the key is too long: expected at most 256 bytes of flow:<workflow>:<key>, found 318",
        ),
        (("order", "{}", "--timeout", "1s"), 2, "--timeout goes with --wait"),
    ],
)
def test_a_start_that_does_not_fit_changes_nothing(
    aos: Aos, world: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    before = aos("inspect", "world", "--json", world=world).json["journal"]["records"]
    found = aos("flow", "start", *words, world=world)

    assert (found.code, found.out) == (code, "")
    assert text in found.err
    after = aos("inspect", "world", "--json", world=world).json["journal"]["records"]
    assert after == before


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def start_json(key: str, out: bytes) -> str:
    return json.dumps({"order_id": key, "cents": 450, "out": b64(out)})


def test_waiting_for_the_end_prints_the_output(aos: Aos, driven: Path) -> None:
    """C-70a"""
    done = shop.step(
        state(status="completed", inputs=input_of("o-1"), output={"number": "p-7"}),
        status="completed",
    )
    found = aos("flow", "start", "order", start_json("o-1", done), "--wait", world=driven)
    shown = aos(
        "flow", "start", "order", start_json("o-2", done), "--wait", "--json", world=driven
    ).json

    assert (found.code, json.loads(found.out), found.err) == (0, {"number": "p-7"}, "")
    assert (shown["status"], shown["output"]) == ("completed", {"number": "p-7"})


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("failed", "shop/order@1 failed failed: critical no_funds: the card is empty (at charge)"),
        ("cancelled", "shop/order@1 cancelled was canceled"),
        ("stuck", "shop/order@1 stuck is stuck in its rollback"),
    ],
)
def test_waiting_for_a_flow_that_ends_without_an_output_is_an_error(
    aos: Aos, driven: Path, status: str, text: str
) -> None:
    """C-70a"""
    error = failure("no_funds", "the card is empty", path="charge") if status == "failed" else None
    out = shop.step(
        state(status=status, inputs=input_of(status), error=error),
        status="failed" if status in ("failed", "stuck") else "completed",
    )
    found = aos("flow", "start", "order", start_json(status, out), "--wait", world=driven)
    shown = aos(
        "flow", "start", "order", start_json(f"{status} too", out), "--wait", "--json", world=driven
    )

    assert (found.code, found.out) == (1, "")
    assert text in found.err
    assert (shown.code, shown.json["status"]) == (1, OTHER_SPELLINGS.get(status, status))


def test_waiting_ends_in_time(aos: Aos, driven: Path) -> None:
    """C-70a"""
    out = shop.step(state(CHARGED, inputs=input_of("slow")), SHIPS)
    found = aos(
        "flow", "start", "order", start_json("slow", out), "--wait", "--timeout", "200ms",
        world=driven,
    )  # fmt: skip

    assert found.code == 4
    assert "shop/order@1 slow: still waiting after 0.2 s" in found.err


def test_waiting_ends_where_a_fault_stops_the_flow(aos: Aos, driven: Path) -> None:
    """C-70a"""
    found = aos(
        "flow", "start", "order", start_json("bad", shop.diverged()), "--wait", world=driven
    )

    assert found.code == 1
    assert "is stopped by a fault: guest: diverged: charge: expected step charge" in found.err


# signal


def test_the_key_of_a_message_is_filled_in(aos: Aos, lived: Path) -> None:
    """C-71"""
    sent = aos("flow", "signal", "order", "o-1", "Cancel", '{"why": "late"}', world=lived)
    nested = aos(
        "flow", "signal", "order", "o-1", "shop/Paid@1", '{"cents": 3}', "--id", "paid",
        "--json", world=lived,
    ).json  # fmt: skip
    again = aos(
        "flow", "signal", "order", "o-1", "Paid", '{"cents": 3}', "--id", "paid", world=lived
    )

    assert (sent.code, sent.out.endswith("→ shop/order@1 o-1\n"), sent.err) == (0, True, "")
    assert events(aos, lived, shop.CANCEL)[-1]["order_id"] == "o-1"
    assert nested["message"] == "shop/Paid@1"
    assert nested["to"] == [{"workflow": "shop/order@1", "key": "o-1"}]
    assert events(aos, lived, shop.PAID) == [{"of": {"order_id": "o-1"}, "cents": 3, "out": None}]
    assert again.out == f"{nested['seq']}  sent before\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("o-1", "Placed", "{}"), 2,
         "'Placed': expected one of shop/Cancel@1, shop/Paid@1"),
        (("o-1", "Cancel", '{"order_id": "o-2", "why": ""}'), 2,
         "shop/Cancel@1: order_id is another key: expected 'o-1' or nothing, found 'o-2'"),
        (("o-1", "Cancel", '{"order_id": "o-1", "why": 7}'), 1, "shop/Cancel@1: $.why"),
        (("o-1", "Cancel", "[]"), 2, "shop/Cancel@1: expected an object, found list"),
        (("done", "Cancel", '{"why": ""}'), 1,
         "shop/order@1 done is completed: it accepts no more messages"),
    ],
)  # fmt: skip
def test_a_message_that_the_flow_cannot_take_is_refused(
    aos: Aos, lived: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    """C-71"""
    before = events(aos, lived, shop.CANCEL)
    found = aos("flow", "signal", "order", *words, world=lived)

    assert (found.code, found.out) == (code, "")
    assert text in found.err
    assert events(aos, lived, shop.CANCEL) == before


def test_a_message_before_the_start_waits_in_the_inbox(aos: Aos, world: Path) -> None:
    """C-71"""
    sent = aos("flow", "signal", "order", "new", "Cancel", '{"why": ""}', world=world)

    assert sent.code == 0
    assert "the flow has not started: the message waits in its inbox" in sent.err


def test_a_message_begins_no_flow_that_it_is_not_for(aos: Aos, lived: Path) -> None:
    """C-71: another flow listens for it, too, and would wait for a start. Who wants that sends the
    event; then there is an instance, and the message is sent to both."""
    given = shop.files()
    given["m.air.json"] = json.dumps(with_another_listener()).encode()
    with open_writer(lived) as writer:
        writer.apply(load(given), mode="pin")
    before = events(aos, lived, shop.CANCEL)

    found = aos("flow", "signal", "order", "o-1", "Cancel", '{"why": ""}', world=lived)

    assert found.code == 1
    assert "also a message of shop/other@1, which has no instance of this key" in found.err
    assert events(aos, lived, shop.CANCEL) == before
    sent = aos("send", shop.CANCEL, '{"order_id": "o-1", "why": "", "out": null}', world=lived)
    assert sent.code == 0
    again = aos("flow", "signal", "order", "o-1", "Cancel", '{"why": ""}', world=lived)
    assert again.code == 0


def with_another_listener() -> list[Any]:
    nodes = shop.nodes()
    [order] = [node for node in nodes if node.get("name") == shop.ORDER]
    nodes.append({**order, "name": "shop/other@1"})
    manifest = next(node for node in nodes if node["$kind"] == "manifest")
    manifest["workflows"].append({"name": "shop/other@1"})
    listens = route(shop.CANCEL, "shop/other@1", "order_id")
    manifest["routing"]["subscriptions"].append(listens)
    return nodes


# cancel


@pytest.mark.parametrize(("option", "rollback"), [((), True), (("--no-rollback",), False)])
def test_cancel_sends_a_command(
    aos: Aos, lived: Path, option: tuple[str, ...], rollback: bool
) -> None:
    """C-72"""
    found = aos("flow", "cancel", "order", "o-1", *option, world=lived)

    assert found.code == 0, found
    assert found.out.startswith("shop/order@1 o-1 gets Cancel (record ")
    assert events(aos, lived, shop.CONTROL) == [
        {"instance": "o-1", "command": {"$tag": "Cancel", "$value": {"rollback": rollback}}}
    ]


def test_a_flow_that_is_over_or_never_was_is_not_cancelled(aos: Aos, lived: Path) -> None:
    """C-72"""
    done = aos("flow", "cancel", "order", "done", world=lived)
    gone = aos("flow", "cancel", "order", "gone", world=lived)
    never = aos("flow", "cancel", "order", "never", world=lived)

    assert done == (1, "", "aos: shop/order@1 done is completed: there is nothing to cancel\n")
    assert gone == (0, "shop/order@1 gone is canceled already\n", "")
    assert never.code == 1
    assert "there is no shop/order@1 never: no event has reached it" in never.err
    assert events(aos, lived, shop.CONTROL) == []


def test_a_flow_that_a_fault_stopped_gets_cancel_and_skips_the_entries_before_it(
    aos: Aos, lived: Path
) -> None:
    """C-72a"""
    with running(lived):
        found = aos("flow", "cancel", "order", "bad", "--json", world=lived).json

    assert (len(found["skipped"]), len(found["commands"]), found["is_over"]) == (2, 2, True)
    assert {each["schema"] for each in found["skipped"]} == {shop.CANCEL}
    cell = aos("inspect", "cell", "order", "bad", "--json", world=lived).json
    assert (cell["fault"], cell["mailbox"]) == (None, 0)
    is_sound(lived)


def test_without_a_process_cancel_skips_once_and_says_how_to_continue(
    aos: Aos, lived: Path
) -> None:
    """C-72a"""

    first = aos("flow", "cancel", "order", "bad", world=lived)
    in_silence("run", "--until-idle", "--world", lived)
    second = aos("flow", "cancel", "order", "bad", world=lived)
    in_silence("run", "--until-idle", "--world", lived)

    assert first.code == second.code == 0
    assert "skipped, and not compensated: shop/Cancel@1 (record " in first.out
    assert "no process runs this world: Cancel runs with the next aos run. If" in first.err
    assert len(events(aos, lived, shop.CONTROL)) == 1
    cell = aos("inspect", "cell", "order", "bad", "--json", world=lived).json
    assert (cell["fault"], cell["mailbox"]) == (None, 0)


# resume


@pytest.mark.parametrize(("option", "skip"), [((), False), (("--skip",), True)])
def test_a_stuck_rollback_is_resumed(
    aos: Aos, lived: Path, option: tuple[str, ...], skip: bool
) -> None:
    """C-73"""
    found = aos("flow", "resume", "order", "stuck", *option, world=lived)

    assert found.code == 0, found
    assert events(aos, lived, shop.CONTROL) == [
        {"instance": "stuck", "command": {"$tag": "Resume", "$value": {"skip": skip}}}
    ]


def test_a_flow_that_a_fault_stopped_is_resumed_as_its_cell(aos: Aos, lived: Path) -> None:
    """C-73"""
    found = aos("flow", "resume", "order", "bad", "--skip", "--json", world=lived).json
    in_silence("run", "--until-idle", "--world", lived)
    first = aos("flow", "resume", "order", "bad", "--skip", world=lived)
    again = aos("flow", "resume", "order", "bad", world=lived)

    assert (found["from"], found["skip"]) == ("faulted", True)
    assert (first.code, again.code) == (0, 1)
    assert "shop/order@1 bad is running: only a flow that a fault has stopped" in again.err


# list and show


def test_flows_are_listed_by_their_own_status(aos: Aos, lived: Path) -> None:
    """C-74"""
    found = aos("flow", "list", "--json", world=lived).json
    some = aos("flow", "list", "--status", "faulted", "--key-prefix", "b", "--json", world=lived)
    text = aos("flow", "list", "--flow", "order", world=lived)
    bad = aos("flow", "list", "--status", "lost", world=lived)

    assert {each["key"]: each["status"] for each in found["flows"]} == {
        "o-1": "running", "bad": "faulted", "done": "completed", "gone": "canceled",
        "lost": "failed", "stuck": "stuck", "later": "running",
    }  # fmt: skip
    assert found["by_status"] == {
        "canceled": 1, "completed": 1, "failed": 1, "faulted": 1, "running": 2, "stuck": 1,
    }  # fmt: skip
    assert [each["key"] for each in some.json["flows"]] == ["bad"]
    assert "shop/order@1\to-1\trunning\t" in text.out
    assert "ship-or-cancel/ship/ship, ship-or-cancel/cancel/asked" in text.out
    assert (bad.code, "no flow status is 'lost'" in bad.err) == (2, True)
    for spelling in ("canceled", "cancelled"):
        gone = aos("flow", "list", "--status", spelling, "--json", world=lived).json
        assert [(each["key"], each["status"]) for each in gone["flows"]] == [("gone", "canceled")]


WHERE: dict[str, list[str]] = {
    "input.cents > 400 and input.order_id ^= o-": ["o-1"],
    "input.cents = 450 and status = running": ["bad", "o-1", "later"],
    "status in (completed, canceled)": ["done", "gone"],
    "state.status = canceled": ["gone"],
    "error.kind = join": ["lost"],
    "error != null and error.path = all": ["lost"],
    "error.kind in (join, canceled) and error.code != cancel": ["lost"],
    "output.number = p": ["done"],
    "output != null or error.message ^= 2": ["done", "lost"],
    "key ^= l order by key desc": ["lost", "later"],
    "started_ns > 0 and schemas.input = shop/Placed@1 and input.order_id = stuck": ["stuck"],
}
"""Conditions on flows, and the keys that they select, in their order."""


@pytest.mark.parametrize("where", WHERE)
def test_flows_are_selected_by_their_input_output_view_and_error(
    aos: Aos, lived: Path, where: str
) -> None:
    """C-74, SE-5a: also as cells, and by an index of these paths."""
    result = aos("flow", "list", "--flow", "order", "--where", where, "--json", world=lived)

    assert [flow["key"] for flow in result.json["flows"]] == WHERE[where], result


def test_a_condition_on_flows_that_does_not_fit_is_refused_with_its_column(
    aos: Aos, lived: Path
) -> None:
    """SE-5a, SE-12"""
    for where, part in (
        ("input.cent = 1", "where, column 1: unknown field cent (did you mean cents?"),
        ("input.cents = x", "where, column 15: "),
        ("output.nowhere = 1", "no schema of the manifest has this name"),
        ("error.reason = x", "unknown field reason"),
        ("status = lost", "expected one of pending, running, "),
    ):
        refused = aos("flow", "list", "--flow", "order", "--where", where, world=lived)
        assert (refused.code, part in refused.err) == (2, True), refused


def test_a_malformed_condition_is_refused_in_a_world_without_flows(
    aos: Aos, tmp_path: Path
) -> None:
    """SE-12"""
    world = tmp_path / "empty"
    init_world(world)

    refused = aos("flow", "list", "--where", "x > ", world=world)

    assert (refused.code, refused.out) == (2, "")
    assert "where, column 5: expected a value" in refused.err
    assert aos("flow", "list", "--where", "x > 1", world=world).code == 0


def test_an_index_of_flows_answers_as_a_scan(lived: Path, tmp_path: Path) -> None:
    """SE-5a, SE-20, SE-21"""
    settings = {
        shop.ORDER: {
            "cents": "input.cents", "why": "error.kind", "code": "error.code", "has": "output",
            "seen": "view", "of": "input.order_id", "flow_status": "status",
        }
    }  # fmt: skip
    wheres = ("cents > 400 and of ^= o-", "why = join", "code != cancel", "has = null",
              "flow_status in (running, stuck) order by of desc")  # fmt: skip
    with open_reader(lived) as reader:
        index = WorldIndex.open(tmp_path / "index", reader.store, pytest.fail, settings=settings)
        assert index is not None
        with index:
            while not index.advance(reader.state):
                pass
            with index.reading(reader.state) as by_index:
                view = View(reader.state, reader.store)
                use_index(view, by_index)
                for where in wheres:
                    selection = CellSelection(
                        workflow=shop.ORDER, condition=where, aliases=settings
                    )
                    query = selection.resolved(reader.state).query(view.now_ns)
                    assert view.finder is not None
                    assert query is not None
                    assert view.finder.page(query, limit=1, offset=0) is not None, where
                    assert cells(view, selection) == cells(
                        View(reader.state, reader.store), selection
                    )


def test_show_has_the_operations_as_a_tree_and_the_waits(aos: Aos, lived: Path) -> None:
    """C-75"""
    found = aos("flow", "show", "order", "o-1", "--json", world=lived).json

    charge, race = found["operations"]
    assert (charge["path"], charge["state"], charge["value"]) == (
        "charge", "completed", {"charge": "c-1"},
    )  # fmt: skip
    assert [each["path"] for each in race["children"]] == [
        "ship-or-cancel/ship", "ship-or-cancel/cancel",
    ]  # fmt: skip
    assert [(each["path"], each["kind"]) for each in found["waits"]] == [
        ("ship-or-cancel/ship/ship", "effect"), ("ship-or-cancel/cancel/asked", "message"),
    ]  # fmt: skip
    assert found["compensations"][0]["params"] == {"charge": "c-1"}
    assert found["inbox"][0]["schema"] == shop.PAID
    texts = {each["kind"]: (each["text"], each["next"]) for each in found["reasons"]}
    assert "waits at ship-or-cancel/ship/ship for shop/ship@1" in texts["effect"][0]
    assert "waits at ship-or-cancel/cancel/asked for shop/Cancel@1" in texts["message"][0]
    assert texts["message"][1] == "aos flow signal shop/order@1 o-1 shop/Cancel@1 JSON"


def test_show_as_text(aos: Aos, lived: Path) -> None:
    """C-75"""
    lines = aos("flow", "show", "order", "o-1", world=lived).out.splitlines()

    assert lines[:2] == ["flow\tshop/order@1 o-1", "status\trunning"]
    at = lines.index("operations")
    assert lines[at + 2].startswith("charge\tstep\tcompleted\t1\t")
    assert lines[at + 2].endswith('\t{"charge":"c-1"}')
    assert lines[at + 5].split("\t")[:4] == ["ship-or-cancel/ship/ship", "step", "running", "2"]
    assert any(line.startswith("charge\tshop/refund@1\tregistered\t") for line in lines)


def test_values_are_spelled_for_people_and_not_in_the_document(aos: Aos, world: Path) -> None:
    """C-75, A-48: as ``aos inspect`` and ``aos trace`` show them."""
    bought = {"at_ns": START_NS, "within_ns": 90 * SECOND}
    history = ops(op(Kind.LOCAL, "buys", last=START_NS, done=LATER, outcome=bought))
    given = {**input_of("o-1"), "out": b'{"gift":true}'}
    inbox = [(shop.PAID, {"of": {"order_id": "o-1"}, "cents": 3, "out": b"thanks"})]
    first = shop.step(state(history, inputs=given, inbox=inbox))
    send(world, comes("o-1", first))

    shown = aos("flow", "show", "order", "o-1", world=world).out
    found = aos("flow", "show", "order", "o-1", "--json", world=world).json
    cell = aos("inspect", "cell", "order", "o-1", world=world).out

    at = shown.index('"at_ns":"20')
    assert '"within_ns":"1m30s"}' in shown[at:]
    assert '"out": {' in shown
    assert '"out":"thanks"' in shown
    assert found["operations"][0]["value"] == bought
    assert found["input"]["out"] == base64.b64encode(b'{"gift":true}').decode()
    assert found["started_ns"] == START_NS
    for each in ('"started_ns": "20', '"within_ns": "1m30s"', '"out": "thanks"'):
        assert each in cell


def test_show_a_failure_with_its_causes(aos: Aos, lived: Path) -> None:
    """C-75"""
    text = aos("flow", "show", "order", "lost", world=lived).out
    found = aos("flow", "show", "order", "lost", "--json", world=lived).json

    assert "  join: 2 branches failed (at all)\n    critical gone (at all/a/x)\n" in text
    assert [each["code"] for each in found["error"]["causes"]] == ["gone", "late"]
    assert found["reasons"][0]["text"].startswith("the flow failed: join: 2 branches failed")


def test_show_a_divergence_with_what_to_do(aos: Aos, lived: Path) -> None:
    """C-75, A-52a"""
    found = aos("flow", "show", "order", "bad", "--json", world=lived).json
    faults = aos("inspect", "faults", "--json", world=lived).json["faults"]

    assert found["divergence"] == {
        "path": "charge", "expected": "step charge", "found": "step pay",
    }  # fmt: skip
    reason = found["reasons"][0]
    assert reason["text"].count("charge: expected step charge, found step pay") == 1
    assert "apply code that fits the history (" in reason["next"]
    assert "then aos flow resume shop/order@1 bad (or, to skip" in reason["next"]
    assert faults[0]["advice"].startswith("apply code that fits the history (")
    assert faults[0]["retry"].startswith("aos flow resume shop/order@1 bad")
    assert [each["path"] for each in found["operations"]] == ["charge", "ship-or-cancel"]


def test_a_history_that_cannot_be_read_hides_nothing_else(aos: Aos, lived: Path) -> None:
    """C-75"""
    found = aos("flow", "show", "order", "later", "--json", world=lived).json

    assert found["operations"] is None
    assert "found format 2: a later SDK wrote it" in found["history_problem"]
    assert found["input"]["order_id"] == "later"
    assert any("its history cannot be read" in each["text"] for each in found["reasons"])


def test_show_reads_the_operations_that_are_gone_from_the_journal(aos: Aos, world: Path) -> None:
    """C-75a"""
    before = ops(
        op(Kind.SCOPE, "pay", state=RUNNING),
        op(Kind.STEP, "charge", parent=1, state=RUNNING, attempts=1, last=START_NS,
           extra=step_extra(shop.CHARGE)),
        op(Kind.LOCAL, "at", parent=1, outcome=7),
    )  # fmt: skip
    after = ops(op(Kind.SCOPE, "pay", done=LATER, outcome={"charge": "c-1"}))
    charge = (shop.CHARGE, {"cents": 450}, "flow:pay/charge#1")
    first = shop.step(state(before, inputs=input_of("o-1")), charge)
    send(world, comes("o-1", first))
    at = aos("inspect", "world", "--json", world=world).json["journal"]["records"]
    intent = aos("inspect", "intents", "--json", world=world).json["intents"][0]["intent"]
    aos("effects", "settle", intent, "--ok", '{"charge": "c-1"}', world=world)
    send(world, comes("o-1", shop.step(state(after, inputs=input_of("o-1"))), shop.CANCEL))

    now = aos("flow", "show", "order", "o-1", "--json", world=world).json
    past = aos("flow", "show", "order", "o-1", "--history", "--json", world=world).json
    then = aos("flow", "show", "order", "o-1", "--at", str(at), "--json", world=world).json

    assert [each["children"] for each in now["operations"]] == [[]]
    [pay] = past["operations"]
    assert (pay["is_kept"], pay["state"]) == (True, "completed")
    step, local = pay["children"]
    assert (step["path"], step["state"], step["value"], step["is_kept"]) == (
        "pay/charge", "completed", {"charge": "c-1"}, False,
    )  # fmt: skip
    assert (local["value"], local["is_kept"]) == (7, False)
    assert [each["path"] for each in then["operations"][0]["children"]] == ["pay/charge", "pay/at"]


def test_an_instance_that_does_not_exist_is_not_shown(aos: Aos, lived: Path) -> None:
    found = aos("flow", "show", "order", "none", world=lived)

    assert (found.code, found.out) == (2, "")
    assert "shop/order@1 none: there is no such instance of the flow" in found.err


def test_inspect_shows_the_tree_and_the_paths_too(aos: Aos, lived: Path) -> None:
    """A-3a, A-66"""
    cell = aos("inspect", "cell", "order", "o-1", "--json", world=lived).json
    intent = aos("inspect", "intents", "--json", world=lived).json["intents"][0]
    trace = aos("trace", "order", "o-1", world=lived).out
    rows = aos("inspect", "intents", world=lived).out.splitlines()

    assert (rows[0].split("\t")[-1], rows[1].split("\t")[-1]) == ("at", "ship-or-cancel/ship/ship")
    assert "ops" not in cell["state"]
    assert cell["state"]["operations"][0]["path"] == "charge"
    assert intent["flow"] == {"path": "ship-or-cancel/ship/ship", "attempt": 2, "role": None}
    assert "asks shop/ship@1 at ship-or-cancel/ship/ship (attempt 2)" in trace
