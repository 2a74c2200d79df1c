//! The five external actions of an order, and the rules of each: its effect, its retries, its final
//! answers.
//!
//! Every action is asked for under one idempotency key in the life of an order, however often it is
//! retried, so an attempt without a clear answer may be repeated: the shop does the thing once and
//! answers as it did.

use alloc::format;
use alloc::string::String;

use crate::state::Outcome;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Reserve,
    Charge,
    Ship,
    Refund,
    Release,
}

pub const ACTIONS: [Action; 5] =
    [Action::Reserve, Action::Charge, Action::Ship, Action::Refund, Action::Release];

const MS: u64 = 1_000_000;
const BACKOFF_FIRST_NS: u64 = 200 * MS;
const BACKOFF_MAX_NS: u64 = 5_000 * MS;

impl Action {
    /// As the state's field, the issuer reference and the idempotency key spell it.
    pub fn name(self) -> &'static str {
        match self {
            Action::Reserve => "reserve",
            Action::Charge => "charge",
            Action::Ship => "ship",
            Action::Refund => "refund",
            Action::Release => "release",
        }
    }

    pub fn effect(self) -> &'static str {
        match self {
            Action::Reserve => "shop/stock.reserve@1",
            Action::Charge => "shop/card.charge@1",
            Action::Ship => "shop/parcel.ship@1",
            Action::Refund => "shop/card.refund@1",
            Action::Release => "shop/stock.release@1",
        }
    }

    /// How often it is tried before the order is undone. The last step forward and the steps back
    /// are tried for ever: giving up would leave money or goods where they do not belong.
    pub fn attempts_max(self) -> Option<u64> {
        match self {
            Action::Reserve => Some(4),
            Action::Charge => Some(5),
            Action::Ship | Action::Refund | Action::Release => None,
        }
    }

    /// What an error code says for certain: nothing was done and nothing will be. Any other error
    /// leaves open whether the thing was done.
    pub fn refusal(self, code: &str) -> Option<Outcome> {
        match (self, code) {
            (Action::Reserve, "out_of_stock") => Some(Outcome::OutOfStock),
            (Action::Charge, "declined") => Some(Outcome::Declined),
            (Action::Ship, "undeliverable") => Some(Outcome::Undeliverable),
            (Action::Reserve | Action::Charge, "voided") => Some(Outcome::Cancelled),
            _ => None,
        }
    }

    /// One key for each external thing, so that it is done once.
    pub fn idempotency_key(self, order_id: &str) -> String {
        format!("{order_id}/{}", self.name())
    }

    /// `charge/2` for the effect, `charge/2/retry` for the timer after it.
    pub fn reference(self, attempt: u64) -> String {
        format!("{}/{attempt}", self.name())
    }
}

/// The wait after attempt `attempt` (from 1): 200 ms, doubled each time, 5 s at most.
pub fn backoff_ns(attempt: u64) -> u64 {
    let doublings = attempt.saturating_sub(1).min(10) as u32;
    (BACKOFF_FIRST_NS << doublings).min(BACKOFF_MAX_NS)
}
