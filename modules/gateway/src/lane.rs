//! `gw/signer@1`: the lane of one signer on one chain.

use aos_sdk::prelude::*;

use crate::events::{Attempt, LaneCommand, Owner, TxCancelRequested, TxRequested};
use crate::record::{RecordError, Stall};

#[derive(Event)]
#[schema("gw/LaneEvent@1")]
pub enum LaneEvent {
    Requested(TxRequested),
    CancelRequested(TxCancelRequested),
    Command(LaneCommand),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// The state of a lane. At most one request is in flight; the others wait in order.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/Lane@1")]
pub struct Lane {
    pub chain: u64,
    pub signer_address: String,
    pub updated_at: Time,
    pub current: Option<InFlight>,
    /// The waiting requests in order. Each is two items of CBOR: its name as text, such as
    /// `work 31337/0x…/0x… 3` (owner and number), and a byte string with the `gw/TxRequested@1` in
    /// canonical CBOR.
    pub queue: Vec<u8>,
    pub queued: u64,
    pub stall: Option<Stall>,
    pub error: Option<RecordError>,
    /// Retries since the lane last made progress.
    pub step_attempts: u64,
    /// Automatic stalls in a row.
    pub stall_cycles: u64,
    /// The nonce after the highest one that was consumed at depth.
    pub next_nonce: Option<u64>,
    /// The last eight transactions of this lane that landed, oldest first: sent again when a
    /// reorganisation takes one back.
    pub landed: Vec<Landed>,
    /// The reference of the effect that is open.
    pub open: Option<String>,
    pub doing: LaneDoing,
    /// Park as soon as the open submit has ended.
    pub is_parking: bool,
}

/// The purpose of a lane's open effect.
#[derive(Schema, Clone, Copy, Debug, PartialEq, Default)]
#[schema("gw/LaneDoing@1")]
pub enum LaneDoing {
    #[default]
    Nothing,
    /// `evm/tx.quote@1`: the request has no nonce yet.
    Quoting,
    /// `evm/tx.submit@1` of the request's last attempt.
    Submitting,
    /// `evm/tx.receipt@1`.
    Awaiting,
    /// A timer: then a new quote, or the same bytes again.
    Pausing,
    /// The timer of an automatic stall.
    Stalling,
    /// `evm/tx.submit@1` for a nonce that a reorganisation has freed.
    Mending,
    /// `evm/tx.receipt@1` for the transaction that landed last, or, in a parked lane, for the nonce
    /// of the request in flight.
    Reconciling,
}

/// The request whose turn it is.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/InFlight@1")]
pub struct InFlight {
    pub request: TxRequested,
    /// Fixed by the quote that the first attempt follows.
    pub nonce: Option<u64>,
    pub gas: u64,
    /// A block before the first attempt: where the search for a consumed nonce begins.
    pub since: u64,
    pub attempts: Vec<Attempt>,
    /// Looks since the last attempt that found it pending, or gone although the node had taken it.
    pub looks: u64,
    /// The owner no longer wants it.
    pub is_canceling: bool,
}

/// A transaction that landed, with all that is needed to publish the same bytes again.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/Landed@1")]
pub struct Landed {
    pub nonce: u64,
    pub hash: String,
    pub owner: Owner,
    pub request: u64,
    /// The block before which it was not there.
    pub since: u64,
    pub to: String,
    pub data: Vec<u8>,
    pub value: Decimal,
    pub gas: u64,
    pub max_fee: u64,
    pub max_tip: u64,
}
