"""(books, request) -> what the shop does about it, or why it refuses. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from books import CHARGED, REFUNDED, RELEASED, RESERVED, SHIPPED, Books

Json = dict[str, Any]

Refuses = Callable[[str, str], bool]
"""(operation, order) -> whether this order is one that is refused."""


class Refusal(Exception):
    """It is not done and never will be under this key: an HTTP status with code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"code": code, "message": message}


@dataclass(frozen=True, slots=True)
class Deed:
    """The result of an operation: the kind of its entry, the cents that it moves, the answer."""

    kind: str
    cents: int
    answer: Json


def reserve(books: Books, request: Json, refuses: Refuses) -> Deed:
    order_id = request["order_id"]
    if books.of(order_id, RELEASED):
        raise Refusal(409, "voided", f"the stock for {order_id} was released")
    if refuses("reserve", order_id):
        raise Refusal(409, "out_of_stock", f"not everything in {order_id} is in stock")
    return Deed(RESERVED, 0, {"reservation": f"res-{order_id}"})


def release(books: Books, request: Json, _: Refuses) -> Deed:
    return Deed(RELEASED, 0, {"released": bool(books.of(request["order_id"], RESERVED))})


def charge(books: Books, request: Json, refuses: Refuses) -> Deed:
    order_id, cents = request["order_id"], request["amount_cents"]
    if books.of(order_id, REFUNDED):
        raise Refusal(409, "voided", f"the payment of {order_id} was taken back")
    if refuses("charge", order_id):
        raise Refusal(402, "declined", f"the card of {request['customer_id']} was declined")
    # A second charge under another key is the caller's mistake to make. The books will show it.
    number = len(books.of(order_id, CHARGED)) + 1
    return Deed(CHARGED, cents, {"charge": f"chg-{order_id}-{number}", "amount_cents": cents})


def refund(books: Books, request: Json, _: Refuses) -> Deed:
    order_id = request["order_id"]
    cents = books.cents(order_id, CHARGED) - books.cents(order_id, REFUNDED)
    return Deed(REFUNDED, cents, {"refunded_cents": cents})


def ship(books: Books, request: Json, refuses: Refuses) -> Deed:
    order_id = request["order_id"]
    if not books.of(order_id, RESERVED) or books.of(order_id, RELEASED):
        raise Refusal(409, "not_reserved", f"no stock is reserved for {order_id}")
    if refuses("ship", order_id):
        raise Refusal(422, "undeliverable", f"no carrier delivers to the address of {order_id}")
    return Deed(SHIPPED, request["value_cents"], {"parcel": f"par-{order_id}"})


@dataclass(frozen=True, slots=True)
class Operation:
    do: Callable[[Books, Json, Refuses], Deed]
    fields: Mapping[str, type]


OPERATIONS: Final[Mapping[str, Operation]] = {
    "/stock/reserve": Operation(reserve, {"order_id": str, "items": list}),
    "/stock/release": Operation(release, {"order_id": str}),
    "/card/charge": Operation(charge, {"order_id": str, "customer_id": str, "amount_cents": int}),
    "/card/refund": Operation(refund, {"order_id": str}),
    "/parcel/ship": Operation(ship, {"order_id": str, "items": list, "value_cents": int}),
}
