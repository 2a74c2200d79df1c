"""The order workflow in a world in memory: time passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from aos.testing import Fail, World, in_turn, like

ORDER = "project-name/order@1"
PLACED = "project-name/Placed@1"
PAID = "project-name/Paid@1"
DECLINED = "project-name/Declined@1"
CHARGE = "project-name/charge@1"

Worlds = Callable[..., World]

CLOSED = Fail("bank_closed", retryable=True)


def placed(order: str = "o-1", cents: int = 1250) -> tuple[str, dict[str, object]]:
    return PLACED, {"order_id": order, "cents": cents}


def test_an_order_is_paid(aos_world: Worlds) -> None:
    world = aos_world()
    world.on(CHARGE, {"charge": "ch-1"})

    world.send(*placed())
    world.run()

    assert world.status(ORDER, "o-1") == "completed"
    assert world.events(PAID) == [{"order_id": "o-1", "charge": "ch-1"}]


def test_a_closed_bank_is_retried_after_a_pause_that_doubles(aos_world: Worlds) -> None:
    world = aos_world()
    world.on(CHARGE, in_turn(CLOSED, CLOSED, {"charge": "ch-1"}))

    world.send(*placed())
    world.run()
    assert world.state(ORDER, "o-1") == like({"phase": "Waiting", "attempts": 1})
    world.advance("1s")
    assert world.state(ORDER, "o-1") == like({"phase": "Waiting", "attempts": 2})
    world.advance("1s")
    assert len(world.asked(CHARGE)) == 2, "the second pause is two seconds"
    world.advance("1s")

    assert world.state(ORDER, "o-1") == like({"phase": "Paid", "attempts": 3})
    keys = {effect.idempotency_key for effect in world.asked(CHARGE)}
    assert len(keys) == 1, "to the bank it is one charge"


def test_a_bank_that_stays_closed_declines_the_order(aos_world: Worlds) -> None:
    world = aos_world()
    world.on(CHARGE, CLOSED)

    world.send(*placed())
    world.finish(within="1m")

    assert world.events(DECLINED) == [{"order_id": "o-1", "reason": "bank_closed"}]
    assert len(world.asked(CHARGE)) == 4


def test_an_answer_that_does_not_come_counts_as_a_closed_bank(aos_world: Worlds) -> None:
    world = aos_world()

    world.send(*placed())
    world.run()
    world.effect(CHARGE).timeout()
    world.run()

    assert world.state(ORDER, "o-1") == like({"phase": "Waiting", "attempts": 1})


def test_an_order_that_is_placed_twice_is_charged_once(aos_world: Worlds) -> None:
    world = aos_world()
    world.on(CHARGE, {"charge": "ch-1"})

    world.send(*placed())
    world.send(*placed())
    world.run()

    assert len(world.asked(CHARGE)) == 1


def test_the_functions_of_effects_py_do_what_the_workflow_expects(aos_world: Worlds) -> None:
    world = aos_world(executors=["effects.py:project_name"])

    world.send(*placed("slow-1"))
    world.send(*placed("large-1", cents=1_000_000))
    world.finish(within="1m")

    assert [event["order_id"] for event in world.events(PAID)] == ["slow-1"]
    assert world.events(DECLINED) == [{"order_id": "large-1", "reason": "over_limit"}]
