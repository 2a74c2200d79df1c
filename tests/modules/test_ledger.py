"""shop/ledger@1: each order counts once for what was charged, refunded and shipped."""

from __future__ import annotations

import pytest

from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from tests.modules.guests import Case, Stepped


@pytest.fixture
def ledger(orders: Loaded, sandbox: Sandbox) -> Case:
    return Case(orders, sandbox, "shop/ledger@1", "cus-1")


def post(ledger: Case, kind: str, order_id: str, cents: int) -> Stepped:
    field = "value_cents" if kind == "Shipped" else "amount_cents"
    value = {"order_id": order_id, "customer_id": "cus-1", field: cents}
    return ledger.send(f"shop/Order{kind}@1", value)


def test_a_ledger_adds_up_by_kind_and_keeps_a_line_for_each_order(ledger: Case) -> None:
    post(ledger, "Charged", "ord-2", 500)
    post(ledger, "Charged", "ord-1", 300)
    post(ledger, "Shipped", "ord-2", 500)
    stepped = post(ledger, "Refunded", "ord-1", 300)

    assert stepped.state == {
        "customer_id": "cus-1",
        "charged_cents": 800,
        "refunded_cents": 300,
        "shipped_cents": 500,
        "duplicates": 0,
        "orders": {
            "ord-1": {"charged_cents": 300, "refunded_cents": 300, "shipped_cents": 0},
            "ord-2": {"charged_cents": 500, "refunded_cents": 0, "shipped_cents": 500},
        },
    }


def test_a_ledger_is_completed_while_all_of_its_orders_are_settled(ledger: Case) -> None:
    statuses = [
        post(ledger, "Charged", "ord-1", 300).status,
        post(ledger, "Charged", "ord-2", 500).status,
        post(ledger, "Shipped", "ord-1", 300).status,
        post(ledger, "Refunded", "ord-2", 500).status,
        post(ledger, "Charged", "ord-3", 100).status,
    ]

    assert statuses == ["running", "running", "running", "completed", "running"]


@pytest.mark.parametrize("kind", ["Charged", "Refunded", "Shipped"])
def test_a_second_copy_is_counted_as_such_and_not_as_money(ledger: Case, kind: str) -> None:
    before = post(ledger, kind, "ord-1", 300).state

    stepped = post(ledger, kind, "ord-1", 300)

    assert stepped.note == "a second copy: not counted"
    assert stepped.state == {**before, "duplicates": 1}


def test_a_total_that_does_not_fit_is_a_fault_and_changes_nothing(ledger: Case) -> None:
    post(ledger, "Charged", "ord-1", 2**64 - 1)
    before = ledger.state

    stepped = post(ledger, "Charged", "ord-2", 1)

    assert stepped.fault is not None
    assert stepped.fault.message == "overflow: the customer's total does not fit in a nat"
    assert ledger.state == before


def test_a_ledger_of_many_orders_stays_within_its_limits(ledger: Case) -> None:
    fuel = [post(ledger, "Charged", f"ord-{number:05}", 1).fuel for number in range(1, 401)]

    limits = ledger.definition.limits
    assert ledger.state is not None
    assert len(ledger.state) < limits.state_bytes / 10
    assert fuel[-1] < limits.fuel / 50
