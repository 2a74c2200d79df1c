//! `card/payment@1`, keyed by order: a card number that the workflow carries and cannot read.
//!
//! Rule 1: the number comes sealed, goes sealed to the vault, and is not kept afterwards.
//!
//! Rule 2: the vault's token for it comes sealed from the worker, and goes sealed to the bank. The
//! state keeps it for a refund.
//!
//! Rule 3: the workflow decides on the amount, which is not sealed: what it decides on, it reads.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

/// The largest payment that no person has to look at, in cents.
const CENTS_MAX: u64 = 1_000_000;

/// A customer gave a card for an order.
#[derive(Schema)]
#[schema("card/Given@1")]
pub struct Given {
    pub order_id: String,
    pub cents: u64,
    pub card: Sealed,
}

#[derive(Schema)]
#[schema("card/Charged@1")]
pub struct Charged {
    pub order_id: String,
    pub reference: String,
}

/// Put a card into the vault.
#[derive(Effect)]
#[effect("card/keep@1", receipt = Kept, executor = "cards", timeout_ms = 10000)]
pub struct Keep {
    pub order_id: String,
    pub card: Sealed,
}

#[derive(Schema)]
#[schema("card/Kept@1")]
pub struct Kept {
    pub token: Sealed,
    /// The last digits, which may be shown.
    pub last_digits: String,
}

#[derive(Effect)]
#[effect("card/charge@1", receipt = Payment, executor = "cards", timeout_ms = 10000)]
pub struct Charge {
    pub order_id: String,
    pub cents: u64,
    pub token: Sealed,
}

#[derive(Schema)]
#[schema("card/Payment@1")]
pub struct Payment {
    pub reference: String,
}

#[derive(Event)]
#[schema("card/PaymentEvent@1")]
pub enum Event {
    Given(Given),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("card/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Keeping,
    Charging,
    /// The bank's reference.
    Charged(String),
    /// Why.
    Refused(String),
}

#[derive(Schema, Default)]
#[schema("card/PaymentState@1")]
pub struct State {
    pub phase: Phase,
    pub cents: u64,
    pub token: Option<Sealed>,
    pub last_digits: String,
    pub keep: Pending<Keep>,
    pub charge: Pending<Charge>,
}

#[workflow(
    "card/payment@1",
    key = "card/OrderId@1",
    effects(Keep, Charge),
    routes(Given by "order_id")
)]
fn payment(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Given(given) if state.phase == Phase::New => state.given(given, cx),
        Event::Given(_) => Ok(()),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

impl State {
    fn given(&mut self, given: Given, cx: &mut Context) -> Result<(), Fault> {
        if given.cents > CENTS_MAX {
            return self.refused("too_much".into(), cx);
        }
        self.cents = given.cents;
        self.phase = Phase::Keeping;
        self.keep = cx.effect(Keep { order_id: given.order_id, card: given.card }).start();
        Ok(())
    }

    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.keep.settle(answer)? {
            return match outcome {
                Outcome::Ok(kept) => self.kept(kept, cx),
                other => self.refused(why(other), cx),
            };
        }
        if let Some(outcome) = self.charge.settle(answer)? {
            return match outcome {
                Outcome::Ok(payment) => self.charged(payment, cx),
                other => self.refused(why(other), cx),
            };
        }
        Ok(())
    }

    fn kept(&mut self, kept: Kept, cx: &mut Context) -> Result<(), Fault> {
        let charge =
            Charge { order_id: cx.key()?, cents: self.cents, token: kept.token.clone() };
        self.phase = Phase::Charging;
        self.last_digits = kept.last_digits;
        self.token = Some(kept.token);
        self.charge = cx.effect(charge).start();
        Ok(())
    }

    fn charged(&mut self, payment: Payment, cx: &mut Context) -> Result<(), Fault> {
        cx.emit(Charged { order_id: cx.key()?, reference: payment.reference.clone() });
        self.phase = Phase::Charged(payment.reference);
        cx.status(Status::Completed);
        Ok(())
    }

    fn refused(&mut self, why: String, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Refused(why);
        cx.status(Status::Failed);
        Ok(())
    }
}

fn why<T>(outcome: Outcome<T>) -> String {
    match outcome {
        Outcome::Error(error) => error.code,
        _ => "no_answer".into(),
    }
}
