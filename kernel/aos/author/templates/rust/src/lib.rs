//! One order: it is charged; a closed bank is retried, after a pause that doubles.
//!
//! ```text
//! New ─▶ Charging ─▶ Paid
//!          │  ▲ └──▶ Declined
//!          ▼  │
//!        Waiting
//! ```

#![no_std]

use aos_sdk::prelude::*;

const ATTEMPTS_MAX: u64 = 4;
const FIRST_PAUSE_SECONDS: u64 = 1;

/// A customer's order. To send one: `aos send project-name/Placed@1 …`
#[derive(Schema)]
#[schema("project-name/Placed@1")]
pub struct Placed {
    pub order_id: String,
    pub cents: u64,
}

/// Told when the order is paid. Another workflow may subscribe to it.
#[derive(Schema)]
#[schema("project-name/Paid@1")]
pub struct Paid {
    pub order_id: String,
    pub charge: String,
}

/// Told when the order will never be paid.
#[derive(Schema)]
#[schema("project-name/Declined@1")]
pub struct Declined {
    pub order_id: String,
    pub reason: String,
}

/// Take the money. `effects.py` does it.
#[derive(Effect)]
#[effect("project-name/charge@1", receipt = Charged, executor = "project-name", timeout_ms = 5000)]
pub struct Charge {
    pub order_id: String,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("project-name/Charged@1")]
pub struct Charged {
    pub charge: String,
}

/// Everything that the workflow receives: events, and the receipts of its effects.
#[derive(Event)]
#[schema("project-name/OrderEvent@1")]
pub enum Event {
    Placed(Placed),
    Receipt(Receipt),
}

#[derive(Schema, Default, PartialEq)]
#[schema("project-name/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Charging,
    Waiting,
    Paid,
    Declined,
}

/// The state of one order.
#[derive(Schema, Default)]
#[schema("project-name/OrderState@1")]
pub struct Order {
    phase: Phase,
    order_id: String,
    cents: u64,
    attempts: u64,
    charge: Pending<Charge>,
    pause: Pending<timer::Set>,
}

#[workflow(
    "project-name/order@1",
    key = "project-name/OrderId@1",
    effects(Charge, timer::Set),
    routes(Placed by "order_id")
)]
fn order(order: &mut Order, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Placed(placed) => order.placed(placed, cx),
        Event::Receipt(receipt) => order.receipt(&receipt, cx)?,
    }
    Ok(())
}

impl Order {
    fn placed(&mut self, placed: Placed, cx: &mut Context) {
        if self.phase != Phase::New {
            return; // sent twice: one order is charged once
        }
        self.order_id = placed.order_id;
        self.cents = placed.cents;
        self.charge(cx);
    }

    fn receipt(&mut self, receipt: &Receipt, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.charge.settle(receipt)? {
            self.charged(outcome, cx);
        } else if self.pause.settle(receipt)?.is_some() {
            self.charge(cx);
        }
        Ok(())
    }

    fn charge(&mut self, cx: &mut Context) {
        self.phase = Phase::Charging;
        self.attempts += 1;
        let charge = Charge { order_id: self.order_id.clone(), cents: self.cents };
        // The same key each time: to the bank it is one charge, however often it is asked.
        self.charge = cx.effect(charge).idempotency_key("charge").start();
    }

    fn charged(&mut self, outcome: Outcome<Charged>, cx: &mut Context) {
        match outcome {
            Outcome::Ok(charged) => {
                self.phase = Phase::Paid;
                cx.emit(Paid { order_id: self.order_id.clone(), charge: charged.charge });
                cx.status(Status::Completed);
            }
            Outcome::Error(error) if error.retryable => self.try_again(error.code, cx),
            Outcome::Error(error) => self.decline(error.code, cx),
            Outcome::Timeout => self.try_again("no_answer".into(), cx),
            Outcome::Canceled => self.decline("canceled".into(), cx),
            Outcome::Rejected(rejection) => self.decline(rejection.code, cx),
        }
    }

    fn try_again(&mut self, reason: String, cx: &mut Context) {
        if self.attempts >= ATTEMPTS_MAX {
            return self.decline(reason, cx);
        }
        log!(cx, "attempt {} of {ATTEMPTS_MAX}: {reason}", self.attempts);
        self.phase = Phase::Waiting;
        let pause = Duration::seconds(FIRST_PAUSE_SECONDS << (self.attempts - 1));
        self.pause = cx.effect(timer::after(cx, pause)).start();
    }

    fn decline(&mut self, reason: String, cx: &mut Context) {
        self.phase = Phase::Declined;
        cx.emit(Declined { order_id: self.order_id.clone(), reason });
        cx.status(Status::Completed);
    }
}
