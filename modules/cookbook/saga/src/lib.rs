//! `trip/booking@1`, keyed by trip: a flight, a hotel and a car, or nothing of it.
//!
//! Rule 1: a service is in `undo` from the step that requests it, not from its answer: a service
//! that may have done something is asked to undo it.
//!
//! Rule 2: only a clear refusal, an error that is not retryable, needs no undoing.
//!
//! Rule 3: compensation goes backwards, one at a time. One that fails is tried three times. Then it
//! waits for a person, and the state shows everything that is still to be undone.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

const CANCELS_MAX: u64 = 3;
const PAUSE: Duration = Duration::millis(500);

/// A customer wants to travel.
#[derive(Schema)]
#[schema("trip/Requested@1")]
pub struct Requested {
    pub trip_id: String,
    pub city: String,
}

/// A person has solved the problem: retry the cancellations.
#[derive(Schema)]
#[schema("trip/GoOn@1")]
pub struct GoOn {
    pub trip_id: String,
}

#[derive(Schema)]
#[schema("trip/Booked@1")]
pub struct Booked {
    pub trip_id: String,
}

#[derive(Schema)]
#[schema("trip/Undone@1")]
pub struct Undone {
    pub trip_id: String,
    pub why: String,
}

#[derive(Schema, Clone, Copy, PartialEq)]
#[schema("trip/Service@1")]
pub enum Service {
    Flight,
    Hotel,
    Car,
}

/// In the order in which they are booked.
const SERVICES: [Service; 3] = [Service::Flight, Service::Hotel, Service::Car];

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

#[derive(Event)]
#[schema("trip/BookingEvent@1")]
pub enum Event {
    Requested(Requested),
    GoOn(GoOn),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("trip/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Booking,
    Undoing,
    Booked,
    Undone,
    /// A cancellation failed three times. A person has to look.
    Stuck,
}

/// `undo` has the bookings to cancel if the trip fails, the newest last.
#[derive(Schema, Default)]
#[schema("trip/BookingState@1")]
pub struct State {
    pub phase: Phase,
    pub city: String,
    pub undo: Vec<Service>,
    pub why: String,
    pub attempt: u64,
    pub book: Pending<Book>,
    pub cancel: Pending<Cancel>,
    pub pause: Pending<timer::Set>,
}

#[workflow(
    "trip/booking@1",
    key = "trip/TripId@1",
    effects(Book, Cancel, timer::Set),
    routes(Requested by "trip_id", GoOn by "trip_id")
)]
fn booking(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Requested(requested) if state.phase == Phase::New => {
            state.city = requested.city;
            state.phase = Phase::Booking;
            state.book_next(cx)
        }
        Event::GoOn(_) if state.phase == Phase::Stuck => {
            state.attempt = 0;
            state.phase = Phase::Undoing;
            cx.status(Status::Running);
            state.cancel_next(cx)
        }
        // A request that comes twice, or a person's answer that comes too late.
        Event::Requested(_) | Event::GoOn(_) => Ok(()),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

impl State {
    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.book.settle(answer)? {
            return self.booked(outcome, cx);
        }
        if let Some(outcome) = self.cancel.settle(answer)? {
            return self.canceled(outcome, cx);
        }
        if self.pause.settle(answer)?.is_some() {
            return self.cancel_next(cx);
        }
        Ok(())
    }

    /// Request the next service.
    fn book_next(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let trip_id: String = cx.key()?;
        let Some(&what) = SERVICES.get(self.undo.len()) else {
            self.phase = Phase::Booked;
            cx.emit(Booked { trip_id });
            cx.status(Status::Completed);
            return Ok(());
        };
        self.undo.push(what);
        let book = Book { trip_id, what, city: self.city.clone() };
        self.book = cx.effect(book).idempotency_key(what.key("book")).start();
        Ok(())
    }

    fn booked(&mut self, outcome: Outcome<Booking>, cx: &mut Context) -> Result<(), Fault> {
        self.why = match outcome {
            Outcome::Ok(_) => return self.book_next(cx),
            Outcome::Error(error) if !error.retryable => {
                self.undo.pop();
                error.code
            }
            Outcome::Error(error) => error.code,
            Outcome::Timeout | Outcome::Canceled | Outcome::Rejected(_) => "no clear answer".into(),
        };
        self.phase = Phase::Undoing;
        self.cancel_next(cx)
    }

    fn cancel_next(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let trip_id: String = cx.key()?;
        let Some(&what) = self.undo.last() else {
            self.phase = Phase::Undone;
            cx.emit(Undone { trip_id, why: self.why.clone() });
            cx.status(Status::Completed);
            return Ok(());
        };
        let cancel = Cancel { trip_id, what, city: self.city.clone() };
        self.cancel = cx.effect(cancel).idempotency_key(what.key("cancel")).start();
        Ok(())
    }

    fn canceled(&mut self, outcome: Outcome<Canceled>, cx: &mut Context) -> Result<(), Fault> {
        if let Outcome::Ok(_) = outcome {
            self.undo.pop();
            self.attempt = 0;
            return self.cancel_next(cx);
        }
        self.attempt += 1;
        if self.attempt < CANCELS_MAX {
            let pause = PAUSE.doubled(self.attempt - 1, Duration::minutes(1));
            self.pause = cx.effect(timer::at(cx.now() + pause)).start();
        } else {
            self.phase = Phase::Stuck;
            cx.status(Status::Failed);
        }
        Ok(())
    }
}

impl Service {
    /// One key for all attempts at one action.
    fn key(self, what: &str) -> String {
        let name = match self {
            Service::Flight => "flight",
            Service::Hotel => "hotel",
            Service::Car => "car",
        };
        [name, "/", what].concat()
    }
}
