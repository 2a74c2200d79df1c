//! The parts that the three records share: the source's `WorkflowRecord` (`spec/gateway.md`).

use aos_sdk::prelude::*;

use crate::events::{Attempt, Policy, ScoreMode, TxOutcome};

/// The source's states. PENDING is passed within the first step, so no stored record has it.
#[derive(Schema, Clone, Copy, Debug, PartialEq, Default)]
#[schema("gw/State@1")]
pub enum State {
    #[default]
    #[schema(rename = "PENDING")]
    Pending,
    #[schema(rename = "RUNNING")]
    Running,
    #[schema(rename = "STALLED")]
    Stalled,
    #[schema(rename = "COMPLETED")]
    Completed,
    #[schema(rename = "FAILED")]
    Failed,
}

/// Why and how a record or a lane is STALLED.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/Stall@1")]
pub enum Stall {
    /// A timer is open: it continues by itself at this time. `cycle` counts such stalls in a row.
    Auto { until: Time, cycle: u64 },
    /// Nothing is open: it continues with the command Resume.
    Parked { why: String },
}

/// The last failure of the current step.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/RecordError@1")]
pub struct RecordError {
    pub step: String,
    pub message: String,
    pub code: String,
    /// Whether the record can continue, by itself or by the command Resume.
    pub recoverable: bool,
}

/// The steps of all records. Each has its own.
#[derive(Schema, Clone, Copy, Debug, PartialEq, Default)]
#[schema("gw/Step@1")]
pub enum Step {
    #[schema(rename = "UPLOAD_EVIDENCE")]
    UploadEvidence,
    #[schema(rename = "AWAIT_ARWEAVE_CONFIRM")]
    AwaitArweaveConfirm,
    #[schema(rename = "SUBMIT_WORK_ONCHAIN")]
    SubmitWorkOnchain,
    #[default]
    #[schema(rename = "AWAIT_TX_CONFIRM")]
    AwaitTxConfirm,
    #[schema(rename = "REGISTER_WORK")]
    RegisterWork,
    #[schema(rename = "AWAIT_REGISTER_CONFIRM")]
    AwaitRegisterConfirm,
    #[schema(rename = "SUBMIT_SCORE")]
    SubmitScore,
    #[schema(rename = "COMMIT_SCORE")]
    CommitScore,
    #[schema(rename = "AWAIT_COMMIT_CONFIRM")]
    AwaitCommitConfirm,
    #[schema(rename = "REVEAL_SCORE")]
    RevealScore,
    #[schema(rename = "AWAIT_REVEAL_CONFIRM")]
    AwaitRevealConfirm,
    #[schema(rename = "REGISTER_VALIDATOR")]
    RegisterValidator,
    #[schema(rename = "CHECK_PRECONDITIONS")]
    CheckPreconditions,
    #[schema(rename = "SUBMIT_CLOSE_EPOCH")]
    SubmitCloseEpoch,
}

/// Which of the three workflows.
#[derive(Schema, Clone, Copy, Debug, PartialEq, Default)]
#[schema("gw/RecordType@1")]
pub enum RecordType {
    #[default]
    WorkSubmission,
    ScoreSubmission,
    CloseEpoch,
}

/// The input that the record was created with. It never changes.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/RecordInput@1")]
pub struct Input {
    pub chain: u64,
    pub studio_address: String,
    pub epoch: u64,
    pub signer_address: String,
    /// Of works and scores.
    pub data_hash: Option<String>,
    /// Of works: the gateway, the media type and the size of the evidence, and its hash as a blob.
    pub arweave: Option<String>,
    pub content_type: Option<String>,
    pub evidence_bytes: Option<u64>,
    /// Of scores.
    pub worker_address: Option<String>,
    pub admin_address: Option<String>,
    pub scores: Option<Vec<u64>>,
    pub mode: Option<ScoreMode>,
}

