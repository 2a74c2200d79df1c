//! `bank/transfer@1`, keyed by transfer: the money moves once, whatever crashes.
//!
//! Rule 1: `Keyed`: the bank knows idempotency keys. Every attempt has the same key and the same
//! params, so the workflow may retry until the bank answers.
//!
//! Rule 2: `Unkeyed`: each call is a payment. The effect is `at_most_once`, never requested again.
//! If its outcome is unknown, the workflow looks it up, which may be repeated.
//!
//! Rule 3: after an unclear outcome, a payment that is not booked is not paid again: the call may
//! still be on its way. A person decides.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

const PAUSE: Duration = Duration::seconds(1);
const PAUSE_MAX: Duration = Duration::minutes(5);

/// Send `cents` to a recipient.
#[derive(Schema)]
#[schema("bank/Asked@1")]
pub struct Asked {
    pub transfer_id: String,
    pub to: String,
    pub cents: u64,
    pub way: Way,
}

#[derive(Schema)]
#[schema("bank/Way@1")]
pub enum Way {
    Keyed,
    Unkeyed,
}

#[derive(Schema)]
#[schema("bank/Paid@1")]
pub struct Paid {
    pub transfer_id: String,
    pub reference: String,
}

#[derive(Effect)]
#[effect("bank/pay@1", receipt = Payment, executor = "banks", timeout_ms = 10000)]
pub struct Pay {
    pub transfer_id: String,
    pub to: String,
    pub cents: u64,
}

#[derive(Effect)]
#[effect(
    "bank/wire@1",
    receipt = Payment,
    executor = "banks",
    timeout_ms = 10000,
    delivery = "at_most_once"
)]
pub struct Wire {
    pub transfer_id: String,
    pub to: String,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("bank/Payment@1")]
pub struct Payment {
    pub reference: String,
}

/// Was this transfer booked?
#[derive(Effect)]
#[effect("bank/look@1", receipt = Found, executor = "banks", timeout_ms = 10000)]
pub struct Look {
    pub transfer_id: String,
}

#[derive(Schema)]
#[schema("bank/Found@1")]
pub struct Found {
    pub reference: Option<String>,
}

#[derive(Event)]
#[schema("bank/TransferEvent@1")]
pub enum Event {
    Asked(Asked),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("bank/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Paying,
    Looking,
    /// The bank's reference.
    Paid(String),
    /// Why.
    Unpaid(String),
}

#[derive(Schema, Default)]
#[schema("bank/TransferState@1")]
pub struct State {
    pub phase: Phase,
    pub to: String,
    pub cents: u64,
    /// How many answers were unclear.
    pub unclear: u64,
    pub pay: Pending<Pay>,
    pub wire: Pending<Wire>,
    pub look: Pending<Look>,
    pub pause: Pending<timer::Set>,
}

#[workflow(
    "bank/transfer@1",
    key = "bank/TransferId@1",
    effects(Pay, Wire, Look, timer::Set),
    routes(Asked by "transfer_id")
)]
fn transfer(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Asked(asked) if state.phase == Phase::New => {
            (state.to, state.cents) = (asked.to, asked.cents);
            state.phase = Phase::Paying;
            match asked.way {
                Way::Keyed => state.pay(cx),
                Way::Unkeyed => state.wire(cx),
            }
        }
        Event::Asked(_) => Ok(()),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

impl State {
    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.pay.settle(answer)? {
            return match outcome {
                Outcome::Ok(payment) => self.paid(payment.reference, cx),
                Outcome::Error(error) if !error.retryable => {
                    self.unpaid(error.code, Status::Completed, cx)
                }
                _ => self.pause(cx),
            };
        }
        if let Some(outcome) = self.wire.settle(answer)? {
            return match outcome {
                Outcome::Ok(payment) => self.paid(payment.reference, cx),
                // An error of the executor is clear. `unknown_outcome` comes from the kernel.
                Outcome::Error(error) if !error.retryable && error.code != "unknown_outcome" => {
                    self.unpaid(error.code, Status::Completed, cx)
                }
                _ => self.look(cx),
            };
        }
        if let Some(outcome) = self.look.settle(answer)? {
            return match outcome {
                Outcome::Ok(Found { reference: Some(reference) }) => self.paid(reference, cx),
                Outcome::Ok(_) => self.unpaid("not booked".into(), Status::Failed, cx),
                _ => self.pause(cx),
            };
        }
        if self.pause.settle(answer)?.is_some() {
            return if self.phase == Phase::Looking { self.look(cx) } else { self.pay(cx) };
        }
        Ok(())
    }

    fn pay(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let pay = Pay { transfer_id: cx.key()?, to: self.to.clone(), cents: self.cents };
        // The kernel makes it unique with world, workflow and cell.
        self.pay = cx.effect(pay).idempotency_key("pay").start();
        Ok(())
    }

    fn wire(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let wire = Wire { transfer_id: cx.key()?, to: self.to.clone(), cents: self.cents };
        self.wire = cx.effect(wire).start();
        Ok(())
    }

    fn look(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Looking;
        self.look = cx.effect(Look { transfer_id: cx.key()? }).start();
        Ok(())
    }

    fn pause(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let until = cx.now() + PAUSE.doubled(self.unclear, PAUSE_MAX);
        self.unclear += 1;
        self.pause = cx.effect(timer::at(until)).start();
        Ok(())
    }

    fn paid(&mut self, reference: String, cx: &mut Context) -> Result<(), Fault> {
        cx.emit(Paid { transfer_id: cx.key()?, reference: reference.clone() });
        self.phase = Phase::Paid(reference);
        cx.status(Status::Completed);
        Ok(())
    }

    fn unpaid(&mut self, why: String, status: Status, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Unpaid(why);
        cx.status(status);
        Ok(())
    }
}
