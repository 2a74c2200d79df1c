//! The limits that affect the core's decisions (`kernel/aos/manifest/limits.py`, M-40 to M-43).
//! Sizes are bytes. Documents are complete, so there are no defaults here but those of limits that
//! were added later.

/// Limits of one step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepLimits {
    pub fuel: u64,
    pub memory_bytes: u64,
    pub output_bytes: u64,
    pub state_bytes: u64,
    pub effects: u64,
    pub events: u64,
    /// Requested idempotency keys that are remembered for one instance of the workflow; None: as
    /// many as the world's `instance_keys`.
    pub keys: Option<u64>,
}

/// Limits of a whole world, and of the work that one root cause may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldLimits {
    pub event_bytes: u64,
    pub cascade_depth: u64,
    pub cascade_steps: u64,
    pub mailbox: u64,
    pub instance_intents: u64,
    pub open_intents: u64,
    pub dedup_ns: u64,
    /// The most ns by which one record advances the window time; None: as far as it advances the
    /// journal clock.
    pub dedup_step_ns: Option<u64>,
    pub dedup_rows: u64,
    pub instance_keys: u64,
    pub abandoned_intents: u64,
    pub stream_bytes: u64,
    pub stream_rate: u64,
    pub stream_frames: u64,
}
