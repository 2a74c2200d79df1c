//! The third release of `billing/subscription@1`: a subscription keeps the price that it began with.
//!
//! The price is in the state from now on, instead of plan and discount. So the state has another
//! shape, under a new name, and `renew` makes it from a state of the second release.
//!
//! Rule 1: month n is due n calendar months after the first day, which is in the state. Adding one
//! month to the last due day would move the 31st to the 28th for good.
//!
//! Rule 2: a charge has one idempotency key and one price from its first attempt until the bank
//! answers. An unknown outcome is repeated under that key; after a refusal a new key begins.
//!
//! Rule 3: only the bank's refusal (402) counts against the subscriber. The subscription ends
//! `unpaid` after the fourth for one month. A bank that cannot be reached ends nothing.
//!
//! Rule 4: a cancellation waits for the answer to a charge that is on its way.

#![no_std]

mod config;

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("billing/Subscribed@1")]
pub struct Subscribed {
    pub subscription_id: String,
    pub plan: String,
    pub card: String,
    /// Off the price of each month.
    pub discount_cents: Option<u64>,
}

#[derive(Schema)]
#[schema("billing/Canceled@1")]
pub struct Canceled {
    pub subscription_id: String,
}

#[derive(Schema)]
#[schema("billing/Paid@1")]
pub struct Paid {
    pub subscription_id: String,
    /// 0 for the first.
    pub month: u64,
    pub cents: u64,
    pub charge: String,
}

#[derive(Schema)]
#[schema("billing/Ended@1")]
pub struct Ended {
    pub subscription_id: String,
    pub why: String,
    pub months_paid: u64,
}

/// Write to the subscriber that the bank has refused a charge.
#[derive(Effect)]
#[effect("billing/notify@1", receipt = Notified, executor = "mail", timeout_ms = 10000)]
pub struct Notify {
    pub subscription_id: String,
    pub month: u64,
    pub is_last: bool,
}

#[derive(Schema)]
#[schema("billing/Notified@1")]
pub struct Notified {
    pub message_id: String,
}

