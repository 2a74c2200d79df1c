//! `shop/order@1` of one world asks `bank/account@1` of another one for money, and gets its answer.
//!
//! Rule 1: neither workflow needs a fence against duplicates: a delivery is admitted once.
//!
//! Rule 2: the answer is an event of its own, and may come before the receipt of the question.
//!
//! Rule 3: a delivery can fail for good. The order says so, and the account gives the money back,
//! if it is certain that its answer did not arrive.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

/// Someone wants something for `cents`.
#[derive(Schema)]
#[schema("shop/Ordered@1")]
pub struct Ordered {
    pub order_id: String,
    pub customer: String,
    pub cents: u64,
}

/// Take `cents` from the account of a customer, and tell the world `answer_to`.
#[derive(Schema)]
#[schema("bank/Charge@1")]
pub struct Charge {
    pub customer: String,
    pub order_id: String,
    pub cents: u64,
    pub answer_to: String,
}

/// The answer to a charge.
#[derive(Schema)]
#[schema("shop/Charged@1")]
pub struct Charged {
    pub order_id: String,
    pub is_paid: bool,
}

#[derive(Schema)]
#[schema("bank/Deposited@1")]
pub struct Deposited {
    pub customer: String,
    pub cents: u64,
}

#[derive(Event)]
#[schema("shop/OrderEvent@1")]
pub enum OrderEvent {
    Ordered(Ordered),
    Charged(Charged),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("shop/OrderPhase@1")]
pub enum OrderPhase {
    #[default]
    New,
    Asking,
    Paid,
    Refused,
    /// The bank did not get the question: the code of the error.
    Unasked(String),
}

#[derive(Schema, Default)]
#[schema("shop/OrderState@1")]
pub struct Order {
    pub phase: OrderPhase,
    pub question: Pending<world::Send>,
}

#[workflow(
    "shop/order@1",
    key = "shop/OrderId@1",
    effects(world::Send),
    routes(Ordered by "order_id", Charged by "order_id")
)]
fn order(state: &mut Order, event: OrderEvent, cx: &mut Context) -> Result<(), Fault> {
    match event {
        OrderEvent::Ordered(ordered) if state.phase == OrderPhase::New => {
            let charge = Charge {
                customer: ordered.customer,
                order_id: ordered.order_id,
                cents: ordered.cents,
                answer_to: "shop".into(),
            };
            state.phase = OrderPhase::Asking;
            state.question = cx.effect(world::send_to("bank", &charge)).start();
            Ok(())
        }
        OrderEvent::Ordered(_) => Ok(()),
        OrderEvent::Charged(charged) => {
            state.phase = if charged.is_paid { OrderPhase::Paid } else { OrderPhase::Refused };
            cx.status(Status::Completed);
            Ok(())
        }
        OrderEvent::Receipt(receipt) => state.asked(&receipt, cx),
        OrderEvent::Rejected(rejected) => state.asked(&rejected, cx),
    }
}

impl Order {
    fn asked(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        match self.question.settle(answer)? {
            Some(Outcome::Error(error)) => self.unasked(error.code, cx),
            Some(Outcome::Timeout) => self.unasked("timeout".into(), cx),
            // The bank has the question, and will answer, or has answered already.
            _ => Ok(()),
        }
    }

    fn unasked(&mut self, code: String, cx: &mut Context) -> Result<(), Fault> {
        self.phase = OrderPhase::Unasked(code);
        cx.status(Status::Failed);
        Ok(())
    }
}

#[derive(Event)]
#[schema("bank/AccountEvent@1")]
pub enum AccountEvent {
    Deposited(Deposited),
    Charge(Charge),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// An answer whose receipt has not come yet. `cents` were taken.
#[derive(Schema)]
#[schema("bank/Answer@1")]
pub struct Answer {
    pub order_id: String,
    pub cents: u64,
    pub sent: Pending<world::Send>,
}

#[derive(Schema, Default)]
#[schema("bank/AccountState@1")]
pub struct Account {
    pub cents: u64,
    pub answers: Vec<Answer>,
    /// Orders that did not get their answer, and whose money is back.
    pub given_back: Vec<String>,
    /// Orders that perhaps did not get their answer: a person decides.
    pub unclear: Vec<String>,
}

#[workflow(
    "bank/account@1",
    key = "bank/Customer@1",
    effects(world::Send),
    routes(Deposited by "customer", Charge by "customer")
)]
fn account(state: &mut Account, event: AccountEvent, cx: &mut Context) -> Result<(), Fault> {
    match event {
        AccountEvent::Deposited(deposited) => {
            state.cents += deposited.cents;
            Ok(())
        }
        AccountEvent::Charge(charge) => {
            let is_paid = charge.cents <= state.cents;
            let cents = if is_paid { charge.cents } else { 0 };
            state.cents -= cents;
            let charged = Charged { order_id: charge.order_id.clone(), is_paid };
            let sent = cx.effect(world::send_to(charge.answer_to, &charged)).start();
            state.answers.push(Answer { order_id: charge.order_id, cents, sent });
            Ok(())
        }
        AccountEvent::Receipt(receipt) => state.answered(&receipt),
        AccountEvent::Rejected(rejected) => state.answered(&rejected),
    }
}

impl Account {
    fn answered(&mut self, receipt: &impl Continuation) -> Result<(), Fault> {
        for at in 0..self.answers.len() {
            let Some(outcome) = self.answers[at].sent.settle(receipt)? else { continue };
            let answer = self.answers.remove(at);
            match outcome {
                Outcome::Ok(_) => {}
                Outcome::Error(error) if error.code != "delivery_too_old" => {
                    self.cents += answer.cents;
                    self.given_back.push(answer.order_id);
                }
                _ => self.unclear.push(answer.order_id),
            }
            break;
        }
        Ok(())
    }
}
