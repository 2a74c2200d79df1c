//! Timers: `sys/timer.set@1`, `sys/timer.cancel@1`.
//!
//! ```
//! # use aos_sdk::prelude::*;
//! #[derive(Schema, Default)]
//! #[schema("demo/State@1")]
//! struct State { reminder: Pending<timer::Set> }
//!
//! fn remind(state: &mut State, cx: &mut Context) {
//!     state.reminder = cx.effect(timer::after(cx, Duration::days(30))).start();
//! }
//!
//! fn receipt(state: &mut State, receipt: Receipt) -> Result<bool, Fault> {
//!     Ok(matches!(state.reminder.settle(&receipt)?, Some(Outcome::Ok(_))))
//! }
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::context::Context;
use crate::types::{Duration, Hash, Time};
use crate::{Effect, Schema};

/// Wake this cell at a time: `sys/timer.set@1`. A timer has no timeout.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/timer.set@1", receipt = Fired, executor = "node", params = "sys/TimerSetParams@1")]
pub struct Set {
    pub deliver_at_ns: u64,
    /// For people: it comes back in the receipt.
    pub key: Option<String>,
}

/// A timer at this time. A time in the past fires immediately.
pub fn at(time: Time) -> Set {
    Set { deliver_at_ns: time.nat_ns(), key: None }
}

/// A timer this long after the step's time.
pub fn after(cx: &Context<'_>, wait: Duration) -> Set {
    at(cx.now() + wait)
}

impl Set {
    pub fn key(self, key: impl Into<String>) -> Set {
        Set { key: Some(key.into()), ..self }
    }
}

/// A timer went off: `sys/TimerSetReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/TimerSetReceipt@1")]
pub struct Fired {
    pub delivered_at_ns: u64,
    pub key: Option<String>,
}

/// Cancel a timer of this cell, and nothing else: `sys/timer.cancel@1`.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/timer.cancel@1", receipt = Cancelled, executor = "kernel", params = "sys/TimerCancelParams@1")]
pub struct Cancel {
    pub intent: Option<Hash>,
    pub issuer_ref: Option<String>,
}

impl Cancel {
    /// The timer that was set under this reference:
    /// [`Pending::issuer_ref`](crate::Pending::issuer_ref).
    pub fn by_reference(issuer_ref: impl Into<String>) -> Cancel {
        Cancel { intent: None, issuer_ref: Some(issuer_ref.into()) }
    }

    pub fn by_intent(intent: Hash) -> Cancel {
        Cancel { intent: Some(intent), issuer_ref: None }
    }
}

/// `sys/TimerCancelReceipt@1`. The timer's own answer, `Canceled`, comes before it.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/TimerCancelReceipt@1")]
pub struct Cancelled {
    pub cancelled: bool,
}

/// The answer to a timer where an event has no arm for [`Receipt`](crate::Receipt):
/// `sys/TimerFired@1`, an older form.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/TimerFired@1")]
pub struct TimerFired {
    pub intent_hash: Hash,
    pub workflow: String,
    pub effect: String,
    pub status: String,
    pub requested: Set,
    pub receipt: Fired,
    pub cost_cents: Option<u64>,
    pub signature: Vec<u8>,
}