/// The progress so far. Each field is set once and never cleared.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/Progress@1")]
pub struct Progress {
    /// The hash of the evidence as a blob of the world.
    pub evidence: Option<Hash>,
    /// The id of the item on Arweave, known before it is confirmed.
    pub arweave_tx_id: Option<String>,
    /// The bundle that holds the item in the chain.
    pub arweave_bundle_id: Option<String>,
    pub arweave_confirmed: Option<bool>,
    /// Of the main step: submitWork, submitScore or revealScore, closeEpoch. None where the chain
    /// says that it is done and no transaction of this record did it.
    pub onchain_tx_hash: Option<String>,
    pub onchain_confirmed: Option<bool>,
    pub commit_tx_hash: Option<String>,
    pub commit_confirmed: Option<bool>,
    pub register_tx_hash: Option<String>,
    pub register_confirmed: Option<bool>,
    /// Of a score by commit and reveal: drawn in the first step.
    pub salt: Option<Vec<u8>>,
}

/// A question to the contract, by `evm/call@1`.
#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("gw/Question@1")]
pub enum Question {
    /// Whether the step is done already, and by whom.
    Done,
    /// Of a score: the account that submitted the work.
    Submitter,
    /// Of a commitment: when it may be revealed.
    Window,
    /// Of an epoch: how many works it has.
    Works,
}

/// The work of the record within its step.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/Doing@1")]
pub enum Doing {
    /// The record has ended.
    #[default]
    Nothing,
    /// `sys/blob.put@1` of the evidence.
    StoringEvidence,
    /// `arweave/quote@1`.
    PricingUpload,
    /// `arweave/upload@1`.
    Uploading,
    /// `arweave/status@1`.
    AwaitingArweave,
    /// `evm/call@1` at the block at depth.
    Checking(Question),
    /// The lane: it answers with the number of the request.
    AwaitingTx { request: u64 },
    /// `evm/call@1` at the block in which the transaction landed.
    Verifying { hash: String, block: u64 },
}

/// The purpose of the open timer.
#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("gw/Pause@1")]
pub enum Pause {
    /// Before a retry.
    Retry,
    /// An automatic stall.
    Stall,
    /// Until a score may be revealed.
    Window,
    /// Until the lane may have room.
    LaneFull,
}

/// An upload that was posted.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("gw/Upload@1")]
pub struct Posted {
    pub item: String,
    pub bundle: String,
}

/// The state of a work, a score or an epoch: the source's `WorkflowRecord`.
#[derive(Schema, Clone, Debug, PartialEq, Default)]
#[schema("gw/Record@1")]
pub struct Record {
    /// A UUID of version 8, of the keccak-256 of the key.
    pub id: Uuid,
    #[schema(rename = "type")]
    pub record_type: RecordType,
    pub key: String,
    pub created_at: Time,
    pub updated_at: Time,
    pub state: State,
    pub step: Step,
    /// Retries of the current step.
    pub step_attempts: u64,
    pub input: Input,
    pub policy: Policy,
    pub progress: Progress,
    /// Every submission of every transaction that the lane has settled for this record.
    pub attempts: Vec<Attempt>,
    pub error: Option<RecordError>,
    pub stall: Option<Stall>,
    /// A difference from the chain that a reconciliation found after the end.
    pub drift: Option<String>,
    pub doing: Doing,
    /// The reference of the effect that is open: of `doing`, or of the timer of `pause`.
    pub open: Option<String>,
    pub pause: Option<Pause>,
    /// Automatic stalls in a row.
    pub stall_cycles: u64,
    /// The number of the last request to the lane, 0 before the first.
    pub requests: u64,
    /// The request that the lane has not settled, also while the record is parked.
    pub at_lane: Option<u64>,
    /// A settlement that came while the record was parked.
    pub settled: Option<TxOutcome>,
    /// The failure of the record, unless the chain says that the step is done.
    pub suspect: Option<RecordError>,
    /// The evidence, until it is a blob of the world.
    pub evidence: Option<Vec<u8>>,
    /// The upload that was posted last.
    pub posted: Option<Posted>,
    pub is_canceling: bool,
    /// A reconciliation is reading the chain. If it finds nothing done, the record stays as it was.
    pub is_reconciling: bool,
}
