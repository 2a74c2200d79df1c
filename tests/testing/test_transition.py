"""One step alone: (state, event) -> (state, events, effects) (spec/testing.md, T-40 to T-42)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.errors import BadUsage
from aos.testing import (
    Asked,
    Transition,
    answered,
    canceled,
    failed,
    frame,
    like,
    rejected,
    step,
    timed_out,
)
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    MODULES,
    NEWS,
    ORDERS,
    PLAIN,
    SECOND,
    TELL,
    TIMER,
    charge,
    nodes,
    out,
    timer,
)

PLACED = {
    "order_id": "o1",
    "customer_id": "c1",
    "items": [{"sku": "tea", "quantity": 2, "price_cents": 450}],
    "patience": "1m",
}


def play(workflow: str = CELL, **given: Any) -> Transition:
    return step(nodes(), workflow, modules=MODULES, **given)


def test_a_first_event_makes_a_state_and_asks() -> None:
    found = step(ORDERS, "order", event=("shop/OrderPlaced@1", PLACED), now="2026-01-01T00:00:00Z")

    assert found.status == "waiting"
    assert found.state == like({"phase": "Reserving", "deadline": 1_767_225_660 * SECOND})
    assert found.events == (("shop/OrderAccepted@1", like({"order_id": "o1"})),)
    assert found.effects == (
        Asked(
            effect="shop/stock.reserve@1",
            params={"order_id": "o1", "items": PLACED["items"]},
            idempotency_key="o1/reserve",
            issuer_ref="reserve/1",
        ),
    )
    assert (found.fault, found.annotation) == (None, "reserve (attempt 1)")
    assert found.fuel > 0


def test_steps_follow_from_each_other() -> None:
    """Each step begins with the state of the one before it."""
    first = step(ORDERS, "order", event=("shop/OrderPlaced@1", PLACED))
    receipt = answered("stock.reserve", {"reservation": "r"}, issuer_ref="reserve/1")
    second = step(ORDERS, "order", state=first.state, event=receipt, key="o1")
    declined = failed("card.charge", "declined", issuer_ref="charge/1")
    third = step(ORDERS, "order", state=second.state, event=declined, key="o1")

    assert [each.effect for each in second.effects] == ["shop/card.charge@1"]
    assert third.state == like({"outcome": {"$tag": "Declined"}})
    assert [each.effect for each in third.effects] == ["shop/stock.release@1"]


def test_the_state_is_given_and_deleted() -> None:
    assert play(state=4, event=(DO, {"key": "a"})).state == 5
    assert play(state=None, event=(DO, {"key": "a"})).state == 1
    deleted = play(state=4, event=(DO, {"key": "a", "delete": True}))
    assert (deleted.state, deleted.status) == (None, "running")


def test_a_fault_keeps_the_state_and_says_why() -> None:
    found = play(state=4, event=(DO, {"key": "a", "fault": "no"}))

    assert found == Transition(
        state=4, status="failed", fault=("guest", "puppet: no"), fuel=found.fuel
    )
    misfit = play(event=(DO, {"key": "a", "out": out(0, events=((NEWS, {"what": 1}),))}))
    assert misfit.fault is not None
    assert misfit.fault[0] == "event_invalid"


@pytest.mark.parametrize(
    "event",
    [
        answered(CHARGE, {"ref": "r"}, cost_cents=4),
        failed(CHARGE, "declined"),
        timed_out(CHARGE),
        canceled(CHARGE),
        rejected(CHARGE),
        frame(CHARGE, "half", {"done": 50}, seq=3),
        answered(TIMER),
        answered(TIMER, {"delivered_at_ns": 5}, params=timer(5)),
        answered(CHARGE, {"ref": "r"}, params=charge()),
    ],
    ids=lambda event: f"{event.effect} {event.status}",
)
def test_every_continuation_is_played(event: Any) -> None:
    assert play(state=6, event=event, key="a").state == 7


def test_an_event_that_the_workflow_does_not_take_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"t/cell@1 does not take t/Tell@1: expected one of sys"):
        play(event=(TELL, {}))
    with pytest.raises(BadUsage, match="t/plain@1 does not take sys/EffectStreamFrame@1"):
        play(PLAIN, event=frame(CHARGE, "half"))
    with pytest.raises(BadUsage, match="t/plain@1 does not take sys/EffectReceiptRejected@1"):
        play(PLAIN, event=rejected(CHARGE))
    with pytest.raises(BadUsage, match="the answer to t/charge@1"):
        play(event=answered(CHARGE, {"ref": 1}), key="a")
    with pytest.raises(BadUsage, match=r"state of t/cell@1"):
        play(state="four", event=(DO, {"key": "a"}))


def test_the_key_is_given_or_read_from_the_event() -> None:
    echoed = play(event=(DO, {"key": "a"}), key="other")
    assert echoed.state == 1
    with pytest.raises(BadUsage, match="t/cell@1 is keyed, and no route reads its key"):
        play(event=answered(CHARGE, {"ref": "r"}))
    with pytest.raises(BadUsage, match="t/plain@1 is not keyed"):
        play(PLAIN, event=(TELL, {}), key="a")
    with pytest.raises(BadUsage, match="entropy: expected 64 bytes, found 1"):
        play(event=(DO, {"key": "a"}), entropy=b"x")