#[derive(Event)]
#[schema("billing/SubscriptionEvent@1")]
pub enum Event {
    Subscribed(Subscribed),
    Canceled(Canceled),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("billing/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Charging,
    /// Until the next month.
    Paid,
    /// Until the next attempt, under a new key.
    Refused,
    /// Until the same attempt is repeated.
    Unknown,
    /// Why.
    Ended(String),
}

#[derive(Schema, Default)]
#[schema("billing/SubscriptionState@2")]
pub struct State {
    pub phase: Phase,
    pub card: String,
    pub began: Time,
    pub months_paid: u64,
    /// The price of a month, for as long as the subscription lasts.
    pub cents: u64,
    /// Of the month that is being charged.
    pub refusals: u64,
    pub is_canceled: bool,
    pub charge: Pending<http::Request>,
    pub wait: Pending<timer::Set>,
}

/// The state of the second release.
#[derive(Schema)]
#[schema("billing/SubscriptionState@1")]
pub struct Before {
    pub phase: Phase,
    pub plan: String,
    pub card: String,
    pub began: Time,
    pub months_paid: u64,
    pub cents: u64,
    pub refusals: u64,
    pub is_canceled: bool,
    pub discount_cents: Option<u64>,
    pub charge: Pending<http::Request>,
    pub wait: Pending<timer::Set>,
}

#[workflow(
    "billing/subscription@1",
    key = "billing/SubscriptionId@1",
    effects(http::Request, timer::Set, effect::Cancel, Notify),
    routes(Subscribed by "subscription_id", Canceled by "subscription_id" creates = false),
    module = "billing/billing.module@1",
    migrate(from = Before, by = renew)
)]
fn subscription(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Subscribed(subscribed) if state.phase == Phase::New => {
            let Some(cents) = config::price_cents(&subscribed.plan) else {
                return state.end("no such plan", cx);
            };
            state.cents = cents.saturating_sub(subscribed.discount_cents.unwrap_or_default());
            state.card = subscribed.card;
            state.began = cx.now();
            state.begin_month(cx)
        }
        Event::Subscribed(_) => Ok(()),
        Event::Canceled(_) => state.cancel(cx),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

/// The price last charged is the subscription's own from now on.
fn renew(before: Before) -> Result<State, Fault> {
    Ok(State {
        phase: before.phase,
        card: before.card,
        began: before.began,
        months_paid: before.months_paid,
        cents: before.cents,
        refusals: before.refusals,
        is_canceled: before.is_canceled,
        charge: before.charge,
        wait: before.wait,
    })
}

impl State {
    fn begin_month(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.refusals = 0;
        self.charge(cx)
    }

    fn charge(&mut self, cx: &mut Context) -> Result<(), Fault> {
        let body = json!({
            "subscription": cx.key::<String>()?,
            "month": self.months_paid,
            "card": self.card.as_str(),
            "amount": {"cents": self.cents, "currency": "EUR"},
        });
        let key = format!("month {} charge {}", self.months_paid, self.refusals);
        let request = http::post_json(config::BANK, body);
        self.charge = cx.effect(request).idempotency_key(key).start();
        self.phase = Phase::Charging;
        Ok(())
    }

    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.charge.settle(answer)? {
            return self.charged(outcome, cx);
        }
        if self.wait.settle(answer)?.is_some() {
            return if self.phase == Phase::Paid { self.begin_month(cx) } else { self.charge(cx) };
        }
        Ok(()) // the receipt of a mail, or of a canceled timer
    }

    fn charged(&mut self, outcome: Outcome<http::Response>, cx: &mut Context) -> Result<(), Fault> {
        match outcome {
            Outcome::Ok(response) if response.status == 402 => self.refused(cx),
            Outcome::Ok(response) if response.status == 201 => match charge_id(&response) {
                Some(charge) => self.paid(charge, cx),
                None => self.repeat_later(cx),
            },
            _ => self.repeat_later(cx),
        }
    }

    fn paid(&mut self, charge: String, cx: &mut Context) -> Result<(), Fault> {
        let (month, cents) = (self.months_paid, self.cents);
        cx.emit(Paid { subscription_id: cx.key()?, month, cents, charge });
        self.months_paid += 1;
        if self.is_canceled {
            return self.end("canceled", cx);
        }
        let Some(due) = self.began.add_months(self.months_paid as i64) else {
            return self.end("the calendar ends", cx);
        };
        self.phase = Phase::Paid;
        self.wait = cx.effect(timer::at(due).key("next month")).start();
        Ok(())
    }

    fn refused(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.refusals += 1;
        if self.is_canceled {
            return self.end("canceled", cx);
        }
        let is_last = self.refusals == config::REFUSALS_MAX;
        let month = self.months_paid;
        cx.effect(Notify { subscription_id: cx.key()?, month, is_last }).forget();
        if is_last {
            return self.end("unpaid", cx);
        }
        self.phase = Phase::Refused;
        let wait = timer::after(cx, config::AFTER_REFUSAL).key("after a refusal");
        self.wait = cx.effect(wait).start();
        Ok(())
    }

    /// The card may have been charged: the same request again, until the bank answers.
    fn repeat_later(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Unknown;
        let wait = timer::after(cx, config::AFTER_UNKNOWN).key("after an unknown outcome");
        self.wait = cx.effect(wait).start();
        Ok(())
    }

    fn cancel(&mut self, cx: &mut Context) -> Result<(), Fault> {
        match self.phase {
            Phase::Paid | Phase::Refused => self.end("canceled", cx),
            Phase::Charging | Phase::Unknown => {
                self.is_canceled = true;
                Ok(())
            }
            Phase::New | Phase::Ended(_) => Ok(()),
        }
    }

    fn end(&mut self, why: &str, cx: &mut Context) -> Result<(), Fault> {
        self.wait.cancel(cx);
        self.wait = Pending::default();
        self.phase = Phase::Ended(why.into());
        let months_paid = self.months_paid;
        cx.emit(Ended { subscription_id: cx.key()?, why: why.into(), months_paid });
        cx.status(Status::Completed);
        Ok(())
    }
}

/// None if the body does not name the charge: its outcome is then unknown.
fn charge_id(response: &http::Response) -> Option<String> {
    let body = response.json().ok()?;
    body["charge"]["id"].as_str().map(String::from)
}
