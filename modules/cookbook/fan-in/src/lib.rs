//! `quote/request@1`, keyed by quote: it asks many suppliers in parallel and gives one answer.
//!
//! Rule 1: every request has its handle in `asks`, under the supplier, until it settles.
//!
//! Rule 2: the join is when the set is empty, when there are enough offers, or at the deadline,
//! whichever is first. It happens once: requests in flight are canceled, their handles dropped.
//!
//! Rule 3: a supplier that fails is a failure of its own, kept with the reason, and never one of the
//! request. Only a request without any offer has failed.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

#[derive(Schema)]
#[schema("quote/Asked@1")]
pub struct Asked {
    pub quote_id: String,
    pub item: String,
    pub suppliers: Vec<String>,
    /// The number of offers that ends the request.
    pub enough: u64,
    pub patience: Duration,
}

#[derive(Schema)]
#[schema("quote/Closed@1")]
pub struct Closed {
    pub quote_id: String,
    pub best: Option<Offer>,
    pub offers: u64,
    pub failures: u64,
}

#[derive(Schema)]
#[schema("quote/Offer@1")]
pub struct Offer {
    pub supplier: String,
    pub cents: u64,
}

#[derive(Effect)]
#[effect("quote/supplier.ask@1", receipt = Price, executor = "suppliers", timeout_ms = 30000)]
pub struct Ask {
    pub supplier: String,
    pub item: String,
}

#[derive(Schema)]
#[schema("quote/Price@1")]
pub struct Price {
    pub cents: u64,
}

#[derive(Event)]
#[schema("quote/RequestEvent@1")]
pub enum Event {
    Asked(Asked),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("quote/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Asking,
    Closed,
}

#[derive(Schema, Default)]
#[schema("quote/RequestState@1")]
pub struct State {
    pub phase: Phase,
    pub enough: u64,
    pub asks: PendingSet<String, Ask>,
    pub deadline: Pending<timer::Set>,
    /// Cents by supplier.
    pub offers: Map<String, u64>,
    /// Why, by supplier.
    pub failures: Map<String, String>,
}

#[workflow(
    "quote/request@1",
    key = "quote/QuoteId@1",
    effects(Ask, timer::Set, effect::Cancel),
    routes(Asked by "quote_id")
)]
fn request(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Asked(asked) if state.phase == Phase::New => state.fan_out(asked, cx),
        Event::Asked(_) => Ok(()),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

impl State {
    fn fan_out(&mut self, asked: Asked, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Asking;
        self.enough = asked.enough;
        for supplier in asked.suppliers {
            if !self.asks.contains(&supplier) {
                let ask = Ask { supplier: supplier.clone(), item: asked.item.clone() };
                let pending = cx.effect(ask).start();
                self.asks.insert(supplier, pending);
            }
        }
        if !self.asks.is_empty() {
            let deadline = cx.now() + asked.patience;
            self.deadline = cx.effect(timer::at(deadline)).start();
        }
        self.join_when_done(cx)
    }

    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some((supplier, outcome)) = self.asks.settle(answer)? {
            match outcome {
                Outcome::Ok(price) => drop(self.offers.insert(supplier, price.cents)),
                Outcome::Error(error) => drop(self.failures.insert(supplier, error.code)),
                Outcome::Timeout => self.fail(supplier, "timeout"),
                Outcome::Canceled => self.fail(supplier, "canceled"),
                Outcome::Rejected(_) => self.fail(supplier, "an answer that is none"),
            }
            return self.join_when_done(cx);
        }
        if self.deadline.settle(answer)?.is_some() {
            let late: Vec<String> = self.asks.keys().cloned().collect();
            late.into_iter().for_each(|supplier| self.fail(supplier, "too late"));
            return self.join(cx);
        }
        Ok(())
    }

    fn fail(&mut self, supplier: String, why: &str) {
        self.failures.insert(supplier, why.into());
    }

    fn join_when_done(&mut self, cx: &mut Context) -> Result<(), Fault> {
        if self.asks.is_empty() || self.offers.len() as u64 >= self.enough.max(1) {
            return self.join(cx);
        }
        Ok(())
    }

    fn join(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.asks.cancel_all(cx);
        self.deadline.cancel(cx);
        (self.asks, self.deadline) = Default::default();
        self.phase = Phase::Closed;
        let best = self.offers.iter().min_by_key(|(_, cents)| *cents);
        let best =
            best.map(|(supplier, cents)| Offer { supplier: supplier.clone(), cents: *cents });
        cx.status(if best.is_some() { Status::Completed } else { Status::Failed });
        cx.emit(Closed {
            quote_id: cx.key()?,
            best,
            offers: self.offers.len() as u64,
            failures: self.failures.len() as u64,
        });
        Ok(())
    }
}
