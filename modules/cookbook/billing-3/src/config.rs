//! Prices and pauses, the parts that change most often. A change is a new build, so the tests run
//! with it, and the journal shows from which record on it was in force.

use aos_sdk::prelude::*;

pub const BANK: &str = "http://127.0.0.1:17471/charges";

/// The price of a month, in cents.
const PLANS: [(&str, u64); 2] = [("basic", 900), ("team", 5900)];

/// After a refused charge, before the next one.
pub const AFTER_REFUSAL: Duration = Duration::days(3);

/// After a charge whose outcome is unknown, before it is repeated.
pub const AFTER_UNKNOWN: Duration = Duration::hours(1);

/// The subscription ends with this refusal of one month's charge.
pub const REFUSALS_MAX: u64 = 4;

pub fn price_cents(plan: &str) -> Option<u64> {
    PLANS.iter().find(|(name, _)| *name == plan).map(|(_, cents)| *cents)
}
