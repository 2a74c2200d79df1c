"""manifests/cookbook/flow_subscription: a year of charges, a new price, a member who leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Fail, Flow, World, everywhere
from tests.cookbook.worlds import executors, recipe

MEMBERSHIP = "club/membership@1"
CHARGE, REFUND = "club/card.charge@1", "club/card.refund@1"
NO_MONEY = Fail("no_money", retryable=True)


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("flow_subscription"), now="2026-01-31T00:00:00Z") as world:
        world.on(CHARGE, {"charge": "ch"})
        world.on(REFUND, {"cents": 900})
        yield world


def join(world: World, member: str = "m-1", card: str = "visa") -> None:
    world.send("club/Joined@1", {"member_id": member, "card": card})
    world.run()


def leave(world: World, member: str = "m-1") -> None:
    world.send("club/Left@1", {"member_id": member, "reason": "moved"})
    world.run()


def flow(world: World, member: str = "m-1") -> Flow:
    found = world.flow(MEMBERSHIP, member)
    assert found is not None
    return found


def charged(world: World) -> list[tuple[int, int]]:
    return [(each.params["month"], each.params["cents"]) for each in world.asked(CHARGE)]


LEFT: dict[str, Any] = {"$tag": "Left", "$value": {"reason": "moved"}}


def test_a_year_has_twelve_charges_on_the_same_day_of_the_month(world: World) -> None:
    """A membership that begins on the 31st is due on the last day of shorter months."""
    join(world)
    assert (flow(world).status, flow(world).view) == ("sleeping", {"months": 1, "cents": 900})
    world.advance_to("2026-02-27T23:59:59Z")
    assert len(charged(world)) == 1
    world.advance_to("2026-02-28T00:00:00Z")
    assert len(charged(world)) == 2
    world.advance_to("2026-03-30T23:59:59Z")
    assert len(charged(world)) == 2
    world.advance_to("2027-01-31T00:00:00Z")

    assert charged(world) == [(month, 900) for month in range(12)]
    assert flow(world).output == {"$tag": "Expired", "$value": {"cents": 10_800}}
    assert len({each.idempotency_key for each in world.asked(CHARGE)}) == 12


def test_the_state_of_a_flow_is_as_large_in_the_last_month_as_in_the_second(world: World) -> None:
    join(world)
    world.advance("40d")
    second = len(world.state(MEMBERSHIP, "m-1")["ops"])
    world.advance("280d")

    assert flow(world).view == {"months": 11, "cents": 9_900}
    assert len(world.state(MEMBERSHIP, "m-1")["ops"]) - second < 16


def test_a_card_without_money_is_charged_again_after_one_two_and_four_days(world: World) -> None:
    world.on(CHARGE, NO_MONEY)
    join(world)
    for days, attempts in ((1, 2), (1, 2), (1, 3), (3, 3), (1, 4)):
        world.advance(f"{days}d")
        assert len(charged(world)) == attempts

    assert flow(world).status == "completed"
    assert flow(world).output == {"$tag": "Unpaid", "$value": {"month": 0, "why": "no_money"}}
    assert len({each.idempotency_key for each in world.asked(CHARGE)}) == 1
    assert world.asked(REFUND) == [], "the bank said that nothing was charged"


def test_a_late_payment_does_not_move_the_next_month(world: World) -> None:
    world.on(CHARGE, NO_MONEY)
    join(world)
    world.on(CHARGE, {"charge": "ch"})
    world.advance("1d")
    assert flow(world).view == {"months": 1, "cents": 900}

    world.advance_to("2026-02-28T00:00:00Z")

    assert charged(world) == [(0, 900), (0, 900), (1, 900)]


def test_a_member_can_leave_while_the_flow_sleeps(world: World) -> None:
    join(world)
    leave(world)
    world.finish()

    assert (flow(world).status, flow(world).output) == ("completed", LEFT)
    assert len(charged(world)) == 1
    assert world.asked(REFUND) == [], "the month that is paid stays paid"


def test_a_member_can_leave_while_a_charge_waits_for_its_next_attempt(world: World) -> None:
    world.on(CHARGE, NO_MONEY)
    join(world)
    leave(world)
    world.finish()

    assert (flow(world).status, flow(world).output) == ("completed", LEFT)
    assert len(charged(world)) == 1
    assert world.asked(REFUND) == []


def test_a_charge_in_flight_is_paid_back_when_the_member_leaves() -> None:
    with World(recipe("flow_subscription")) as world:
        world.on(REFUND, {"cents": 900})
        join(world)
        leave(world)

        assert (flow(world).status, flow(world).output) == ("completed", LEFT)
        assert [each.params for each in world.asked(REFUND)] == [{"card": "visa", "month": 0}]
        assert world.effects() == []


def test_a_card_that_is_refused_ends_the_membership(world: World) -> None:
    world.on(CHARGE, Fail("stolen"))
    join(world)

    assert flow(world).output == {"$tag": "Unpaid", "$value": {"month": 0, "why": "stolen"}}
    assert len(charged(world)) == 1


def test_a_charge_that_is_never_answered_is_paid_back_before_the_membership_ends() -> None:
    with World(recipe("flow_subscription")) as world:
        world.on(REFUND, {"cents": 900})
        join(world)
        for days in (1, 2, 4):
            world.effect(CHARGE).timeout()
            world.run()
            world.advance(f"{days}d")
        world.effect(CHARGE).timeout()
        world.run()

        assert flow(world).output == {"$tag": "Unpaid", "$value": {"month": 0, "why": "timeout"}}
        assert len({each.idempotency_key for each in world.asked(CHARGE)}) == 1
        assert len(world.asked(REFUND)) == 1


def test_the_new_price_holds_from_the_first_charge_that_the_old_release_has_not_requested(
    world: World,
) -> None:
    world.on(CHARGE, NO_MONEY)
    join(world, "in flight")
    world.on(CHARGE, {"charge": "ch"})
    join(world, "asleep")

    world.apply(recipe("flow_subscription") / "release-2")
    join(world, "new")
    world.advance("40d")

    found = {
        member: [each.params["cents"] for each in world.asked(CHARGE, key=member)]
        for member in ("in flight", "asleep", "new")
    }
    assert found == {"in flight": [900, 900, 1200], "asleep": [900, 1200], "new": [1200, 1200]}
    assert world.faults() == []


def test_members_side_by_side_do_not_mix(world: World) -> None:
    join(world, "m-1")
    join(world, "m-2")
    leave(world, "m-1")
    world.advance("30d")

    assert flow(world, "m-1").output == LEFT
    assert flow(world, "m-2").view == {"months": 2, "cents": 1800}


def test_a_crash_at_any_point_changes_nothing() -> None:
    def story(world: World) -> None:
        world.on(REFUND, {"cents": 900})
        join(world)
        world.effect(CHARGE).fail("no_money", retryable=True)
        world.run()
        world.advance("1d")
        world.effect(CHARGE).answer({"charge": "ch-0"})
        world.run()
        world.apply(recipe("flow_subscription") / "release-2")
        world.advance("30d")
        leave(world)
        assert flow(world).output == LEFT
        assert charged(world) == [(0, 900), (0, 900), (1, 1200)]
        assert len(world.asked(REFUND)) == 1

    assert everywhere(story, recipe("flow_subscription")) >= 7


def test_with_its_own_executors_a_card_decides_how_it_ends() -> None:
    source, bank = recipe("flow_subscription"), executors("flow_subscription", "bank")
    with World(source, executors=[bank]) as world:
        join(world, "m-1", "visa")
        join(world, "m-2", "broke")
        world.advance("10d")

        assert flow(world, "m-1").status == "sleeping"
        assert flow(world, "m-2").output == {
            "$tag": "Unpaid",
            "$value": {"month": 0, "why": "no_money"},
        }
