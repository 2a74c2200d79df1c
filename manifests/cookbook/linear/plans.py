"""The handlers of both plans. Each is called with the context of its instance."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from aos.worker import Dead, EffectFailed, Executors, Retry, StepContext, Waiting, step

PATIENCE = timedelta(days=3)


@step("order.process/VALIDATE")
async def validate(context: dict[str, Any], _: StepContext) -> dict[str, Any] | Dead:
    """A dict changes the context; ``Dead`` fails the instance."""
    if not context.get("items"):
        return Dead("the order has no items")
    return {"total_cents": sum(each["cents"] for each in context["items"])}


@step("order.process/PAY")
async def pay(context: dict[str, Any], ctx: StepContext) -> dict[str, Any] | Waiting | Dead:
    """Wait for the payment, at most three days."""
    if ctx.task_type == "WAITING_TIMEOUT":
        return Dead("nobody paid")
    if ctx.woken_by is None:
        return Waiting("PAID", timeout=PATIENCE)
    payment: Any = ctx.woken_by.payload
    if payment["cents"] < context["total_cents"]:
        return Waiting("PAID", timeout=PATIENCE)
    return {"payment": payment["id"]}


@step("order.process/SHIP")
def ship(context: dict[str, Any], ctx: StepContext) -> dict[str, Any] | Retry:
    """A plain function, in a thread of its own. ``SLOW`` makes it slow, so that you can kill it."""
    time.sleep(float(os.environ.get("SLOW", "0")))
    if context.get("address") == "Limbo":
        return Retry("the carrier does not answer")
    parcel = f"parcel-{ctx.idempotency_key}"
    ctx.emit("shop/Shipped@1", {"order": ctx.instance, "parcel": parcel})
    return {"parcel": parcel}


@step("order.return/INSPECT")
async def inspect(_context: dict[str, Any], _: StepContext) -> None:
    """None: done, and nothing changes."""


@step("order.return/REFUND")
async def refund(context: dict[str, Any], _: StepContext) -> dict[str, Any]:
    """An error that is not retryable fails the instance; any other exception is a retry."""
    if "payment" not in context:
        raise EffectFailed("no_payment", "there is nothing to refund")
    return {"refund": f"refund-{context['payment']}"}


shop = Executors("shop", [validate, pay, ship, inspect, refund])
