"""Flows in a test world, and stories with a crash after each step (T-35, T-36)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.inputs import PARKED, AttemptInput
from aos.errors import BadUsage
from aos.flow.failure import Failure
from aos.flow.operation import OperationKind as Kind
from aos.flow.operation import OperationState, UndoState
from aos.testing import Fail, World, WorldProblem, everywhere, in_turn
from aos.testing.play import play
from aos.testing.scenario import parse
from aos.values.cbor import encode
from tests.flow import shop
from tests.flow.histories import failure, listen_extra, op, ops, state, undo
from tests.flow.probe import FLOW, Probe
from tests.host.puppet import WASM
from tests.memory_world import effect, route, schema

RUNNING = OperationState.RUNNING

WAITS = ops(
    op(Kind.STEP, "charge", attempts=1, outcome={"charge": "c-1"}, extra=[shop.CHARGE]),
    op(Kind.SCOPE, "late", state=RUNNING),
    op(Kind.LISTEN, "asked", parent=2, state=RUNNING, extra=listen_extra(shop.CANCEL)),
    op(Kind.STEP, "ship", state=OperationState.FAILED, attempts=3,
       outcome=failure("gone", "no such city", path="ship"), extra=[shop.SHIP]),
    undos=[undo("charge", shop.REFUND, {"charge": "c-1"}, state=UndoState.RUNNING, attempts=2)],
)  # fmt: skip


def nodes() -> list[Any]:
    return shop.nodes()


@pytest.fixture
def world() -> World:
    return World(nodes(), modules={"shop/order.module@1": WASM.read_bytes()}, replay=False)


def started(world: World, history: bytes = WAITS, **more: Any) -> None:
    given = {"order_id": "o-1", "cents": 450, "out": None}
    out = shop.step(state(history, inputs=given, **more))
    world.send(shop.PLACED, shop.placed("o-1", out))
    world.run()


def test_a_flow_is_read_as_plain_values(world: World) -> None:
    """T-35"""
    started(world, view={"step": 2}, inbox=[(shop.PAID, {"cents": 3})], status="rolling_back")
    flow = world.flow("order", "o-1")

    assert flow is not None
    assert (flow.workflow, flow.key, flow.status) == (shop.ORDER, "o-1", "rolling_back")
    assert (flow.input["cents"], flow.output, flow.error, flow.view) == (
        450,
        None,
        None,
        {"step": 2},
    )
    assert [each.path for each in flow.operations] == ["charge", "late", "late/asked", "ship"]
    assert flow.operation("charge").value == {"charge": "c-1"}
    assert flow.operation("ship").error == Failure(
        kind="critical", code="gone", message="no such city", path="ship"
    )
    asked, refund = flow.waits
    assert (asked.path, asked.kind, asked.messages) == ("late/asked", "message", (shop.CANCEL,))
    assert (refund.path, refund.kind, refund.attempt) == ("charge/~undo", "effect", 2)
    [compensation] = flow.compensations
    assert (compensation.state, compensation.params) == ("running", {"charge": "c-1"})
    assert flow.inbox == ((shop.PAID, {"cents": 3}),)


def test_a_flow_that_does_not_exist_is_none_and_a_wrong_name_an_error(world: World) -> None:
    """T-35"""
    assert world.flow("order", "nobody") is None
    with pytest.raises(BadUsage, match="no flow is called 'orders'"):
        world.flow("orders", "o-1")
    with pytest.raises(BadUsage, match="is no flow"):
        world.flow("ledger", "o-1")


def test_an_operation_that_is_not_there_and_an_unreadable_history_are_problems(
    world: World,
) -> None:
    """T-35"""
    started(world)
    flow = world.flow("order", "o-1")
    assert flow is not None
    with pytest.raises(WorldProblem, match="no operation 'pay' \\(there are: charge, late, "):
        flow.operation("pay")
    started(world, ops(format=2))  # a second event to the same instance
    with pytest.raises(WorldProblem, match="found format 2"):
        world.flow("order", "o-1")


# A crash after each step, with a workflow that counts what it is told.

COUNT, TOLD, ECHO = "t/count@1", "t/Told@1", "t/echo@1"
WORD: Any = {"record": {"word": {"text": {}}}}


def counting() -> list[Any]:
    own = [
        schema(TOLD, {"record": {"key": {"text": {}}, "out": {"option": {"bytes": {}}}}}),
        schema("t/Key@1", {"text": {}}),
        schema("t/State@1", {"nat": {}}),
        schema("t/Word@1", WORD),
        schema(
            "t/Event@1",
            {"variant": {"Told": {"ref": TOLD}, "R": {"ref": "sys/EffectReceiptEnvelope@1"}}},
        ),
    ]
    return [
        *own,
        effect(ECHO, "t/Word@1", "t/Word@1"),
        {
            "$kind": "defmodule",
            "name": "t/m@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "m.wasm"}},
        },
        {
            "$kind": "defworkflow",
            "name": COUNT,
            "state": "t/State@1",
            "event": "t/Event@1",
            "key_schema": "t/Key@1",
            "effects_emitted": [ECHO, "sys/timer.set@1"],
            "impl": {"module": "t/m@1", "entrypoint": "step"},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [{"name": node["name"]} for node in own],
            "modules": [{"name": "t/m@1"}],
            "workflows": [{"name": COUNT}],
            "effects": [{"name": ECHO}],
            "routing": {"subscriptions": [route(TOLD, COUNT, "key")]},
        },
    ]


MODULES = {"t/m@1": WASM.read_bytes()}


def asks(word: str, at_ns: int) -> bytes:
    """A step that asks for an echo and a timer."""
    timer: Any = {"deliver_at_ns": at_ns, "key": None}
    effects: Any = [
        {"effect": ECHO, "params": encode({"word": word})},
        {"effect": "sys/timer.set@1", "params": encode(timer)},
    ]
    return encode({"state": encode(0), "status": "running", "effects": effects})


def story(world: World) -> None:
    world.on(ECHO, in_turn({"word": "one"}, Fail("busy"), then={"word": "more"}))
    for key in "ab":
        world.send(TOLD, {"key": key, "out": asks(key, world.now_ns + 60_000_000_000)})
    world.run()
    world.send(TOLD, {"key": "a", "out": None})
    world.finish()
    assert world.state(COUNT, "a") == 3


def test_a_story_is_played_once_for_each_step_with_a_crash_right_after_it() -> None:
    """T-36"""
    assert everywhere(story, counting(), modules=MODULES) == 7


def test_a_story_whose_outcome_depends_on_the_crash_is_found() -> None:
    """T-36"""
    plays: list[int] = []

    def differs(world: World) -> None:
        plays.append(1)
        world.send(TOLD, {"key": "a" if len(plays) < 3 else "b", "out": None})
        world.send(TOLD, {"key": "c", "out": None})
        world.run()

    with pytest.raises(WorldProblem, match=r"a crash after step 2 of 2 changes what happens.*key"):
        everywhere(differs, counting(), modules=MODULES)


def test_an_assertion_that_fails_after_a_crash_names_it() -> None:
    """T-36"""
    plays: list[int] = []

    def fails(world: World) -> None:
        plays.append(1)
        world.send(TOLD, {"key": "a", "out": None})
        world.run()
        assert len(plays) < 2

    with pytest.raises(AssertionError) as problem:
        everywhere(fails, counting(), modules=MODULES)
    assert "with a crash after step 1 of 1" in problem.value.__notes__


def test_a_crash_loses_no_answer_that_an_executor_gives_later() -> None:
    """T-36a"""
    with World(counting(), modules=MODULES) as world:
        world.crash_after(2)
        world.send(TOLD, {"key": "a", "out": asks("a", world.now_ns + 1)})
        world.run()
        world.effect(ECHO).answer({"word": "late"}, after="1h")
        world.send(TOLD, {"key": "a", "out": None})
        world.finish()

        assert world.steps == 4
        assert world.state(COUNT, "a") == 3


# Scenarios

SCENARIO = """
manifest = "."
crash = "everywhere"

