//! The events of an instance and of a business key, and the answers to them.

use aos_sdk::prelude::*;
use aos_sdk::Map;

use crate::limits;

/// Start an instance. The whole plan is in it; nothing is looked up later.
#[derive(Schema)]
#[schema("aos/LinearStart@1")]
pub struct Start {
    pub instance: String,
    /// The schedule that waits for the end of this instance (`aos/ScheduleDone@1`).
    pub schedule: Option<String>,
    #[schema(rename = "type")]
    pub workflow_type: String,
    pub version: u64,
    pub mode: Mode,
    /// Whether a plan step that waits can be claimed after its deadline.
    pub wait_timeouts: bool,
    /// Each value is canonical CBOR.
    pub context: Map<String, Vec<u8>>,
    pub steps: Vec<PlanStep>,
}

#[derive(Schema, Clone, Copy, Default, PartialEq)]
#[schema("aos/LinearMode@1")]
pub enum Mode {
    #[default]
    #[schema(rename = "standard")]
    Standard,
    /// Exactly the source's table, without the rulings a to e of `spec/linear.md`.
    #[schema(rename = "source")]
    Source,
}

#[derive(Schema)]
#[schema("aos/LinearPlanStep@1")]
pub struct PlanStep {
    #[schema(rename = "type")]
    pub step_type: String,
    pub max_attempts: u64,
    /// The pause before the second attempt; it doubles up to 5 minutes.
    pub backoff: Duration,
    /// The longest time for which a worker may claim the plan step.
    pub lease: Duration,
}

/// Start an instance, unless a running one has the business key.
#[derive(Schema)]
#[schema("aos/LinearReserve@1")]
pub struct Reserve {
    pub biz_key: String,
    pub start: Start,
}

/// Emitted by the cell of a business key: it is reserved for the instance that now starts.
#[derive(Schema)]
#[schema("aos/LinearReserved@1")]
pub struct Reserved {
    pub biz_key: String,
    pub start: Start,
}

/// Emitted by an instance that has ended, or did not start: the business key is free.
#[derive(Schema)]
#[schema("aos/LinearReleased@1")]
pub struct Released {
    pub biz_key: String,
    pub instance: String,
}

/// A worker asks for the current plan step. The same `claim` again is the same lease.
#[derive(Schema)]
#[schema("aos/LinearClaim@1")]
pub struct Claim {
    pub instance: String,
    pub worker: String,
    pub claim: String,
    /// Absent: the lease of the plan step, which is also the longest.
    pub lease: Option<Duration>,
}

/// A heartbeat: the lease ends `lease` from now.
#[derive(Schema)]
#[schema("aos/LinearExtend@1")]
pub struct Extend {
    pub instance: String,
    pub worker: String,
    pub epoch: u64,
    pub seq: u64,
    pub lease: Option<Duration>,
}

/// The result of a worker for the plan step that it has claimed.
#[derive(Schema)]
#[schema("aos/LinearResult@1")]
pub struct LinearResult {
    pub instance: String,
    pub worker: String,
    pub epoch: u64,
    pub seq: u64,
    pub outcome: Outcome,
    /// Events to emit in the same step. None with `Retry`.
    pub outbound: Vec<Outbound>,
}

#[derive(Schema)]
#[schema("aos/LinearOutcome@1")]
pub enum Outcome {
    /// The patch replaces keys of the context; null removes a key.
    Completed {
        patch: Map<String, Option<Vec<u8>>>,
    },
    /// Wait for a signal of this type. Without a timeout there is no deadline.
    Waiting {
        event_type: String,
        timeout: Option<Duration>,
    },
    Retry {
        error: String,
        backoff: Option<Duration>,
    },
    Dead {
        error: String,
    },
}

#[derive(Schema)]
#[schema("aos/LinearOutbound@1")]
pub struct Outbound {
    pub schema: String,
    /// Canonical CBOR of the schema.
    pub value: Vec<u8>,
}

/// An event from outside, which wakes a plan step that waits for its type.
#[derive(Schema)]
#[schema("aos/LinearSignal@1")]
pub struct Signal {
    pub instance: String,
    pub event_id: String,
    #[schema(rename = "type")]
    pub event_type: String,
    /// Canonical CBOR.
    pub payload: Vec<u8>,
}

#[derive(Schema)]
#[schema("aos/LinearCancel@1")]
pub struct Cancel {
    pub instance: String,
    pub reason: String,
}

/// Emitted at the end of an instance.
#[derive(Schema)]
#[schema("aos/LinearEnded@1")]
pub struct Ended {
    pub instance: String,
    pub biz_key: Option<String>,
    #[schema(rename = "type")]
    pub workflow_type: String,
    pub version: u64,
    /// `COMPLETED`, `FAILED` or `CANCELED`.
    pub status: String,
    /// The last error of the plan step that is `DEAD`, or the reason of the cancel.
    pub error: Option<String>,
}

/// Emitted at the end of an instance that a schedule started.
#[derive(Schema)]
#[schema("aos/ScheduleDone@1")]
pub struct ScheduleDone {
    pub schedule: String,
}

/// The annotation of every step: the answer to the sender of its event.
#[derive(Schema)]
#[schema("aos/LinearAnswer@1")]
pub enum Answer {
    Done,
    Claimed { seq: u64, epoch: u64 },
    Refused { reason: Reason, detail: String },
}

#[derive(Schema, Clone, Copy)]
#[schema("aos/LinearReason@1")]
pub enum Reason {
    /// The lease has ended, or another worker has one.
    #[schema(rename = "LEASE_LOST")]
    LeaseLost,
    /// Another claim came after the one that this result is of.
    #[schema(rename = "STALE_EPOCH")]
    StaleEpoch,
    /// The instance has completed or failed.
    #[schema(rename = "NOT_RUNNING")]
    NotRunning,
    /// The plan step cannot be claimed now.
    #[schema(rename = "NOT_DUE")]
    NotDue,
    #[schema(rename = "CANCELED")]
    Canceled,
    /// There is an instance with this id.
    #[schema(rename = "EXISTS")]
    Exists,
    /// A running instance has the business key.
    #[schema(rename = "TAKEN")]
    Taken,
    #[schema(rename = "BUFFER_FULL")]
    BufferFull,
    /// A signal of another type had this event id.
    #[schema(rename = "EVENT_ID_TAKEN")]
    EventIdTaken,
    /// Mode `source` only: no plan step waits for a signal of this type.
    #[schema(rename = "NOT_WAITING")]
    NotWaiting,
    /// The event breaks a limit of `spec/linear.md`.
    #[schema(rename = "INVALID")]
    Invalid,
}

/// Why an event changes nothing.
pub struct Refusal {
    pub reason: Reason,
    pub detail: String,
}

impl Refusal {
    pub fn new(reason: Reason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: detail.into() }
    }
}

impl From<Result<Answer, Refusal>> for Answer {
    fn from(outcome: Result<Answer, Refusal>) -> Answer {
        match outcome {
            Ok(answer) => answer,
            Err(Refusal { reason, detail }) => {
                // It may quote a key of a patch.
                Answer::Refused { reason, detail: limits::cut(detail) }
            }
        }
    }
}
