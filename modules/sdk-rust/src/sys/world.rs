//! Events for other worlds in the same folder: `sys/world.send@1`.
//!
//! ```
//! # use aos_sdk::prelude::*;
//! # #[derive(Schema)] #[schema("bank/Paid@1")] struct Paid { order_id: String, cents: u64 }
//! #[derive(Schema, Default)]
//! #[schema("demo/State@1")]
//! struct State { paid: Pending<world::Send>, record: Option<u64> }
//!
//! fn pay(state: &mut State, cx: &mut Context) {
//!     let paid = Paid { order_id: "o-1".into(), cents: 100 };
//!     state.paid = cx.effect(world::send_to("bank", &paid)).start();
//! }
//!
//! fn receipt(state: &mut State, receipt: Receipt) -> Result<(), Fault> {
//!     if let Some(Outcome::Ok(sent)) = state.paid.settle(&receipt)? {
//!         state.record = Some(sent.seq);
//!     }
//!     Ok(())
//! }
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::Hash;
use crate::{Effect, Named, Schema, encode};

/// Send an event to another world. It is admitted once, or the workflow is told why not.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/world.send@1", receipt = Sent, executor = "node", params = "sys/WorldSendParams@1")]
pub struct Send {
    /// The name of the world.
    pub to: String,
    /// The schema of the event, which that world must know.
    pub schema: String,
    /// The event, as canonical CBOR.
    pub value: Vec<u8>,
}

/// `sys/WorldSendReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorldSendReceipt@1")]
pub struct Sent {
    /// The id of the world that admitted the event.
    pub world: Hash,
    /// The record of the event in that world.
    pub seq: u64,
    /// Whether an earlier request had delivered it already.
    pub duplicate: bool,
}

/// Send `event` to the world of this name.
pub fn send_to<T: Named>(to: impl Into<String>, event: &T) -> Send {
    Send { to: to.into(), schema: T::NAME.into(), value: encode(event) }
}
