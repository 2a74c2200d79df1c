"""manifests/cookbook/flow_agent: a model with tools, a budget, and a person who approves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Fail, Flow, InputRefused, World, everywhere, in_turn, like
from tests.cookbook.worlds import executors, recipe

AGENT = "desk/agent@1"
THINK, USE, DO = "desk/model.call@1", "desk/tool.use@1", "desk/action.do@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("flow_agent")) as world:
        yield world


def ask(world: World, task: str = "t-1", *, budget: int = 1000) -> None:
    world.send("desk/Asked@1", {"task_id": task, "text": "my teapot is broken", "budget": budget})
    world.run()


def decide(world: World, *, proposal: int = 0, approved: bool = True, task: str = "t-1") -> None:
    verdict = {"task_id": task, "proposal": proposal, "approved": approved, "note": "too dear"}
    world.send("desk/Verdict@1", verdict)
    world.run()


def flow(world: World, task: str = "t-1") -> Flow:
    found = world.flow(AGENT, task)
    assert found is not None
    return found


def thought(tag: str, *, tokens: int = 100, **value: Any) -> dict[str, Any]:
    return {"tokens": tokens, "next": {"$tag": tag, "$value": value}}


def tools(*names: str, tokens: int = 100) -> dict[str, Any]:
    calls = [{"id": "", "tool": name, "argument": "x"} for name in names]
    return thought("Tools", tokens=tokens, calls=calls)


REFUND = thought("Propose", action="refund")


def test_a_model_that_knows_the_answer_ends_the_task(world: World) -> None:
    world.on(THINK, thought("Answer", text="hello"))
    ask(world)

    assert flow(world).output == {"$tag": "Answered", "$value": {"text": "hello", "tokens": 100}}


def test_three_tools_run_in_parallel_and_the_fourth_when_one_has_ended(world: World) -> None:
    """Their ids are equal: the model may make up any."""
    world.on(THINK, in_turn(tools("a", "b", "c", "d"), then=REFUND))
    ask(world)
    assert [each.params["tool"] for each in world.effects()] == ["a", "b", "c"]

    world.effect(USE, params={"tool": "b"}).answer({"text": "B"})
    world.run()

    assert [each.params["tool"] for each in world.effects()] == ["a", "c", "d"]


def test_the_results_reach_the_model_in_the_order_of_the_calls(world: World) -> None:
    world.on(THINK, in_turn(tools("a", "b"), then=REFUND))
    ask(world)
    for name in ("b", "a"):
        world.effect(USE, params={"tool": name}).answer({"text": name.upper()})
        world.run()

    found = world.asked(THINK)[1].params["conversation"]
    assert [each["text"] for each in found] == ["my teapot is broken", "A", "B"]


def test_a_tool_that_fails_or_hangs_is_told_to_the_model(world: World) -> None:
    world.on(THINK, in_turn(tools("broken", "slow"), then=thought("Answer", text="never mind")))
    ask(world)
    world.effect(USE, params={"tool": "broken"}).fail("no_such_tool")
    world.advance("2m")

    found = world.asked(THINK)[1].params["conversation"]
    assert [each["text"] for each in found[1:]] == ["failed: no_such_tool", "failed: timeout"]
    assert flow(world).status == "completed"


def test_a_model_that_is_busy_is_asked_again_under_the_same_key(world: World) -> None:
    world.on(THINK, in_turn(Fail("busy", retryable=True), then=REFUND))
    ask(world)
    world.advance("1s")

    first, second = world.asked(THINK)
    assert first.idempotency_key == second.idempotency_key


def test_nothing_is_done_without_approval(world: World) -> None:
    world.on(THINK, REFUND)
    ask(world)
    view = {"$tag": "NeedsApproval", "$value": {"proposal": 0, "action": "refund"}}
    assert (flow(world).status, flow(world).view) == ("sleeping", view)
    world.advance("23h")
    assert world.asked(DO) == []
    world.advance("1h")

    assert flow(world).output == like({"$tag": "NotDecided"})
    assert world.asked(DO) == []
    with pytest.raises(InputRefused, match="it accepts no more messages"):
        decide(world)
    assert world.asked(DO) == [], "the verdict comes too late"


def test_an_approved_action_is_done_once(world: World) -> None:
    world.on(THINK, REFUND)
    ask(world)
    decide(world)
    assert flow(world).view == {"$tag": "Acting", "$value": {"action": "refund"}}
    decide(world)
    world.effect(DO).answer({"receipt": "re-1"})
    world.run()

    assert flow(world).output == like({"$tag": "Done", "$value": {"receipt": "re-1"}})
    assert len(world.asked(DO)) == 1


def test_a_verdict_counts_for_its_own_proposal_only(world: World) -> None:
    """The second approval of the first proposal must not approve the second proposal."""
    world.on(THINK, REFUND)
    ask(world)
    decide(world, approved=False)
    assert world.asked(THINK)[1].params["conversation"][-1] == {
        "from": "person",
        "text": "rejected: too dear",
    }
    decide(world, proposal=0)
    assert world.asked(DO) == []

    decide(world, proposal=1)

    assert len(world.asked(DO)) == 1


def test_a_late_verdict_does_not_move_the_deadline(world: World) -> None:
    world.on(THINK, REFUND)
    ask(world)
    world.advance("23h")
    decide(world, proposal=5)
    world.advance("1h")

    assert flow(world).output == like({"$tag": "NotDecided"})


def test_the_model_gets_only_the_tokens_that_are_left_and_ends_without_any(world: World) -> None:
    world.on(THINK, in_turn(tools("a"), tools("a"), tools("a", tokens=50)))
    world.on(USE, {"text": "A"})
    ask(world, budget=250)

    left = [each.params["tokens_max"] for each in world.asked(THINK)]
    assert left == [250, 150, 50]
    assert flow(world).output == {"$tag": "OverBudget", "$value": {"tokens": 250}}


def test_tasks_side_by_side_do_not_mix(world: World) -> None:
    world.on(THINK, REFUND)
    ask(world, "t-1")
    ask(world, "t-2")
    decide(world, task="t-2")

    assert [each.key for each in world.effects(DO)] == ["t-2"]


def test_a_crash_at_any_point_changes_nothing() -> None:
    def story(world: World) -> None:
        world.on(THINK, in_turn(tools("a", "b", "c", "d"), REFUND, then=REFUND))
        world.on(USE, {"text": "found"})
        ask(world)
        decide(world, approved=False)
        decide(world, proposal=1)
        world.effect(DO).answer({"receipt": "re-1"})
        world.run()
        assert flow(world).output == like({"$tag": "Done", "$value": {"tokens": 300}})

    assert everywhere(story, recipe("flow_agent")) >= 10


def test_with_its_own_executors_a_person_decides_how_it_ends() -> None:
    with World(recipe("flow_agent"), executors=[executors("flow_agent", "desk")]) as world:
        for task in ("t-1", "t-2"):
            ask(world, task)
        decide(world, task="t-1")
        decide(world, task="t-2", approved=False)

        assert flow(world, "t-1").output == like({"$tag": "Done"})
        assert flow(world, "t-2").output == like({"$tag": "Answered"})
