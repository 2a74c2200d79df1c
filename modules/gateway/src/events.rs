//! The events of the gateway: requests and commands from outside, and those between a record and
//! the lane of its signer.
//!
//! Keys are text in lower case: `31337/0xSTUDIO/0xDATAHASH` of a work, the same with
//! `/0xWORKER/0xVALIDATOR` of a score, `31337/0xSTUDIO/7` of an epoch, `31337/0xADDRESS` of a lane.

use aos_sdk::prelude::*;

use crate::evm::{Cause, Guard};

#[derive(Schema, Clone, Default)]
#[schema("gw/WorkKey@1")]
pub struct WorkKey(pub String);

#[derive(Schema, Clone, Default)]
#[schema("gw/ScoreKey@1")]
pub struct ScoreKey(pub String);

#[derive(Schema, Clone, Default)]
#[schema("gw/EpochKey@1")]
pub struct EpochKey(pub String);

#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/LaneKey@1")]
pub struct LaneKey(pub String);

/// How long to wait, how often to try, and how much to pay. It never changes for a record.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/Policy@1")]
pub struct Policy {
    /// Confirmations of a final block; 0: the chain's finalized block.
    pub conf: u64,
    /// How long one look at the chain waits for a transaction.
    pub wait_ms: u64,
    /// Looks that find the transaction pending before its fees are raised.
    pub bump_after: u64,
    /// The most that a unit of gas may cost, in wei.
    pub max_fee: u64,
    /// Retries of a step before it stalls.
    pub retries: u64,
    /// The pause before the first retry, doubled for each further one up to `retry_cap_ms`.
    pub retry_base_ms: u64,
    pub retry_cap_ms: u64,
    /// The pause of the first automatic stall, doubled for each further one up to `stall_cap_ms`.
    pub stall_base_ms: u64,
    pub stall_cap_ms: u64,
    /// Automatic stalls in a row before the record is parked.
    pub stall_cycles: u64,
    /// Confirmations of an upload.
    pub arweave_conf: u64,
    /// How long one look at Arweave waits.
    pub arweave_wait_ms: u64,
}

/// Submit and register one piece of work, with its evidence.
#[derive(Schema, Clone)]
#[schema("gw/WorkRequested@1")]
pub struct WorkRequested {
    pub work: WorkKey,
    pub chain: u64,
    pub studio_address: String,
    pub epoch: u64,
    pub signer_address: String,
    /// 32 bytes as hex. The default of the command line is the BLAKE3 hash of the evidence.
    pub data_hash: String,
    /// The gateway's name in `AOS_ARWEAVE`.
    pub arweave: String,
    pub content_type: String,
    /// At most 524,288 bytes.
    pub evidence: Vec<u8>,
    pub policy: Policy,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq, Default)]
#[schema("gw/ScoreMode@1")]
pub enum ScoreMode {
    #[default]
    Direct,
    CommitReveal,
}

/// Score a work that its worker has submitted.
#[derive(Schema, Clone)]
#[schema("gw/ScoreRequested@1")]
pub struct ScoreRequested {
    pub score: ScoreKey,
    pub chain: u64,
    pub studio_address: String,
    pub data_hash: String,
    pub worker_address: String,
    /// The validator, which signs the score.
    pub signer_address: String,
    /// The account that registers the validator.
    pub admin_address: String,
    pub epoch: u64,
    /// 1 to 32 numbers from 0 to 65,535.
    pub scores: Vec<u64>,
    pub mode: ScoreMode,
    pub policy: Policy,
}

/// Close an epoch.
#[derive(Schema, Clone)]
#[schema("gw/EpochCloseRequested@1")]
pub struct EpochCloseRequested {
    pub epoch_key: EpochKey,
    pub chain: u64,
    pub studio_address: String,
    pub epoch: u64,
    pub signer_address: String,
    pub policy: Policy,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("gw/CommandKind@1")]
pub enum CommandKind {
    /// Stop, with nothing open.
    Park,
    /// Continue what is parked or stalled.
    Resume,
    /// End before the next step.
    Cancel,
    /// Compare with the chain now.
    Reconcile,
}

