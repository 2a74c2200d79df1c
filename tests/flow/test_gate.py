"""The gate decodes everything that later turns will decode (FL-90a): flows that would break only
then are named before their new code is in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.core.decide.flow_gate import FlowGate, flow_gate
from aos.flow.flow_state import TRIED
from aos.testing import Fail
from aos.testing.sources import SHARED, loaded
from tests.flow.probe import FLOW, HOUR, MODULE, NEVER, Probe, nodes, wasm

UNDO: Final = "t/undo@1"

Change = Callable[[dict[str, Any]], None]


def tried(probe: Probe, change: Change | None = None, entrypoint: str = "next") -> FlowGate:
    """Try the later code, with changed nodes, on the flow."""
    given = nodes(entrypoint)
    if change is not None:
        for node in given:
            change(node)
    later = loaded(given, {MODULE: wasm()}, abi=None)
    SHARED.add(later.modules)
    desk = probe.world._desk  # a world applies, and does not only try
    return SHARED.on_module_thread(
        lambda: flow_gate(desk.state, later.effective, {FLOW: TRIED}, runner=SHARED, read=desk.read)
    )


def stopped(gate: FlowGate) -> list[tuple[str, str, str]]:
    found = [each.divergence for each in gate.stopped]
    return [(each.path, each.expected, each.found) for each in found if each is not None]


def without_undo(node: dict[str, Any]) -> None:
    if node.get("name") == FLOW:
        node["effects_emitted"].remove(UNDO)


def with_other_params(node: dict[str, Any]) -> None:
    if node.get("name") == "t/UndoParams@1":
        node["type"]["record"]["why"] = {"text": {}}


def with_more_params(node: dict[str, Any]) -> None:
    if node.get("name") == "t/UndoParams@1":
        node["type"]["record"]["why"] = {"option": {"text": {}}}


def with_other_notes(node: dict[str, Any]) -> None:
    if node.get("name") == "t/Note@1":
        node["type"]["record"]["text"] = {"nat": {}}


def without_do(node: dict[str, Any]) -> None:
    if node.get("name") == "t/probe@1":
        node["effects_emitted"].remove("t/do@1")


def steps(probe: Probe) -> None:
    probe.answer(two=NEVER)
    probe.begin()


def stuck(probe: Probe) -> None:
    probe.answer(one_two=Fail("no", "on purpose"), undo_two=Fail("no", "on purpose"))
    probe.begin()
    probe.world.finish()
    assert probe.status == "stuck"


@pytest.mark.parametrize("story", [steps, stuck])
def test_a_compensation_whose_effect_was_dropped_is_named(story: Callable[[Probe], None]) -> None:
    with Probe("steps") as probe:
        story(probe)
        assert stopped(tried(probe)) == []

        [first, *_] = stopped(tried(probe, without_undo))

        assert first == (
            "one/~undo", f"a compensation of {UNDO}", "does not have it in effects(…)",
        )  # fmt: skip


def test_a_compensation_whose_params_changed_is_named() -> None:
    with Probe("steps") as probe:
        steps(probe)
        assert stopped(tried(probe, with_more_params)) == []

        [(path, expected, reason)] = stopped(tried(probe, with_other_params))

        assert (path, expected) == ("one/~undo", f"a compensation of {UNDO}")
        assert "why" in reason


def test_a_compensation_that_is_registered_only_in_doubt_is_named() -> None:
    with Probe("timeout", count=3) as probe:
        probe.answer(slow=NEVER)
        probe.begin()

        [(path, expected, _)] = stopped(tried(probe, without_undo))

        assert (path, expected) == ("slow/~undo", f"a compensation of {UNDO}")


def test_an_effect_that_is_tried_again_is_named_if_it_was_dropped() -> None:
    with Probe("retry") as probe:
        probe.answer(**{"try": Fail("busy", retryable=True)})
        probe.begin()

        [(path, expected, _)] = stopped(tried(probe, without_do))

        assert (path, expected) == ("try", "a step of t/do@1")


def test_a_message_that_waits_is_named_if_its_type_changed() -> None:
    with Probe("drains", count=1) as probe:
        probe.begin()
        probe.note("x")
        assert stopped(tried(probe)) == []

        [(path, expected, reason)] = stopped(tried(probe, with_other_notes))

        assert (path, expected) == ("inbox", "message 0 of t/Note@1")
        assert reason.startswith("another type: ")


def test_a_message_that_a_branch_may_give_back_is_named_if_its_type_changed() -> None:
    with Probe("gives-back") as probe:
        probe.begin()
        probe.note("x")
        assert stopped(tried(probe)) == []

        [(path, expected, _)] = stopped(tried(probe, with_other_notes))

        assert (path, expected) == ("race/greedy/inner", "message 0 of t/Note@1")


def test_the_value_of_a_finished_branch_is_named_if_its_type_changed() -> None:
    with Probe("changed-value") as probe:
        probe.begin()
        assert probe.paths["both/left"] == "branch completed"
        assert probe.paths["both/right/nap"] == "sleep running"
        assert stopped(tried(probe, entrypoint="probe")) == []

        [(path, expected, _)] = stopped(tried(probe))

        assert (path, expected) == ("both/left", "a value of another type")
        probe.upgrade()
        before = probe.state
        probe.note("decodes nothing")
        assert probe.state["ops"] == before["ops"]
        probe.world.advance(HOUR, may_fail=True)
        assert "a value of another type" in probe.fault[1]


def test_a_flow_that_waits_for_the_answer_of_a_canceled_step_is_tried_with_its_code() -> None:
    with Probe("undoes-a-call") as probe:
        probe.answer(undo_kid=Fail("no", "on purpose"))
        probe.begin()
        probe.control("Cancel", {"rollback": True})
        assert probe.status == "rolling_back"
        assert stopped(tried(probe)) == []
        before = probe.state

        probe.control("Continue")

        assert probe.state == before
