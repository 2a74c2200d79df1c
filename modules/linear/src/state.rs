//! The state of an instance: the columns of the source's two tables, and what the rulings add.

use aos_sdk::prelude::*;
use aos_sdk::Map;

use crate::events::{Cancel, Claim, Extend, LinearResult, Mode, Reserved, Signal, Start};

#[derive(Event)]
#[schema("aos/LinearEvent@1")]
pub enum InstanceEvent {
    Start(Start),
    Reserved(Reserved),
    Claim(Claim),
    Extend(Extend),
    Result(LinearResult),
    Signal(Signal),
    Cancel(Cancel),
    Receipt(Receipt),
}

#[derive(Schema, Default)]
#[schema("aos/LinearInstance@1")]
pub struct Instance {
    pub instance: String,
    pub biz_key: Option<String>,
    pub schedule: Option<String>,
    #[schema(rename = "type")]
    pub workflow_type: String,
    pub version: u64,
    pub mode: Mode,
    pub wait_timeouts: bool,
    pub status: InstanceStatus,
    pub current_step_seq: u64,
    pub current_step_type: String,
    pub context: Map<String, Vec<u8>>,
    pub created_at: Time,
    pub completed_at: Option<Time>,
    pub failed_at: Option<Time>,
    pub canceled_at: Option<Time>,
    pub cancel_reason: Option<String>,
    pub steps: Vec<Row>,
    /// The last 1,000 event ids that woke a plan step or were buffered, oldest first.
    pub seen: Vec<String>,
    /// The types of the last of these, in the same order. Builds without it kept no types.
    pub seen_types: Option<Vec<String>>,
    /// Signals that have woken nothing yet, oldest first.
    pub buffered: Vec<WakeUp>,
    pub last_result: Option<Accepted>,
    /// The timer that ends the lease of a worker that is never heard of again.
    pub timer: Pending<timer::Set>,
    pub timer_at: Option<Time>,
    /// How many timers are open: those of longer leases, too, which have ended before.
    pub timers: u64,
}

#[derive(Schema, Clone, Copy, Default, PartialEq)]
#[schema("aos/LinearInstanceStatus@1")]
pub enum InstanceStatus {
    #[default]
    #[schema(rename = "RUNNING")]
    Running,
    #[schema(rename = "COMPLETED")]
    Completed,
    #[schema(rename = "FAILED")]
    Failed,
    #[schema(rename = "CANCELED")]
    Canceled,
}

/// A row of the plan.
#[derive(Schema)]
#[schema("aos/LinearRow@1")]
pub struct Row {
    pub step_type: String,
    pub status: RowStatus,
    pub attempts: u64,
    pub max_attempts: u64,
    pub backoff: Duration,
    pub lease: Duration,
    pub next_run_at: Option<Time>,
    pub locked_by: Option<String>,
    pub locked_until: Option<Time>,
    pub waiting_event_type: Option<String>,
    pub deadline_at: Option<Time>,
    pub last_error: Option<String>,
    /// The number of claims.
    pub epoch: u64,
    /// The id of the claim that has the lease.
    pub claim: Option<String>,
    pub task: Task,
    pub woken_by: Option<WakeUp>,
}

#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("aos/LinearRowStatus@1")]
pub enum RowStatus {
    #[schema(rename = "PENDING")]
    Pending,
    #[schema(rename = "READY")]
    Ready,
    #[schema(rename = "RUNNING")]
    Running,
    #[schema(rename = "WAITING")]
    Waiting,
    #[schema(rename = "DONE")]
    Done,
    #[schema(rename = "DEAD")]
    Dead,
}

/// Why the handler runs.
#[derive(Schema, Clone, Copy, PartialEq)]
#[schema("aos/LinearTask@1")]
pub enum Task {
    #[schema(rename = "READY_STEP")]
    ReadyStep,
    #[schema(rename = "WAITING_TIMEOUT")]
    WaitingTimeout,
}

#[derive(Schema, Clone)]
#[schema("aos/LinearWakeUp@1")]
pub struct WakeUp {
    pub event_id: String,
    #[schema(rename = "type")]
    pub event_type: String,
    pub payload: Vec<u8>,
}

/// The last result that was accepted: the same one again changes nothing.
#[derive(Schema)]
#[schema("aos/LinearAccepted@1")]
pub struct Accepted {
    pub seq: u64,
    pub epoch: u64,
    pub event_hash: aos_sdk::Hash,
}
