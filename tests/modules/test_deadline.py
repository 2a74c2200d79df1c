"""shop/deadline@1: a cell that lives from OrderAccepted until its order is closed or late."""

from __future__ import annotations

import pytest

from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from tests.modules.guests import MS, START_NS, Case

DUE_NS = START_NS + 5_000 * MS
ACCEPTED = {"order_id": "ord-1", "customer_id": "cus-1", "deadline": DUE_NS}
CLOSED = {"order_id": "ord-1", "customer_id": "cus-1", "outcome": "Shipped"}


@pytest.fixture
def deadline(orders: Loaded, sandbox: Sandbox) -> Case:
    return Case(orders, sandbox, "shop/deadline@1", "ord-1")


def test_an_accepted_order_is_watched_until_its_deadline(deadline: Case) -> None:
    stepped = deadline.send("shop/OrderAccepted@1", ACCEPTED)

    [timer] = stepped.effects
    assert timer.effect == "sys/timer.set@1"
    assert timer.params == {"deliver_at_ns": DUE_NS, "key": "deadline"}
    assert stepped.state == {"order_id": "ord-1", "deadline": DUE_NS}


def test_a_late_order_is_told_so_and_the_cell_is_gone(deadline: Case) -> None:
    deadline.send("shop/OrderAccepted@1", ACCEPTED)

    stepped = deadline.fire("deadline")

    assert stepped.events == [("shop/OrderOverdue@1", {"order_id": "ord-1"})]
    assert stepped.state is None


def test_a_closed_order_takes_its_deadline_with_it(deadline: Case) -> None:
    deadline.send("shop/OrderAccepted@1", ACCEPTED)

    stepped = deadline.send("shop/OrderClosed@1", CLOSED)

    assert (stepped.state, stepped.events, stepped.effects) == (None, [], [])


def test_an_order_closed_after_its_deadline_finds_nothing_to_delete(deadline: Case) -> None:
    deadline.send("shop/OrderAccepted@1", ACCEPTED)
    deadline.fire("deadline")

    stepped = deadline.send("shop/OrderClosed@1", CLOSED)

    assert (stepped.state, stepped.events, stepped.effects) == (None, [], [])


@pytest.mark.parametrize("how", ["error", "rejected"])
def test_a_timer_that_fails_early_is_set_again(deadline: Case, how: str) -> None:
    deadline.send("shop/OrderAccepted@1", ACCEPTED)

    if how == "error":
        stepped = deadline.error("deadline", "exception", retryable=False)
    else:
        stepped = deadline.rejected("deadline")

    assert [asked.params["deliver_at_ns"] for asked in stepped.effects] == [DUE_NS]
    assert stepped.events == []


def test_a_second_acceptance_sets_no_second_timer(deadline: Case) -> None:
    deadline.send("shop/OrderAccepted@1", ACCEPTED)
    before = deadline.state

    stepped = deadline.send("shop/OrderAccepted@1", ACCEPTED)

    assert stepped.effects == []
    assert deadline.state == before