#[derive(Schema, Clone)]
#[schema("gw/WorkCommand@1")]
pub struct WorkCommand {
    pub work: WorkKey,
    pub what: CommandKind,
    pub why: String,
}

#[derive(Schema, Clone)]
#[schema("gw/ScoreCommand@1")]
pub struct ScoreCommand {
    pub score: ScoreKey,
    pub what: CommandKind,
    pub why: String,
}

#[derive(Schema, Clone)]
#[schema("gw/EpochCommand@1")]
pub struct EpochCommand {
    pub epoch_key: EpochKey,
    pub what: CommandKind,
    pub why: String,
}

#[derive(Schema, Clone)]
#[schema("gw/LaneCommand@1")]
pub struct LaneCommand {
    pub lane: LaneKey,
    pub what: CommandKind,
    pub why: String,
}

/// Whose transaction it is.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/Owner@1")]
pub enum Owner {
    Work(String),
    Score(String),
    Epoch(String),
}

/// A record asks the lane of its signer for one transaction.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/TxRequested@1")]
pub struct TxRequested {
    pub lane: LaneKey,
    pub owner: Owner,
    /// Ascends for each owner. An answer with another number changes nothing.
    pub request: u64,
    pub to: String,
    /// At most 1,280 bytes.
    pub data: Vec<u8>,
    pub value: Decimal,
    pub guard: Option<Guard>,
    pub policy: Policy,
}

/// The owner no longer wants the transaction. The transaction that lands decides.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/TxCancelRequested@1")]
pub struct TxCancelRequested {
    pub lane: LaneKey,
    pub owner: Owner,
    pub request: u64,
}

/// One submission of a request's transaction.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/Attempt@1")]
pub struct Attempt {
    /// Empty until the node or the executor has named it.
    pub hash: String,
    pub nonce: u64,
    pub max_fee: u64,
    pub max_tip: u64,
    /// An empty transaction of the signer to itself, to cancel the request.
    pub is_cancel: bool,
    pub fate: AttemptFate,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("gw/AttemptFate@1")]
pub enum AttemptFate {
    /// Requested; no answer yet.
    Sending,
    Accepted,
    Known,
    NonceUsed,
    Underpriced,
    NoFunds,
    Refused,
    Unknown,
    NoKey,
    /// In a block at depth.
    Confirmed,
    /// In a block at depth, reverted.
    Reverted,
    /// Another transaction consumed the nonce.
    Replaced,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/TxOutcome@1")]
pub enum TxOutcome {
    Confirmed {
        hash: String,
        block: u64,
        gas_used: u64,
    },
    /// Reverted in a block at depth.
    Reverted {
        hash: String,
        block: u64,
        cause: Cause,
    },
    /// It would revert now, so it was not sent. `at_depth`: also at the block at depth.
    WouldRevert {
        cause: Cause,
        at_depth: bool,
    },
    /// The guard's view says that the work is done: nothing was sent.
    Done {
        block: u64,
    },
    /// Nothing of this request will land: it was withdrawn, or an empty transaction landed.
    Canceled,
    /// Another transaction consumed the nonce.
    Foreign {
        hash: String,
        block: u64,
    },
    NoFunds {
        balance: Decimal,
        needed: Decimal,
    },
    /// 256 requests are waiting.
    LaneFull,
    /// The request does not fit: its text says why.
    Invalid(String),
}

#[derive(Schema, Clone)]
#[schema("gw/WorkTxSettled@1")]
pub struct WorkTxSettled {
    pub work: WorkKey,
    pub request: u64,
    pub outcome: TxOutcome,
    pub attempts: Vec<Attempt>,
}

#[derive(Schema, Clone)]
#[schema("gw/ScoreTxSettled@1")]
pub struct ScoreTxSettled {
    pub score: ScoreKey,
    pub request: u64,
    pub outcome: TxOutcome,
    pub attempts: Vec<Attempt>,
}

#[derive(Schema, Clone)]
#[schema("gw/EpochTxSettled@1")]
pub struct EpochTxSettled {
    pub epoch_key: EpochKey,
    pub request: u64,
    pub outcome: TxOutcome,
    pub attempts: Vec<Attempt>,
}

/// One line for each step: the decision.
#[derive(Schema)]
#[schema("gw/Note@1")]
pub struct Note(pub String);
