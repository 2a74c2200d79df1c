"""shop/order@1, a transition at a time: (state, event) -> (state, events, effects).

The rules are at the head of modules/orders/src/order.rs.
"""

from __future__ import annotations

from typing import Any

import pytest

from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from tests.modules.guests import MS, START_NS, Case, Stepped

ITEMS = [
    {"sku": "kettle", "quantity": 2, "price_cents": 3195},
    {"sku": "rope", "quantity": 1, "price_cents": 1899},
]
CENTS = 2 * 3195 + 1899
PLACED = {"order_id": "ord-1", "customer_id": "cus-1", "items": ITEMS, "patience": "10m"}

RESERVED: Any = {"reservation": "res-1"}
CHARGED: Any = {"charge": "chg-1", "amount_cents": CENTS}
SHIPPED: Any = {"parcel": "par-1"}
REFUNDED: Any = {"refunded_cents": CENTS}
NOTHING_REFUNDED: Any = {"refunded_cents": 0}
RELEASED: Any = {"released": True}


@pytest.fixture
def order(orders: Loaded, sandbox: Sandbox) -> Case:
    return Case(orders, sandbox, "shop/order@1", "ord-1")


def place(order: Case) -> Stepped:
    return order.send("shop/OrderPlaced@1", PLACED)


def overdue(order: Case) -> Stepped:
    return order.send("shop/OrderOverdue@1", {"order_id": "ord-1"})


def cancel(order: Case) -> Stepped:
    return order.send("shop/OrderCancelRequested@1", {"order_id": "ord-1"})


def to_charging(order: Case) -> Stepped:
    place(order)
    return order.ok("reserve/1", RESERVED)


def to_shipping(order: Case) -> Stepped:
    to_charging(order)
    return order.ok("charge/1", CHARGED)


def is_closed(stepped: Stepped, outcome: str) -> bool:
    assert stepped.emitted[-1:] == ["OrderClosed"]
    assert stepped.events[-1][1]["outcome"] == {"$tag": outcome}
    assert stepped.state["outcome"] == {"$tag": outcome}
    assert stepped.state["phase"] == {"$tag": "Closed"}
    assert stepped.status == ("failed" if outcome == "Stuck" else "completed")
    return True


# --- The way that an order should go --------------------------------------------------------------


def test_a_placed_order_reserves_its_stock_and_says_when_it_is_late(order: Case) -> None:
    stepped = place(order)

    [reserve] = stepped.effects
    assert reserve.effect == "shop/stock.reserve@1"
    assert reserve.params == {"order_id": "ord-1", "items": ITEMS}
    assert reserve.key == "ord-1/reserve"
    [(schema, accepted)] = stepped.events
    assert schema == "shop/OrderAccepted@1"
    assert accepted["deadline"] == START_NS + 600_000 * MS
    assert stepped.state["amount_cents"] == CENTS
    assert stepped.status == "running"


def test_reserved_stock_is_paid_for_and_a_paid_order_is_shipped(order: Case) -> None:
    [charge] = to_charging(order).effects
    assert charge.params == {"order_id": "ord-1", "customer_id": "cus-1", "amount_cents": CENTS}
    assert (charge.effect, charge.key, charge.ref) == (
        "shop/card.charge@1",
        "ord-1/charge",
        "charge/1",
    )

    charged = order.ok("charge/1", CHARGED)
    [ship] = charged.effects
    assert charged.emitted == ["OrderCharged"]
    assert ship.params == {"order_id": "ord-1", "items": ITEMS, "value_cents": CENTS}

    shipped = order.ok("ship/1", SHIPPED)
    assert shipped.emitted == ["OrderShipped", "OrderClosed"]
    assert shipped.effects == []
    assert is_closed(shipped, "Shipped")


def test_every_step_says_what_it_decided(order: Case) -> None:
    assert place(order).note == "reserve (attempt 1)"
    assert order.timeout("reserve/1").note == (
        "reserve without a clear answer: timeout; reserve again in 200 ms"
    )


# --- Retries --------------------------------------------------------------------------------------


