#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]

#[doc(hidden)]
pub extern crate alloc;
// The derives name this crate from outside; here that is the crate itself.
extern crate self as aos_sdk;

pub mod air;
pub mod cbor;
pub mod flow;
pub mod json;
#[doc(hidden)]
pub mod memory;
pub mod step;

#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod number;

mod context;
mod fault;
mod handle;
mod migration;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod panic;
mod random;
mod request;
mod schema;
mod sys;
mod types;
mod workflow;

pub use aos_sdk_macros::{Effect, Event, Schema, flow, workflow};
pub use context::Context;
pub use fault::Fault;
pub use handle::{About, Continuation, Outcome, Pending, PendingSet, Rejection};
pub use migration::Migration;
#[doc(hidden)]
pub use migration::run as migrate;
pub use random::Random;
pub use request::{Effect, Request};
pub use schema::{Key, Named, Schema, decode, encode};
pub use step::{IdempotencyKey, Status};
pub use sys::blob::{BlobGetResult, BlobPutResult};
pub use sys::timer::TimerFired;
pub use sys::{EffectError, Receipt, Rejected, SecretRef, StreamFrame, TextOrSecretRef};
pub use sys::{blob, cron, effect, host, http, introspect, llm, portal, timer, vault, workspace, world};
pub use types::{Date, Decimal, Duration, Hash, Map, Sealed, Set, Time, Uuid};
pub use workflow::{Answer, Typed, Workflow};

/// The names that most workflows use, including `String` and `Vec`, which a crate without the
/// standard library does not have by itself.
pub mod prelude {
    pub use crate::flow::{Cx, FlowError, Loop, Retry, Won, branch};
    pub use crate::{
        Context, Continuation, Date, Decimal, Duration, Effect, EffectError, Event, Fault, Hash,
        Map, Named, Outcome, Pending, PendingSet, Receipt, Rejected, Schema, Sealed, Set, Status,
        StreamFrame, Time, Uuid, Workflow, blob, cron, decode, effect, encode, flow, http,
        introspect, json, log, timer, workflow, world,
    };
    pub use alloc::borrow::ToOwned;
    pub use alloc::boxed::Box;
    pub use alloc::format;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec;
    pub use alloc::vec::Vec;
}
