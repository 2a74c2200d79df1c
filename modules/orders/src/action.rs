//! The five external actions of an order, and the rules of each: its retries and its final answers.
//!
//! An order requests each action under one idempotency key, however often it retries it. So it may
//! repeat an attempt that got no clear answer: the shop performs the action once and repeats its
//! answer.

use aos_sdk::prelude::*;

use crate::shop::{OrderId, Outcome};

#[derive(Clone, Copy, PartialEq)]
pub enum Action {
    Reserve,
    Charge,
    Ship,
    Refund,
    Release,
}

const ACTIONS: [Action; 5] =
    [Action::Reserve, Action::Charge, Action::Ship, Action::Refund, Action::Release];

const FIRST_PAUSE: Duration = Duration::millis(200);
const LONGEST_PAUSE: Duration = Duration::seconds(5);

impl Action {
    /// As in the issuer reference, the idempotency key and the notes.
    pub fn name(self) -> &'static str {
        match self {
            Action::Reserve => "reserve",
            Action::Charge => "charge",
            Action::Ship => "ship",
            Action::Refund => "refund",
            Action::Release => "release",
        }
    }

    pub fn named(name: &str) -> Option<Action> {
        ACTIONS.into_iter().find(|action| action.name() == name)
    }

    /// The number of attempts before the order is undone. The last step forward and the steps back
    /// are retried without limit: to give them up would leave money or goods in the wrong place.
    pub fn attempts_max(self) -> Option<u64> {
        match self {
            Action::Reserve => Some(4),
            Action::Charge => Some(if cfg!(feature = "two-charges") { 2 } else { 5 }),
            Action::Ship | Action::Refund | Action::Release => None,
        }
    }

    /// The outcome of the order if this error code proves that the action was not done and never
    /// will be. Any other error leaves open whether it was done.
    pub fn refusal(self, code: &str) -> Option<Outcome> {
        match (self, code) {
            (Action::Reserve, "out_of_stock") => Some(Outcome::OutOfStock),
            (Action::Charge, "declined") => Some(Outcome::Declined),
            (Action::Ship, "undeliverable") => Some(Outcome::Undeliverable),
            (Action::Reserve | Action::Charge, "voided") => Some(Outcome::Cancelled),
            _ => None,
        }
    }

    /// One key for all attempts, so that the action is performed once.
    pub fn idempotency_key(self, order_id: &OrderId) -> String {
        [&order_id.0, "/", self.name()].concat()
    }

    /// `charge/2` for the effect, `charge/2/retry` for the timer after it.
    pub fn reference(self, attempt: u64) -> String {
        format!("{}/{attempt}", self.name())
    }
}

/// The pause after attempt `attempt` (from 1): 200 ms, doubled each time, at most 5 s.
pub fn pause_after(attempt: u64) -> Duration {
    FIRST_PAUSE.doubled(attempt.saturating_sub(1), LONGEST_PAUSE)
}
