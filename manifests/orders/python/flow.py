"""The order workflow of the demo, as a flow: reserve the stock, charge the card, ship the parcel;
or refund and release.

Rule 1: the parcel is requested only after the charge is known to be done.

Rule 2: an action that may have been done is either retried under its own key, or undone by order:
refund and release take back what there is and block what is still on its way.

Rule 3: refund and release end only with an answer of the shop. If the shop refuses for good, the
flow fails, and a person has to look.

Rule 4: the flow reports money that moved once, as `OrderCharged`, `OrderRefunded` and
`OrderShipped`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from aos.flow import Cx, FlowError, Nat, Retry, effect, flow, schema

RESERVE = Retry(4, "200ms", "5s")
CHARGE = Retry(5, "200ms", "5s")
# The last step forward and the steps back are not given up: that would leave money or goods in the
# wrong place.
LASTING = Retry(1_000_000, "200ms", "5s")

# Refusals of the shop that are final. Any other error leaves open whether the action was done.
REFUSALS = {"out_of_stock": "OutOfStock", "declined": "Declined", "voided": "Cancelled"}
CENTS_MAX = 2**63 - 1


@schema("shop/Item@1")
class Item:
    sku: str
    quantity: Annotated[int, Nat]
    price_cents: Annotated[int, Nat]


@schema("shop/OrderPlaced@1")
class OrderPlaced:
    """A customer orders. When the patience is over, the order is undone, unless the parcel has been
    requested."""

    order_id: str
    customer_id: str
    items: list[Item]
    patience: timedelta


@schema("shop/OrderCancelRequested@1")
class OrderCancelRequested:
    """The customer no longer wants the order."""

    order_id: str


@schema("shop/OrderCharged@1")
class OrderCharged:
    order_id: str
    customer_id: str
    amount_cents: Annotated[int, Nat]


@schema("shop/OrderRefunded@1")
class OrderRefunded:
    order_id: str
    customer_id: str
    amount_cents: Annotated[int, Nat]


@schema("shop/OrderShipped@1")
class OrderShipped:
    order_id: str
    customer_id: str
    value_cents: Annotated[int, Nat]


@schema("shop/OrderClosed@1")
class OrderClosed:
    order_id: str
    customer_id: str
    outcome: Literal[
        "Shipped",
        "OutOfStock",
        "Declined",
        "Undeliverable",
        "Overdue",
        "Cancelled",
        "Unavailable",
        "Invalid",
        "Stuck",
    ]


@schema("shop/StockReserveReceipt@1")
class StockReserveReceipt:
    reservation: str


@effect(
    "shop/stock.reserve@1", executor="shop", timeout_ms=1000, params="shop/StockReserveParams@1"
)
class StockReserve:
    order_id: str
    items: list[Item]
    receipt: ClassVar[type[StockReserveReceipt]]


@schema("shop/StockReleaseReceipt@1")
class StockReleaseReceipt:
    released: bool


@effect(
    "shop/stock.release@1", executor="shop", timeout_ms=1000, params="shop/StockReleaseParams@1"
)
class StockRelease:
    order_id: str
    receipt: ClassVar[type[StockReleaseReceipt]]


@schema("shop/CardChargeReceipt@1")
class CardChargeReceipt:
    charge: str
    amount_cents: Annotated[int, Nat]


@effect("shop/card.charge@1", executor="shop", timeout_ms=1000, params="shop/CardChargeParams@1")
class CardCharge:
    order_id: str
    customer_id: str
    amount_cents: Annotated[int, Nat]
    receipt: ClassVar[type[CardChargeReceipt]]


@schema("shop/CardRefundReceipt@1")
class CardRefundReceipt:
    refunded_cents: Annotated[int, Nat]


@effect("shop/card.refund@1", executor="shop", timeout_ms=1000, params="shop/CardRefundParams@1")
class CardRefund:
    order_id: str
    receipt: ClassVar[type[CardRefundReceipt]]


@schema("shop/ParcelShipReceipt@1")
class ParcelShipReceipt:
    parcel: str


@effect("shop/parcel.ship@1", executor="shop", timeout_ms=1000, params="shop/ParcelShipParams@1")
class ParcelShip:
    order_id: str
    items: list[Item]
    value_cents: Annotated[int, Nat]
    receipt: ClassVar[type[ParcelShipReceipt]]


@schema("shop/Progress@1")
class Progress:
    phase: Literal["paying", "shipping", "undoing", "closed"]


@flow("shop/order@1", key="order_id", listens=[OrderCancelRequested], view=Progress)
async def order(cx: Cx, placed: OrderPlaced) -> str:
    """Take an order from stock to parcel, or undo it; return the outcome."""
    cents = sum([item.quantity * item.price_cents for item in placed.items])
    outcome: Any = "Invalid"
    if 0 < cents <= CENTS_MAX:
        outcome = await sell(cx, placed, cents)
    cx.publish(Progress("closed"))
    await cx.emit("closed", OrderClosed(placed.order_id, placed.customer_id, outcome))
    return str(outcome)


async def sell(cx: Cx, placed: OrderPlaced, cents: int) -> str:
    """Return the outcome."""
    order_id, customer_id = placed.order_id, placed.customer_id

    async def pay(cx: Cx) -> str:
        reserve = StockReserve(order_id, placed.items)
        charge = CardCharge(order_id, customer_id, cents)
        try:
            await cx.step("reserve", reserve, retry=RESERVE, retry_timeouts=True)
            await cx.step("charge", charge, retry=CHARGE, retry_timeouts=True)
        except FlowError as error:
            return REFUSALS.get(error.code, "Unavailable")
        return "Paid"

    async def cancel(cx: Cx) -> str:
        await cx.listen("asked", OrderCancelRequested)
        return "Cancelled"

    async def late(cx: Cx) -> str:
        await cx.sleep("patience", max(placed.patience, timedelta(0)))
        return "Overdue"

    # A charge whose receipt comes in the same turn as the end of the patience counts as paid.
    cx.publish(Progress("paying"))
    _, outcome = await cx.race("payment", pay=pay, cancel=cancel, late=late)
    is_paid = outcome == "Paid"
    if is_paid:
        cx.publish(Progress("shipping"))
        await cx.emit("charged", OrderCharged(order_id, customer_id, cents))
        parcel = ParcelShip(order_id, placed.items, cents)
        try:
            await cx.step("ship", parcel, retry=LASTING, retry_timeouts=True)
        except FlowError as error:
            if error.code != "undeliverable":
                raise
            outcome = "Undeliverable"
        else:
            await cx.emit("shipped", OrderShipped(order_id, customer_id, cents))
            return "Shipped"

    cx.publish(Progress("undoing"))
    refunded_cents = await undo(cx, order_id)
    # The refund's receipt shows whether a charge without a clear answer was done.
    if refunded_cents and not is_paid:
        await cx.emit("charged-after-all", OrderCharged(order_id, customer_id, refunded_cents))
    if refunded_cents:
        await cx.emit("refunded", OrderRefunded(order_id, customer_id, refunded_cents))
    return str(outcome)


async def undo(cx: Cx, order_id: str) -> int:
    """Take back every action that was done or may have been done; return the cents that came
    back."""

    async def refund(cx: Cx) -> int:
        refund = CardRefund(order_id)
        refunded = await cx.step("refund", refund, retry=LASTING, retry_timeouts=True)
        return refunded.refunded_cents

    async def release(cx: Cx) -> None:
        release = StockRelease(order_id)
        await cx.step("release", release, retry=LASTING, retry_timeouts=True)

    undone = await cx.join("undo", refund=refund, release=release)
    return int(undone["refund"])
