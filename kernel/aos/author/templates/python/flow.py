"""One order: it is charged, then shipped unless the customer cancels first, and a month later the
customer is asked for a review. An order that fails or is canceled gets its money back.

The function is a flow. The process may be killed at any line: the flow continues where it was,
with the results that it had, and no effect is requested twice.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from aos.flow import Cx, FlowError, Nat, Retry, Rollback, effect, flow, schema

BANK = Retry(4, "1s", "1m")
WAREHOUSE = Retry(1000, "1m", "1h")


@schema("project-name/Placed@1")
class Placed:
    """A customer's order. To send one: `aos flow start order …`"""

    order_id: str
    cents: Annotated[int, Nat]


@schema("project-name/Cancel@1")
class Cancel:
    """The customer does not want the order any more. To send one: `aos flow signal order …`"""

    order_id: str
    reason: str


@schema("project-name/Shipped@1")
class Shipped:
    """Told when the order is on its way. Another workflow may subscribe to it."""

    order_id: str
    parcel: str


@schema("project-name/Charged@1")
class Charged:
    charge: str


@effect("project-name/charge@1", executor="project-name", timeout_ms=5000)
class Charge:
    """Take the money. `effects.py` has a function for each of these effects."""

    order_id: str
    cents: Annotated[int, Nat]
    receipt: ClassVar[type[Charged]]


@schema("project-name/Refunded@1")
class Refunded:
    refund: str


@effect("project-name/refund@1", executor="project-name", timeout_ms=5000)
class Refund:
    """Give the money back."""

    charge: str
    receipt: ClassVar[type[Refunded]]


@schema("project-name/Parcel@1")
class Parcel:
    """The result of the flow."""

    parcel: str


@effect("project-name/ship@1", executor="project-name", timeout_ms=60000)
class Ship:
    """Give the order to the warehouse."""

    order_id: str
    receipt: ClassVar[type[Parcel]]


@schema("project-name/Asked@1")
class Asked:
    mail: str


@effect("project-name/ask@1", executor="project-name", timeout_ms=5000)
class Ask:
    """Ask the customer for a review."""

    order_id: str
    receipt: ClassVar[type[Asked]]


@schema("project-name/Progress@1")
class Progress:
    """How far the order is. `aos flow show order …` shows it while the flow runs."""

    phase: Literal["charging", "shipping", "shipped"]
    charge: str | None = None
    parcel: str | None = None


@flow("project-name/order@1", key="order_id", listens=[Cancel], view=Progress)
async def order(cx: Cx, placed: Placed) -> Parcel:
    """Charge, ship or hear that it is canceled, wait for a month, ask for a review."""
    cx.publish(Progress("charging"))
    charged = await cx.step(
        "charge",
        Charge(placed.order_id, placed.cents),
        retry=BANK,
        # If the order fails from here on, or is canceled, this is done.
        rollback=lambda charged: Refund(charged.charge),
    )

    # The first branch that succeeds wins, and the other is canceled. A rollback ends both: without
    # it, an order that cannot be shipped would wait for a customer who cancels.
    async def ship(cx: Cx) -> str:
        try:
            shipped = await cx.step("ship", Ship(placed.order_id), retry=WAREHOUSE)
        except FlowError as error:
            raise Rollback(error) from error
        return shipped.parcel

    async def cancel(cx: Cx) -> str:
        canceled = await cx.listen("asked", Cancel)
        raise Rollback("canceled", canceled.reason)

    cx.publish(Progress("shipping", charge=charged.charge))
    _, parcel = await cx.race("ship-or-cancel", ship=ship, cancel=cancel)
    cx.publish(Progress("shipped", parcel=parcel))
    await cx.emit("shipped", Shipped(placed.order_id, parcel))

    # Nothing runs for the month. A restart does not change when it ends.
    await cx.sleep("month", "30d")
    await cx.step("review", Ask(placed.order_id))
    return Parcel(parcel)
