//! `trip/booking@1`, keyed by trip: a flight, a hotel and a car, or nothing of it. The trip of
//! `cookbook/saga` as a flow.
//!
//! Rule 1: each booking registers its own cancellation, before the next service is asked.
//!
//! Rule 2: only a clear refusal needs no cancellation: after a timeout or an answer that fits no
//! schema, the booking may exist.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

/// A customer wants to travel.
#[derive(Schema)]
#[schema("trip/Requested@1")]
pub struct Requested {
    pub trip_id: String,
    pub city: String,
}

/// The references of the bookings: the output of the flow.
#[derive(Schema)]
#[schema("trip/Booked@1")]
pub struct Booked {
    pub flight: String,
    pub hotel: String,
    pub car: String,
}

#[derive(Schema, Clone, Copy)]
#[schema("trip/Service@1")]
pub enum Service {
    Flight,
    Hotel,
    Car,
}

#[derive(Effect)]
#[effect("trip/book@1", receipt = Booking, executor = "agencies", timeout_ms = 10000)]
pub struct Book {
    pub trip_id: String,
    pub what: Service,
    pub city: String,
}

#[derive(Schema)]
#[schema("trip/Booking@1")]
pub struct Booking {
    pub reference: String,
}

/// Cancels the booking of this trip, and blocks a booking that is still on its way.
#[derive(Effect)]
#[effect("trip/cancel@1", receipt = Canceled, executor = "agencies", timeout_ms = 10000)]
pub struct Cancel {
    pub trip_id: String,
    pub what: Service,
    pub city: String,
}

#[derive(Schema)]
#[schema("trip/Canceled@1")]
pub struct Canceled {
    pub note: String,
}

#[flow(
    "trip/booking@1",
    key = "trip/TripId@1",
    start(Requested by "trip_id"),
    effects(Book, Cancel)
)]
async fn trip(cx: Cx, requested: Requested) -> Result<Booked, FlowError> {
    let flight = book(cx, &requested, "flight", Service::Flight).await?;
    let hotel = book(cx, &requested, "hotel", Service::Hotel).await?;
    let car = book(cx, &requested, "car", Service::Car).await?;
    Ok(Booked { flight, hotel, car })
}

/// Book one service. If the trip fails from here on, or is canceled, so is this booking.
async fn book(
    cx: Cx,
    requested: &Requested,
    name: &str,
    what: Service,
) -> Result<String, FlowError> {
    let cancel =
        || Cancel { trip_id: requested.trip_id.clone(), what, city: requested.city.clone() };
    let book = Book { trip_id: requested.trip_id.clone(), what, city: requested.city.clone() };
    let booking = cx.step(name, book).rollback(|_| cancel()).rollback_unknown(cancel).await?;
    Ok(booking.reference)
}