[[step]]
send = "shop/Placed@1"
value = { order_id = "o-1", cents = 450, out = "OUT" }

[[step]]
expect = "flow"
workflow = "order"
key = "o-1"
status = "running"
input = { cents = 450 }
operations = [
    { path = "charge", state = "completed", value = { charge = "c-1" } },
    { path = "late" },
    { path = "late/asked", kind = "listen" },
    { path = "ship", error = { code = "gone" } },
]
waits = [{ kind = "message", schemas = ["shop/Cancel@1"] }, { path = "charge/~undo" }]
compensations = [{ path = "charge", params = { charge = "c-1" } }]

[[step]]
expect = "flow"
workflow = "order"
key = "o-2"
is_gone = true
"""


def scenario(tmp_path: Path, text: str) -> Any:
    (tmp_path / "m.air.json").write_text(json.dumps(nodes()))
    (tmp_path / "m.wasm").write_bytes(WASM.read_bytes())
    given = {"order_id": "o-1", "cents": 450, "out": None}
    out = base64.b64encode(shop.step(state(WAITS, inputs=given))).decode()
    path = tmp_path / "x.scenario.toml"
    return parse(text.replace("OUT", out).encode(), path)


def test_a_scenario_checks_a_flow_and_crashes_everywhere(tmp_path: Path) -> None:
    """T-60, T-64"""
    found = play(scenario(tmp_path, SCENARIO))

    assert found.failure is None, found.failure


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('status = "running"', 'status = "stuck"', '$.status: expected "stuck", found "running"'),
        ('code = "gone"', 'code = "here"', '$.operations[3].error.code: expected "here"'),
        ("is_gone = true", 'status = "running"', "expected order, found no such flow"),
        ('key = "o-2"', 'key = "o-1"', "expected no such flow, found one that is running"),
    ],
)
def test_a_scenario_names_the_place_where_a_flow_differs(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    """T-64"""
    found = play(scenario(tmp_path, SCENARIO.replace(old, new)))

    assert found.failure is not None
    assert text in found.failure.message


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"everywhere"', '"here"', "crash: invalid value: expected everywhere, found 'here'"),
        ("is_gone = true", "", "the step checks nothing: expected status, input, output, error"),
        ('key = "o-2"\n', "", "key is missing"),
    ],
)
def test_a_scenario_with_a_mistake_is_refused(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    """T-60, T-64"""
    with pytest.raises(BadUsage) as problem:
        scenario(tmp_path, SCENARIO.replace(old, new))

    assert text in str(problem.value)


def test_a_flow_whose_effect_is_parked_is_listed_so() -> None:
    """C-74"""
    with Probe("steps", answers=False) as probe:
        probe.begin()
        assert shown_status(probe) == "running"
        [intent] = probe.world._desk.state.intents.values()
        parked = AttemptInput(
            intent=intent.intent, attempt=1, phase=PARKED, problem="no", code="exception"
        )
        probe.world._desk.admit(parked)  # no executor of a test world parks

        assert shown_status(probe) == "parked"
        probe.world.abandon()


def shown_status(probe: Probe) -> str:
    flow = probe.world.flow(FLOW, probe.key)
    assert flow is not None
    return flow.status
