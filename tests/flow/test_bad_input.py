"""Input that no program expects: too much of it, or for nothing that is there. Each has a clear
error, or changes nothing, and nothing is lost (FL-3, FL-5, FL-6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.sandbox.engine import Sandbox
from aos.testing import InputRefused
from aos.values.cbor import decode_record, encode
from tests.flow.comparison import RUN
from tests.flow.probe import Probe
from tests.flow.programs import KEY, Modelled, manifest
from tests.flow.test_programs import node, output
from tests.modules.guests import Case
from tests.tools import long_form

MESSAGES: Final = 2_000 if long_form() else 200
BRANCHES: Final = 1_000 if long_form() else 200


@pytest.mark.long
def test_many_messages_at_once_are_consumed_in_order() -> None:
    modelled = Modelled(compares=False)
    nodes = [node("listen"), node("loop", nodes=[0], number=MESSAGES)]
    modelled.begin({"id": KEY, "nodes": nodes, "body": [1]})
    modelled.go_on()
    for _ in range(MESSAGES):
        modelled.send("f/Note@1", KEY)
    modelled.world.restart()
    modelled.go_on()

    assert modelled.status == "completed"
    assert output(modelled) == "".join(f"m{place};" for place in range(1, MESSAGES + 1)) + ";"
    modelled.world.abandon()


@pytest.mark.long
def test_many_branches_at_once_request_their_effects_and_are_canceled() -> None:
    with Probe("many", count=BRANCHES, answers=False) as probe:
        probe.begin()
        assert len(probe.world.effects("t/do@1")) == BRANCHES
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.world.effects() == []
        assert probe.undone == []


def test_a_control_for_an_instance_that_never_was_is_refused_and_makes_none() -> None:
    with Probe("sleep") as probe:
        command = {"$tag": "Cancel", "$value": {"rollback": True}}
        with pytest.raises(InputRefused, match="does not exist"):
            probe.world.send("t/ProbeControl@1", {"instance": "never", "command": command})

        assert probe.world.cells() == []


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(manifest().modules.__getitem__)


def begun(sandbox: Sandbox, *flags: str) -> Case:
    """A cell whose flow waits for its first step, and then for a message."""
    case = Case(manifest(), sandbox, RUN, KEY)
    step = node("step", flags=list(flags))
    program = {"id": KEY, "nodes": [step, node("listen")], "body": [0, 1]}
    assert case.send("f/Run@1", program).refs == ["flow:step#1"]
    return case


def test_a_receipt_for_nothing_open_changes_nothing(sandbox: Sandbox) -> None:
    """FL-3: of another attempt, of an operation that ended, of none that ever was."""
    case = begun(sandbox)
    case.asked |= dict.fromkeys(
        ("flow:step#9", "flow:nothing#1", "else", ""), case.asked["flow:step#1"]
    )
    before = case.state
    for ref in ("flow:step#9", "flow:nothing#1", "else", ""):
        assert case.ok(ref, {"note": "late"}).effects == []
        assert case.state == before
    case.ok("flow:step#1", {"note": "done"})
    ended = case.state
    case.ok("flow:step#1", {"note": "again"})

    assert before != ended == case.state


def test_a_step_of_an_earlier_engine_is_canceled_without_waiting(sandbox: Sandbox) -> None:
    """FL-22, FL-60a: it does not say whether the step has a rollback."""
    case = begun(sandbox, "rollback")
    before = case.state
    assert before is not None
    assert case.send("f/RunControl@1", CANCEL).state["status"] == "rolling_back"

    case.state = rewritten(before, drop=1)
    assert case.send("f/RunControl@1", CANCEL).state["status"] == "cancelled"


def test_a_call_of_an_earlier_engine_is_canceled_as_that_engine_did(sandbox: Sandbox) -> None:
    """FL-22, FL-73: its child may be of the earlier version, too, and take no other form."""
    case = Case(manifest(), sandbox, RUN, KEY)
    call = node("call", text="x", nodes=[1])
    case.send("f/Run@1", {"id": KEY, "nodes": [call, node("step")], "body": [0]})
    before = case.state
    assert before is not None
    parent = {"schema": "f/RunReturn@1", "key": encode(KEY), "path": "call", "attempt": 1}
    assert canceled(case) == {"rollback": True, "parent": parent}

    case.state = rewritten(before, drop=1)
    assert canceled(case) == {"rollback": True, "parent": None}


CANCEL: Final = {"instance": KEY, "command": {"$tag": "Cancel", "$value": {"rollback": True}}}


def canceled(case: Case) -> Any:
    """The command by which the child is canceled."""
    [(schema, value)] = case.send("f/RunControl@1", CANCEL).events
    assert schema == "f/PartControl@1"
    return value["command"]["$value"]


def rewritten(state: bytes, *, drop: int) -> bytes:
    """The state, where the body of the last operation lacks its last items."""
    fields: Any = decode_record(state)
    ops: Any = decode_record(fields["ops"])
    del ops[1][-1][-1][-drop:]
    return encode({**fields, "ops": encode(ops)})


BROKEN: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut short": lambda ops: ops[:-1],
    "longer": lambda ops: ops + b"\0",
    "of a later format": lambda ops: encode([2, *_items(ops)[1:]]),
    "of another shape": lambda ops: encode(_items(ops)[:2]),
    "with an unknown kind": lambda ops: encode([1, [_altered(ops, 1, 99)], []]),
    "with an unknown state": lambda ops: encode([1, [_altered(ops, 3, 9)], []]),
    "with a parent that does not come before": lambda ops: encode([1, [_altered(ops, 0, 1)], []]),
}


def _items(ops: bytes) -> list[Any]:
    found: Any = decode_record(ops)
    return list(found)


def _altered(ops: bytes, field: int, value: int) -> list[Any]:
    operation: list[Any] = list(_items(ops)[1][0])
    operation[field] = value
    return operation


@pytest.mark.parametrize("how", BROKEN)
def test_a_history_that_cannot_be_read_is_a_fault_and_stays(sandbox: Sandbox, how: str) -> None:
    """FL-5, FL-20"""
    case = begun(sandbox)
    assert case.state is not None
    state: Any = decode_record(case.state)
    case.state = encode({**state, "ops": BROKEN[how](state["ops"])})
    before = case.state
    stepped = case.send("f/Note@1", {"id": KEY, "text": "x"})

    assert stepped.fault is not None
    assert "flow_history" in stepped.fault.message
    assert (stepped.effects, stepped.events, case.state) == ([], [], before)