def test_a_charge_is_tried_again_after_a_growing_wait_under_the_same_key(order: Case) -> None:
    to_charging(order)
    first = order.asked["charge/1"]

    waits = []
    for attempt in range(1, 5):
        waiting = order.timeout(f"charge/{attempt}")
        [timer] = waiting.effects
        assert timer.effect == "sys/timer.set@1"
        assert waiting.state["charge"] == {"$tag": "Unclear", "$value": attempt}
        waits.append((timer.params["deliver_at_ns"] - order.now_ns) // MS)
        again = order.fire(f"charge/{attempt}/retry")
        assert again.refs == [f"charge/{attempt + 1}"]
        assert (again.effects[0].key, again.effects[0].params) == (first.key, first.params)

    assert waits == [200, 400, 800, 1600]


@pytest.mark.parametrize(("ref", "attempts"), [("reserve", 4), ("charge", 5)])
def test_stock_and_payment_that_never_answer_are_given_up_and_undone(
    order: Case, ref: str, attempts: int
) -> None:
    place(order)
    if ref == "charge":
        order.ok("reserve/1", RESERVED)

    for attempt in range(1, attempts):
        order.error(f"{ref}/{attempt}", "unavailable", retryable=True)
        order.fire(f"{ref}/{attempt}/retry")
    given_up = order.timeout(f"{ref}/{attempts}")

    # Rule 2: an operation that may have taken effect is undone by order.
    assert given_up.refs == (["release/1"] if ref == "reserve" else ["refund/1", "release/1"])
    assert given_up.state["outcome"] == {"$tag": "Unavailable"}


def test_the_wait_grows_to_five_seconds_and_shipping_is_never_given_up(order: Case) -> None:
    to_shipping(order)

    for attempt in range(1, 40):
        [timer] = order.timeout(f"ship/{attempt}").effects
        wait_ms = (timer.params["deliver_at_ns"] - order.now_ns) // MS
        assert wait_ms == min(200 * 2 ** (attempt - 1), 5000)
        assert order.fire(f"ship/{attempt}/retry").refs == [f"ship/{attempt + 1}"]

    assert is_closed(order.ok("ship/40", SHIPPED), "Shipped")


def test_a_receipt_that_did_not_fit_its_schema_counts_as_no_clear_answer(order: Case) -> None:
    to_charging(order)

    assert order.rejected("charge/1").refs == ["charge/1/retry"]


def test_a_canceled_effect_counts_as_no_clear_answer(order: Case) -> None:
    to_charging(order)

    again = order.error("charge/1", "canceled", retryable=False, status="canceled")

    assert again.refs == ["charge/1/retry"]


def test_a_failure_of_the_executor_itself_is_not_taken_for_a_refusal(order: Case) -> None:
    to_charging(order)

    stepped = order.error("charge/1", "exception", retryable=False)

    # It is unknown whether the card was charged, and a retry cannot find out: undo the charge.
    assert stepped.refs == ["refund/1", "release/1"]


# --- Refusals and compensation --------------------------------------------------------------------


def test_an_order_that_is_out_of_stock_is_closed_with_nothing_to_undo(order: Case) -> None:
    place(order)

    stepped = order.error("reserve/1", "out_of_stock", retryable=False)

    assert stepped.effects == []
    assert is_closed(stepped, "OutOfStock")


def test_a_declined_card_gives_the_stock_back(order: Case) -> None:
    to_charging(order)

    declined = order.error("charge/1", "declined", retryable=False)
    assert declined.refs == ["release/1"]
    assert declined.effects[0].key == "ord-1/release"
    assert declined.state["charge"] == {"$tag": "Refused", "$value": "declined"}

    assert is_closed(order.ok("release/1", RELEASED), "Declined")


def test_an_undeliverable_parcel_gives_money_and_stock_back(order: Case) -> None:
    to_shipping(order)

    undoing = order.error("ship/1", "undeliverable", retryable=False)
    assert undoing.refs == ["refund/1", "release/1"]
    assert undoing.emitted == []

    assert order.ok("refund/1", REFUNDED).emitted == ["OrderRefunded"]
    closed = order.ok("release/1", RELEASED)
    assert is_closed(closed, "Undeliverable")


def test_refund_and_release_are_tried_for_ever(order: Case) -> None:
    # Rule 3.
    to_shipping(order)
    order.error("ship/1", "undeliverable", retryable=False)
    order.ok("release/1", RELEASED)

    for attempt in range(1, 30):
        order.timeout(f"refund/{attempt}")
        assert order.fire(f"refund/{attempt}/retry").refs == [f"refund/{attempt + 1}"]

    refunded = order.ok("refund/30", REFUNDED)
    assert refunded.emitted == ["OrderRefunded", "OrderClosed"]
    assert is_closed(refunded, "Undeliverable")


def test_a_refund_that_is_refused_for_good_leaves_the_order_to_a_person(order: Case) -> None:
    to_shipping(order)
    order.error("ship/1", "undeliverable", retryable=False)
    order.error("refund/1", "account_closed", retryable=False)

    closed = order.ok("release/1", RELEASED)

    assert is_closed(closed, "Stuck")
    assert closed.state["refund"] == {"$tag": "Refused", "$value": "account_closed"}


def test_a_carrier_that_fails_for_good_without_saying_so_leaves_the_order_to_a_person(
    order: Case,
) -> None:
    to_shipping(order)

    stepped = order.error("ship/1", "exception", retryable=False)

    # It may have been shipped, so the money is not given back.
    assert stepped.effects == []
    assert is_closed(stepped, "Stuck")


# --- Deadline and cancellation --------------------------------------------------------------------


@pytest.mark.parametrize(("stop", "outcome"), [(overdue, "Overdue"), (cancel, "Cancelled")])
def test_an_order_stopped_while_reserving_releases_by_order(
    order: Case, stop: Any, outcome: str
) -> None:
    place(order)

    stopped = stop(order)
    assert stopped.refs == ["release/1"]
    late = order.ok("reserve/1", RESERVED)
    assert late.effects == []
    assert late.state["reserve"] == {"$tag": "Done"}

    assert is_closed(order.ok("release/1", RELEASED), outcome)


@pytest.mark.parametrize(("stop", "outcome"), [(overdue, "Overdue"), (cancel, "Cancelled")])
def test_an_order_stopped_while_charging_refunds_and_releases(
    order: Case, stop: Any, outcome: str
) -> None:
    to_charging(order)

    assert stop(order).refs == ["refund/1", "release/1"]
    order.ok("release/1", RELEASED)
    closed = order.ok("refund/1", NOTHING_REFUNDED)

    assert closed.emitted == ["OrderClosed"]
    assert closed.state["charge"] == {"$tag": "Refused", "$value": "voided"}
    assert is_closed(closed, outcome)


@pytest.mark.parametrize("stop", [overdue, cancel])
def test_once_the_parcel_is_asked_for_nothing_stops_the_order(order: Case, stop: Any) -> None:
    to_shipping(order)
    before = order.state

    stepped = stop(order)

    assert (stepped.effects, stepped.events, order.state) == ([], [], before)
    assert stepped.note == "too late to stop: the parcel is asked for"


def test_an_order_stopped_while_it_waits_ignores_the_retry(order: Case) -> None:
    to_charging(order)
    order.timeout("charge/1")
    order.send("shop/OrderOverdue@1", {"order_id": "ord-1"})

    stepped = order.fire("charge/1/retry")

    assert stepped.effects == []
    assert stepped.note == "no retry is due any more"


def test_a_cancellation_before_the_order_leaves_no_trace(order: Case) -> None:
    stepped = cancel(order)

    assert (stepped.state, stepped.effects, stepped.events) == (None, [], [])
    assert place(order).refs == ["reserve/1"]


# --- Charges whose outcome is not known -----------------------------------------------------------


def test_a_charge_known_only_by_its_refund_is_told_as_charged_and_refunded(order: Case) -> None:
    # Rule 4: the ledger gets both events, or neither.
    to_charging(order)
    order.timeout("charge/1")
    overdue(order)

    stepped = order.ok("refund/1", REFUNDED)

    assert stepped.emitted == ["OrderCharged", "OrderRefunded"]
    assert stepped.state["charge"] == {"$tag": "Done"}


def test_a_charge_that_comes_in_before_its_refund_is_told_once(order: Case) -> None:
    to_charging(order)
    overdue(order)

    assert order.ok("charge/1", CHARGED).emitted == ["OrderCharged"]
    assert order.ok("refund/1", REFUNDED).emitted == ["OrderRefunded"]


def test_a_charge_that_comes_in_after_its_refund_is_told_once(order: Case) -> None:
    to_charging(order)
    overdue(order)

    assert order.ok("refund/1", REFUNDED).emitted == ["OrderCharged", "OrderRefunded"]
    late = order.ok("charge/1", CHARGED)

    assert (late.emitted, late.effects, late.fault) == ([], [], None)


def test_a_charge_that_is_declined_after_the_deadline_needs_no_refund_event(order: Case) -> None:
    to_charging(order)
    overdue(order)
    order.error("charge/1", "declined", retryable=False)
    order.ok("release/1", RELEASED)

    closed = order.ok("refund/1", NOTHING_REFUNDED)

    assert closed.emitted == ["OrderClosed"]


def test_a_late_charge_of_a_stuck_order_is_still_told(order: Case) -> None:
    to_charging(order)
    overdue(order)
    order.ok("release/1", RELEASED)
    stuck = order.error("refund/1", "account_closed", retryable=False)
    assert is_closed(stuck, "Stuck")

    assert order.ok("charge/1", CHARGED).emitted == ["OrderCharged"]


@pytest.mark.parametrize("cents", [CENTS - 1, CENTS + 1, 0])
def test_a_charge_of_another_amount_is_a_fault(order: Case, cents: int) -> None:
    to_charging(order)

    stepped = order.ok("charge/1", {"charge": "chg-1", "amount_cents": cents})

    assert stepped.fault is not None
    assert stepped.fault.message.startswith("payment_contract_broken: expected 8289 cents to move")
    assert stepped.state["phase"] == {"$tag": "Charging"}


def test_a_refund_that_does_not_know_of_a_charge_is_a_fault(order: Case) -> None:
    to_shipping(order)
    order.error("ship/1", "undeliverable", retryable=False)

    stepped = order.ok("refund/1", NOTHING_REFUNDED)

    assert stepped.fault is not None
    assert "expected 8289 cents to move, found 0" in stepped.fault.message


def test_a_charge_after_it_was_voided_is_a_fault(order: Case) -> None:
    to_charging(order)
    overdue(order)
    order.ok("refund/1", NOTHING_REFUNDED)

    stepped = order.ok("charge/1", CHARGED)

    assert stepped.fault is not None
    assert "charged after the charge had been voided" in stepped.fault.message


# --- Duplicates and invalid orders ----------------------------------------------------------------


@pytest.mark.parametrize("reach", [place, to_charging, to_shipping, overdue])
def test_an_order_that_is_placed_again_changes_nothing(order: Case, reach: Any) -> None:
    place(order)
    if reach is not place:
        reach(order)
    before = order.state

    stepped = place(order)

    assert (stepped.effects, stepped.events, order.state) == ([], [], before)
    assert stepped.note == "placed again: ignored"


def test_a_closed_order_answers_everything_without_doing_anything(order: Case) -> None:
    to_shipping(order)
    order.ok("ship/1", SHIPPED)
    before = order.state

    for stepped in (place(order), cancel(order), overdue(order), order.ok("ship/1", SHIPPED)):
        assert (stepped.effects, stepped.events, stepped.status) == ([], [], "completed")
    assert order.state == before


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"sku": "air", "quantity": 0, "price_cents": 100}],
        [{"sku": "gold", "quantity": 2**40, "price_cents": 2**40}],
        [{"sku": "gold", "quantity": 1, "price_cents": 2**63}],
        [{"sku": "gold", "quantity": 1, "price_cents": 2**64 - 1}] * 2,
    ],
)
def test_an_order_without_a_price_that_fits_is_closed_as_invalid(order: Case, items: Any) -> None:
    stepped = order.send("shop/OrderPlaced@1", {**PLACED, "items": items})

    assert stepped.effects == []
    assert stepped.emitted == ["OrderAccepted", "OrderClosed"]
    assert is_closed(stepped, "Invalid")


def test_a_receipt_for_something_else_is_a_fault(order: Case) -> None:
    place(order)
    order.asked["elephant/1"] = order.asked["reserve/1"]

    stepped = order.ok("elephant/1", RESERVED)

    assert stepped.fault is not None
    assert stepped.fault.message == "unknown_reference: this module asked for no elephant/1"


def test_an_order_takes_a_step_in_a_small_part_of_its_fuel(order: Case) -> None:
    assert place(order).fuel < 200_000
