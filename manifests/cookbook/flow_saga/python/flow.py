"""A flight, a hotel and a car, or nothing of it: `modules/cookbook/flow-saga` in Python.

Rule 1: each booking registers its own cancellation, before the next service is asked.

Rule 2: only a clear refusal needs no cancellation: after a timeout or an answer that fits no
schema, the booking may exist.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from aos.flow import Cx, effect, flow, schema


@schema("trip/Requested@1")
class Requested:
    """A customer wants to travel."""

    trip_id: str
    city: str


@schema("trip/Booked@1")
class Booked:
    """The references of the bookings: the output of the flow."""

    flight: str
    hotel: str
    car: str


@schema("trip/Booking@1")
class Booking:
    reference: str


@effect("trip/book@1", executor="agencies", timeout_ms=10000)
class Book:
    trip_id: str
    what: Literal["Flight", "Hotel", "Car"]
    city: str
    receipt: ClassVar[type[Booking]]


@schema("trip/Canceled@1")
class Canceled:
    note: str


@effect("trip/cancel@1", executor="agencies", timeout_ms=10000)
class Cancel:
    """Cancels the booking of this trip, and blocks a booking that is still on its way."""

    trip_id: str
    what: Literal["Flight", "Hotel", "Car"]
    city: str
    receipt: ClassVar[type[Canceled]]


@flow("trip/booking@1", key="trip_id")
async def trip(cx: Cx, requested: Requested) -> Booked:
    flight = await book(cx, requested, "flight", "Flight")
    hotel = await book(cx, requested, "hotel", "Hotel")
    car = await book(cx, requested, "car", "Car")
    return Booked(flight, hotel, car)


async def book(
    cx: Cx, requested: Requested, name: str, what: Literal["Flight", "Hotel", "Car"]
) -> str:
    """Book one service. If the trip fails from here on, or is canceled, so is this booking."""
    cancel = Cancel(requested.trip_id, what, requested.city)
    booking = await cx.step(
        name,
        Book(requested.trip_id, what, requested.city),
        rollback=lambda _: cancel,
        rollback_unknown=cancel,
    )
    return booking.reference
