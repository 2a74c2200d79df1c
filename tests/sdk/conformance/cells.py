"""Scenarios: emitting, statuses, deletion, faults, annotations, the context."""

from __future__ import annotations

import re
import uuid
from typing import Any

from aos.values.digests import hash_text
from tests.sdk.conformance.chance import Chance
from tests.sdk.conformance.driver import ConformanceWorld, Emitted, Seen


def events_go_where_the_routing_says(world: ConformanceWorld) -> None:
    say = {"from": "ann", "to": ["bob", "ann", "cleo"], "with_key": False}

    said = world.give("conformance/Say@1", say)

    assert said.events == tuple(
        Emitted(schema="conformance/Said@1", value={"from": "ann", "to": name})
        for name in ("bob", "ann", "cleo")
    )
    assert [each.state for each in world.seen[1:]] == 3 * [{"heard": ["ann"]}]


def an_event_may_name_its_key(world: ConformanceWorld) -> None:
    said = world.give("conformance/Say@1", {"from": "ann", "to": ["bob"], "with_key": True})

    value = {"from": "ann", "to": "bob"}
    assert said.events == (Emitted(schema="conformance/Said@1", value=value, key="bob"),)
    assert world.seen[-1].state == {"heard": ["ann"]}


def nothing_is_emitted_without_a_receiver(world: ConformanceWorld) -> None:
    said = world.give("conformance/Say@1", {"from": "ann", "to": [], "with_key": True})

    assert (said.events, said.state) == ((), {"heard": []})


def act(world: ConformanceWorld, act: object, id: int = 1) -> Seen:
    return world.give("conformance/Act@1", {"id": id, "act": act})


def a_declared_status_holds_until_another_is_declared(world: ConformanceWorld) -> None:
    acts = ("Keep", "Complete", "Keep", "Fail", "Keep", "Run", "Keep")

    seen = [act(world, name) for name in acts]

    assert [each.declared for each in seen] == [
        None, "completed", None, "failed", None, "running", None,
    ]  # fmt: skip
    assert [each.status for each in seen] == [
        "running", "completed", "completed", "failed", "failed", "running", "running",
    ]  # fmt: skip
    assert [each.state["steps"] for each in seen] == [1, 2, 3, 4, 5, 6, 7]


def a_deleted_cell_starts_from_scratch(world: ConformanceWorld) -> None:
    act(world, "Keep")
    deleted = act(world, "Delete")
    anew = act(world, "Keep")

    assert (deleted.state, deleted.status, deleted.fault) == (None, "gone", None)
    assert anew.state == {"steps": 1}


def deleting_with_effects_is_a_fault(world: ConformanceWorld) -> None:
    act(world, "Keep")
    seen = act(world, "DeleteAndAsk")

    assert seen.fault is not None
    assert seen.fault[0] == "deleted_with_effects"
    assert world.state_of("conformance/status@1", 1) == {"steps": 1}
    assert not world.open()


def a_fault_says_its_kind_and_message(world: ConformanceWorld) -> None:
    act(world, "Keep")
    seen = act(world, {"Fault": {"kind": "out of stock", "message": "no more é"}})

    assert seen.fault is not None
    assert seen.fault[0] == "guest"
    assert "out of stock" in seen.fault[1]
    assert "no more " in seen.fault[1]
    assert world.state_of("conformance/status@1", 1) == {"steps": 1}


def a_fault_drops_all_that_was_decided_before(world: ConformanceWorld) -> None:
    seen = act(world, "FaultLate", id=7)

    assert seen.fault is not None
    assert seen.fault[0] == "guest"
    assert "late" in seen.fault[1]
    assert "after all" in seen.fault[1]
    assert not world.open()
    assert world.cell("conformance/status@1", 7).state is None


def a_failed_assertion_is_a_trap_with_its_place_and_words(world: ConformanceWorld) -> None:
    seen = act(world, "Trap")

    assert seen.fault is not None
    assert seen.fault[0] == "trap"
    assert re.fullmatch(r"status: panicked: [\w./]+:\d+:\d+: as asked", seen.fault[1])
    assert seen.output is None


def the_last_annotation_counts(world: ConformanceWorld) -> None:
    none = world.give("conformance/Annotate@1", {"texts": []})
    one = world.give("conformance/Annotate@1", {"texts": ["a"]})
    two = world.give("conformance/Annotate@1", {"texts": ["b", "c"]})

    assert [each.ann for each in (none, one, two)] == [
        None,
        {"steps": 2, "text": "a"},
        {"steps": 3, "text": "c"},
    ]


def a_log_is_an_annotation(world: ConformanceWorld) -> None:
    silent = world.give("conformance/Write@1", {"lines": []})
    loud = world.give("conformance/Write@1", {"lines": ["one", "", "three é"]})

    assert silent.ann is None
    assert loud.ann == {"lines": ["one", "", "three é"]}
    assert loud.state == {"steps": 2}


def context_and_chance_are_those_of_the_kernel(world: ConformanceWorld) -> None:
    bounds = [1, 2, 3, 1000, 2**63, 2**63 + 1, 2**64 - 1]

    seen = world.give("conformance/Look@1", {"id": -7, "below": bounds, "bytes": 21})

    view: dict[str, Any] = seen.state
    chance = Chance(view["entropy"])
    assert view["random"] == [chance.draw() for _ in range(3)]
    assert view["below"] == [chance.below(bound) for bound in bounds]
    assert view["bytes"] == chance.take(21)
    assert view["uuid"] == chance.uuid()
    assert uuid.UUID(view["uuid"]).version == 4
    assert len(view["entropy"]) == 64
    step = world.steps()[-1]
    assert view["journal_height"] == step.seq
    assert view["now_ns"] == view["logical_now_ns"] == world.now_ns
    assert view["workflow"] == "conformance/context@1"
    assert view["workflow_hash"] == hash_text(
        world.effective.workflows["conformance/context@1"].hash
    )
    assert view["manifest_hash"] == hash_text(world.effective.manifest_hash)
    assert (view["key"], view["cell_mode"]) == (-7, True)


def every_step_draws_new_numbers(world: ConformanceWorld) -> None:
    look = {"id": 0, "below": [], "bytes": 0}
    first, second = (world.give("conformance/Look@1", look).state for _ in range(2))

    assert first["random"] != second["random"]
    assert first["uuid"] != second["uuid"]
    assert (first["bytes"], first["below"]) == (b"", [])
