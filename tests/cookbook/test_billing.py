"""manifests/cookbook/billing: each month is charged once, at one price, until it is paid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Effect, Fail, InputRefused, Timeout, World, in_turn, like, response
from tests.cookbook.worlds import executors, recipe

SUBSCRIPTION, HTTP, NOTIFY = "billing/subscription@1", "sys/http.request@1", "billing/notify@1"
REFUSED = response(402)


def charged(charge: str = "ch") -> object:
    return response(201, json={"charge": {"id": charge}})


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("billing"), now="2026-01-31T09:00:00Z") as world:
        world.on(NOTIFY, {"message_id": "m"})
        yield world


def subscribe(world: World, name: str = "s-1", plan: str = "basic") -> None:
    subscribed = {"subscription_id": name, "plan": plan, "card": "visa"}
    world.send("billing/Subscribed@1", subscribed)
    world.run()


def cancel(world: World, name: str = "s-1") -> None:
    world.send("billing/Canceled@1", {"subscription_id": name})
    world.run()


def body(charge: Effect) -> Any:
    return json.loads(charge.params["body"])


def ended(world: World) -> list[tuple[str, int]]:
    return [(each["why"], each["months_paid"]) for each in world.events("billing/Ended@1")]


def test_a_year_is_charged_on_the_last_day_of_each_month(world: World) -> None:
    """The first day is the 31st; a shorter month does not move the ones after it."""
    days: list[str] = []

    def answer(_: Any) -> object:
        days.append(str(world.now_ns // 86_400_000_000_000))
        return charged()

    world.on(HTTP, answer)
    subscribe(world)
    world.advance_to("2027-01-30T09:00:00Z")

    first = int(days[0])
    lengths = [0, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    assert [int(day) - first for day in days] == [sum(lengths[: n + 1]) for n in range(12)]
    assert [paid["month"] for paid in world.events("billing/Paid@1")] == list(range(12))


def test_the_request_has_the_card_the_price_and_a_key_of_its_month(world: World) -> None:
    world.on(HTTP, charged())
    subscribe(world, plan="team")
    world.advance_to("2026-02-28T09:00:00Z")

    first, second = world.asked(HTTP)
    assert first.params == like({"method": "POST", "url": "http://127.0.0.1:17471/charges"})
    assert body(first) == {
        "subscription": "s-1",
        "month": 0,
        "card": "visa",
        "amount": {"cents": 4900, "currency": "EUR"},
    }
    assert body(second)["month"] == 1
    assert (first.requested_key, second.requested_key) == ("month 0 charge 0", "month 1 charge 0")


@pytest.mark.parametrize(
    "unclear",
    [
        Timeout(),
        Fail("http_failed", retryable=True),
        response(500),
        response(201, json={"charge": {}}),
        response(201, body=b"<html>"),
    ],
    ids=["timeout", "error", "status 500", "no id", "no JSON"],
)
def test_an_unknown_outcome_is_repeated_under_the_same_key(world: World, unclear: object) -> None:
    world.on(HTTP, in_turn(unclear, unclear, charged()))
    subscribe(world)
    world.advance("2h")

    assert {each.idempotency_key for each in world.asked(HTTP)} == {
        world.asked(HTTP)[0].idempotency_key
    }
    assert len(world.asked(HTTP)) == 3
    assert world.state(SUBSCRIPTION, "s-1") == like({"phase": "Paid", "refusals": 0})
    assert world.asked(NOTIFY) == [], "the subscriber has done nothing wrong"


def test_a_receipt_that_does_not_fit_is_an_unknown_outcome_too(world: World) -> None:
    subscribe(world)
    world.effect(HTTP).answer_badly()
    world.run()

    assert world.state(SUBSCRIPTION, "s-1") == like({"phase": "Unknown"})


def test_a_bank_that_is_away_for_days_ends_no_subscription(world: World) -> None:
    world.on(HTTP, Fail("http_connect_failed", retryable=True))
    subscribe(world)
    world.advance("5d")
    world.on(HTTP, charged())
    world.advance("1h")

    assert ended(world) == []
    assert world.state(SUBSCRIPTION, "s-1") == like({"months_paid": 1})


def test_each_refusal_is_followed_by_a_mail_and_a_new_key_and_the_fourth_ends_it(
    world: World,
) -> None:
    world.on(HTTP, REFUSED)
    subscribe(world)
    world.advance("9d")

    assert [each.requested_key for each in world.asked(HTTP)] == [
        f"month 0 charge {number}" for number in range(4)
    ]
    assert [each.params["is_last"] for each in world.asked(NOTIFY)] == [False, False, False, True]
    assert ended(world) == [("unpaid", 0)]
    assert world.status(SUBSCRIPTION, "s-1") == "completed"
    assert world.timers() == []


def test_a_month_that_is_paid_after_refusals_counts_none_for_the_next(world: World) -> None:
    world.on(HTTP, in_turn(REFUSED, REFUSED, then=charged()))
    subscribe(world)
    world.advance_to("2026-02-28T09:00:00Z")

    assert world.state(SUBSCRIPTION, "s-1") == like({"months_paid": 2, "refusals": 0})


@pytest.mark.parametrize("answer", [charged(), REFUSED], ids=["next month", "next attempt"])
def test_a_cancellation_ends_a_subscription_that_waits(world: World, answer: object) -> None:
    world.on(HTTP, answer)
    subscribe(world)
    cancel(world)

    assert ended(world) == [("canceled", int(answer is not REFUSED))]
    assert world.timers() == []
    world.advance("60d")
    assert len(world.asked(HTTP)) == 1


@pytest.mark.parametrize(
    ("answer", "months"), [(charged(), 1), (REFUSED, 0)], ids=["paid", "refused"]
)
def test_a_cancellation_waits_for_the_answer_to_a_charge(
    world: World, answer: object, months: int
) -> None:
    world.on(HTTP, in_turn(Timeout(), answer))
    subscribe(world)
    cancel(world)
    assert ended(world) == []

    world.advance("1h")
    assert ended(world) == [("canceled", months)]
    assert world.asked(NOTIFY) == []


def test_a_subscription_that_does_not_exist_cannot_be_canceled(world: World) -> None:
    with pytest.raises(InputRefused) as refused:
        cancel(world, "s-9")

    assert refused.value.rule == "instance_is_unknown"
    assert world.cells() == []


def test_an_unknown_plan_ends_without_a_charge(world: World) -> None:
    subscribe(world, plan="gold")

    assert ended(world) == [("no such plan", 0)]
    assert world.asked(HTTP) == []


def test_a_subscription_that_is_sent_twice_is_charged_once(world: World) -> None:
    subscribe(world)
    subscribe(world)

    assert len(world.asked(HTTP)) == 1


def test_a_crash_while_the_bank_answers_repeats_the_same_request(world: World) -> None:
    subscribe(world)
    before = world.effect(HTTP)
    world.restart()
    after = world.effect(HTTP)

    assert (after.idempotency_key, after.params) == (before.idempotency_key, before.params)
    world.on(HTTP, charged())
    world.run()
    assert world.state(SUBSCRIPTION, "s-1") == like({"months_paid": 1})


def test_the_price_of_a_repeated_charge_survives_an_upgrade(world: World) -> None:
    """The same key with another price would be a fault of the step (K-22)."""
    world.on(HTTP, Timeout())
    subscribe(world, plan="team")
    world.apply(recipe("billing") / "release-2")
    world.on(HTTP, charged())
    world.advance_to("2026-02-28T09:00:00Z")

    assert [body(each)["amount"]["cents"] for each in world.asked(HTTP)] == [4900, 4900, 5900]
    assert world.faults() == []


def test_a_stored_state_without_the_new_field_keeps_its_bytes_until_the_next_step(
    world: World,
) -> None:
    """K-71d."""
    world.on(HTTP, charged())
    subscribe(world)
    world.apply(recipe("billing") / "release-2")
    assert "discount_cents" not in world.state(SUBSCRIPTION, "s-1")

    world.advance_to("2026-02-28T09:00:00Z")

    assert world.state(SUBSCRIPTION, "s-1") == like({"discount_cents": None, "months_paid": 2})


def test_a_migration_needs_the_state_of_the_second_release(world: World) -> None:
    world.on(HTTP, charged())
    subscribe(world)

    with pytest.raises(InputRefused) as refused:
        world.apply(recipe("billing") / "release-3", mode="migrate")

    assert refused.value.blockers
    assert world.state(SUBSCRIPTION, "s-1") == like({"plan": "basic"}), "nothing has changed"


def test_with_its_own_executor_a_refusal_is_written_in_a_mail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with World(recipe("billing"), executors=[executors("billing", "mail")]) as world:
        world.on(HTTP, REFUSED)
        subscribe(world)
        world.advance("9d")

    mails = capsys.readouterr().out.splitlines()
    assert len(mails) == 4
    assert mails[0] == "to s-1: we could not charge your card and will try again in three days"
    assert mails[3] == "to s-1: we could not charge your card; your subscription has ended"
