//! Times of a calendar: `sys/cron.next@1`.
//!
//! ```
//! # use aos_sdk::prelude::*;
//! #[derive(Schema, Default)]
//! #[schema("demo/State@1")]
//! struct State { asked: Pending<cron::Next>, due: Option<Time> }
//!
//! fn ask(state: &mut State, cx: &mut Context) {
//!     state.asked = cx.effect(cron::next(cx, "30 2 * * *", "Europe/Berlin")).start();
//! }
//!
//! fn receipt(state: &mut State, receipt: Receipt) -> Result<(), Fault> {
//!     if let Some(Outcome::Ok(found)) = state.asked.settle(&receipt)? {
//!         state.due = found.times().next();
//!     }
//!     Ok(())
//! }
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::context::Context;
use crate::types::Time;
use crate::{Effect, Schema};

/// Ask for the next times of a cron text in a time zone. They come with the rules of time zones that
/// the host has, so a replay needs none.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/cron.next@1", receipt = Times, executor = "node", params = "sys/CronNextParams@1")]
pub struct Next {
    /// Minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// Such as `Europe/Berlin`.
    pub tz: String,
    /// The times are later than this one.
    pub after_ns: u64,
    /// 1 to 256.
    pub count: u64,
}

/// `sys/CronNextReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/CronNextReceipt@1")]
pub struct Times {
    /// Ascending.
    pub times: Vec<u64>,
    /// The release of the time zones' rules, such as `2026a`.
    pub tzdata: String,
}

/// The next time after the step's.
pub fn next(cx: &Context<'_>, cron: impl Into<String>, tz: impl Into<String>) -> Next {
    Next { cron: cron.into(), tz: tz.into(), after_ns: cx.now().nat_ns(), count: 1 }
}

impl Next {
    /// The times after this one.
    pub fn after(self, time: Time) -> Next {
        Next { after_ns: time.nat_ns(), ..self }
    }

    /// As many times, at most 256.
    pub fn count(self, count: u64) -> Next {
        Next { count, ..self }
    }
}

impl Times {
    pub fn times(&self) -> impl Iterator<Item = Time> + '_ {
        self.times.iter().map(|&ns| Time::from_ns(ns as i64))
    }
}
