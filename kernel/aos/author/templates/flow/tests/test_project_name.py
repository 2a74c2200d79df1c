"""The order flow in a world in memory: a month passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from aos.testing import Fail, Flow, World, everywhere, in_turn

ORDER = "project-name/order@1"
PLACED = "project-name/Placed@1"
CANCEL = "project-name/Cancel@1"
SHIPPED = "project-name/Shipped@1"
CHARGE = "project-name/charge@1"
REFUND = "project-name/refund@1"
SHIP = "project-name/ship@1"
ASK = "project-name/ask@1"

Worlds = Callable[..., World]

CLOSED = Fail("bank_closed", retryable=True)


def shop(world: World) -> World:
    """The bank answers in this world; the warehouse answers when a test says so."""
    world.on(CHARGE, {"charge": "ch-1"})
    world.on(REFUND, {"refund": "re-1"})
    world.on(ASK, {"mail": "m-1"})
    return world


def placed(key: str = "o-1", cents: int = 1250) -> tuple[str, dict[str, object]]:
    return PLACED, {"order_id": key, "cents": cents}


def cancel(key: str = "o-1") -> tuple[str, dict[str, object]]:
    return CANCEL, {"order_id": key, "reason": "too late"}


def order(world: World, key: str = "o-1") -> Flow:
    flow = world.flow(ORDER, key)
    assert flow is not None
    return flow


def test_an_order_is_shipped_and_a_month_later_the_customer_is_asked(aos_world: Worlds) -> None:
    world = shop(aos_world())
    world.on(SHIP, {"parcel": "pa-1"})

    world.send(*placed())
    world.run()
    assert world.events(SHIPPED) == [{"order_id": "o-1", "parcel": "pa-1"}]
    assert order(world).status == "sleeping"
    assert [wait.path for wait in order(world).waits] == ["month"]
    world.advance("29d")
    assert world.asked(ASK) == []
    world.advance("1d")

    assert order(world).status == "completed"
    assert order(world).output == {"parcel": "pa-1"}
    assert len(world.asked(ASK)) == 1
    assert world.asked(REFUND) == []


def test_a_closed_bank_is_retried_after_a_pause_that_doubles(aos_world: Worlds) -> None:
    world = shop(aos_world())
    world.on(CHARGE, in_turn(CLOSED, CLOSED, {"charge": "ch-1"}))

    world.send(*placed())
    world.run()
    world.advance("1s")
    world.advance("1s")
    assert len(world.asked(CHARGE)) == 2, "the second pause is two seconds"
    world.advance("1s")

    assert len(world.asked(SHIP)) == 1
    keys = {effect.idempotency_key for effect in world.asked(CHARGE)}
    assert len(keys) == 1, "to the bank it is one charge"


def test_a_bank_that_stays_closed_fails_the_order(aos_world: Worlds) -> None:
    world = shop(aos_world())
    world.on(CHARGE, CLOSED)

    world.send(*placed())
    world.finish(within="1m")

    assert order(world).status == "failed"
    assert len(world.asked(CHARGE)) == 4
    assert world.asked(REFUND) == [], "nothing was charged"


def test_an_order_that_is_canceled_in_time_gets_its_money_back(aos_world: Worlds) -> None:
    world = shop(aos_world())

    world.send(*placed())
    world.run()
    world.send(*cancel())
    world.run()

    assert order(world).status == "failed"
    assert [undone.path for undone in order(world).compensations] == ["charge"]
    assert [effect.params for effect in world.asked(REFUND)] == [{"charge": "ch-1"}]
    assert world.events(SHIPPED) == []


def test_a_parcel_that_is_on_its_way_cannot_be_canceled(aos_world: Worlds) -> None:
    world = shop(aos_world())
    world.on(SHIP, {"parcel": "pa-1"})

    world.send(*placed())
    world.run()
    world.send(*cancel())
    world.finish(within="31d")

    assert order(world).status == "completed"
    assert world.asked(REFUND) == []


def test_a_process_that_is_killed_at_any_point_changes_nothing() -> None:
    def story(world: World) -> None:
        shop(world).on(SHIP, {"parcel": "pa-1"})
        world.send(*placed())
        world.run()
        world.advance("30d")

    everywhere(story)


def test_the_functions_of_effects_py_do_what_the_flow_expects(aos_world: Worlds) -> None:
    world = aos_world(executors=["effects.py:project_name"])

    world.send(*placed("slow-1"))
    world.send(*placed("late-1"))
    world.send(*placed("large-1", cents=1_000_000))
    world.advance("1m")
    world.send(*cancel("late-1"))
    world.advance("30d")

    assert [event["order_id"] for event in world.events(SHIPPED)] == ["slow-1"]
    statuses = {key: order(world, key).status for key in ("slow-1", "late-1", "large-1")}
    assert statuses == {"slow-1": "completed", "late-1": "failed", "large-1": "failed"}
    assert len(world.asked(REFUND)) == 1
