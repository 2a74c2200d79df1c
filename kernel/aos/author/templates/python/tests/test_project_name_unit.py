"""The function `order` in this process, without a world: run these tests in a debugger."""

from __future__ import annotations

from typing import Any

from aos.flow.local import ErrorAnswer, LocalFlow
from flow import Ask, Asked, Cancel, Charge, Charged, Parcel, Placed, Progress, Refund, Ship, order

CLOSED = ErrorAnswer("bank_closed", retryable=True)
SHOP: dict[type[Any], object] = {
    Charge: Charged("ch-1"),
    Ship: Parcel("pa-1"),
    Ask: Asked("m-1"),
}


def requested(run: LocalFlow) -> list[type[object]]:
    return [type(request.effect) for request in run.requests]


def test_an_order_is_shipped_and_a_month_later_the_customer_is_asked() -> None:
    run = LocalFlow(order, Placed("o-1", 1250), SHOP)

    assert run.view == Progress("shipped", parcel="pa-1")
    run.advance("29d")
    assert requested(run) == [Charge, Ship]
    run.advance("1d")

    assert run.output == Parcel("pa-1")
    assert requested(run) == [Charge, Ship, Ask]


def test_an_order_that_is_canceled_in_time_gets_its_money_back() -> None:
    run = LocalFlow(order, Placed("o-1", 1250), {Charge: Charged("ch-1")})

    run.send(Cancel("o-1", "too late"))

    assert run.error is not None
    assert (run.error.kind, run.error.code) == ("rollback", "canceled")
    assert requested(run) == [Charge, Ship, Refund]


def test_a_bank_that_stays_closed_fails_the_order() -> None:
    run = LocalFlow(order, Placed("o-1", 1250), {Charge: CLOSED})

    run.finish()

    assert run.status == "failed"
    assert requested(run) == [Charge] * 4
