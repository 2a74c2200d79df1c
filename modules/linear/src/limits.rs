//! The limits of `spec/linear.md` L-20. An event that breaks one is refused as `INVALID`.

use alloc::format;

use aos_sdk::cbor::Reader;
use aos_sdk::prelude::*;
use aos_sdk::{encode, Map};

use crate::events::{LinearResult, Outbound, Outcome, PlanStep, Reason, Refusal, Signal, Start};

pub const STEPS_MAX: usize = 256;
pub const ATTEMPTS_MAX: u64 = 10_000;
pub const PAUSE_MAX: Duration = Duration::days(1);
pub const LEASE_MIN: Duration = Duration::millis(1);
pub const LEASE_MAX: Duration = Duration::days(1);
pub const TIMEOUT_MAX: Duration = Duration::days(36_600);
/// Of names, ids and types.
pub const NAME_BYTES_MAX: usize = 256;
pub const CONTEXT_BYTES_MAX: usize = 64 << 10;
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;
pub const TEXT_BYTES_MAX: usize = 4 << 10;
pub const OUTBOUND_MAX: usize = 64;
pub const OUTBOUND_BYTES_MAX: usize = 1 << 20;
/// Of one instance at a time: a lease that ends earlier than the one before needs one more.
pub const TIMERS_MAX: u64 = 100;
pub const SEEN_MAX: usize = 1_000;
pub const BUFFERED_MAX: usize = 100;
pub const BUFFERED_BYTES_MAX: usize = 256 << 10;

type Checked = Result<(), Refusal>;

fn invalid(detail: String) -> Refusal {
    Refusal::new(Reason::Invalid, detail)
}

pub fn name(what: &str, text: &str) -> Checked {
    match text.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        length => {
            Err(invalid(format!("{what}: expected 1 to {NAME_BYTES_MAX} bytes, found {length}")))
        }
    }
}

fn within(what: &str, found: Duration, least: Duration, most: Duration) -> Checked {
    if least <= found && found <= most {
        return Ok(());
    }
    let (least, most, found) = (least.ns(), most.ns(), found.ns());
    Err(invalid(format!("{what}: expected {least} to {most} ns, found {found}")))
}

fn at_most(what: &str, found: usize, most: usize) -> Checked {
    if found <= most {
        return Ok(());
    }
    Err(invalid(format!("{what}: expected at most {most} bytes, found {found}")))
}

/// `bytes` are one canonical value.
fn value(what: &str, bytes: &[u8]) -> Checked {
    let mut reader = Reader::new(bytes);
    match reader.item().and_then(|_| reader.end()) {
        Ok(()) => Ok(()),
        Err(_) => Err(invalid(format!("{what}: expected canonical CBOR"))),
    }
}

pub fn start(start: &Start) -> Checked {
    name("instance", &start.instance)?;
    name("type", &start.workflow_type)?;
    start.schedule.as_deref().map_or(Ok(()), |schedule| name("schedule", schedule))?;
    if start.version == 0 {
        return Err(invalid("version: expected 1 or more, found 0".into()));
    }
    let count = start.steps.len();
    if count == 0 || count > STEPS_MAX {
        return Err(invalid(format!("steps: expected 1 to {STEPS_MAX}, found {count}")));
    }
    start.steps.iter().try_for_each(plan_step)?;
    start.context.iter().try_for_each(|(key, bytes)| value(key, bytes))?;
    context(&start.context)
}

fn plan_step(step: &PlanStep) -> Checked {
    name("type of a plan step", &step.step_type)?;
    if step.max_attempts == 0 || step.max_attempts > ATTEMPTS_MAX {
        let found = step.max_attempts;
        return Err(invalid(format!("max_attempts: expected 1 to {ATTEMPTS_MAX}, found {found}")));
    }
    within("backoff", step.backoff, Duration::ZERO, PAUSE_MAX)?;
    lease(step.lease)
}

pub fn lease(lease: Duration) -> Checked {
    within("lease", lease, LEASE_MIN, LEASE_MAX)
}

pub fn context(context: &Map<String, Vec<u8>>) -> Checked {
    at_most("context", encode(context).len(), CONTEXT_BYTES_MAX)
}

pub fn signal(signal: &Signal) -> Checked {
    name("event_id", &signal.event_id)?;
    name("type", &signal.event_type)?;
    at_most("payload", signal.payload.len(), PAYLOAD_BYTES_MAX)?;
    value("payload", &signal.payload)
}

pub fn result(result: &LinearResult) -> Checked {
    match &result.outcome {
        Outcome::Completed { patch } => {
            let mut changes = patch.iter();
            changes.try_for_each(|(key, change)| match change {
                Some(bytes) => value(key, bytes),
                None => Ok(()),
            })?;
        }
        Outcome::Waiting { event_type, timeout } => {
            name("event_type", event_type)?;
            let timeout = timeout.unwrap_or_default();
            within("timeout", timeout, Duration::ZERO, TIMEOUT_MAX)?;
        }
        Outcome::Retry { backoff, .. } => {
            if !result.outbound.is_empty() {
                return Err(invalid("outbound: a Retry emits no events".into()));
            }
            within("backoff", backoff.unwrap_or_default(), Duration::ZERO, TIMEOUT_MAX)?;
        }
        Outcome::Dead { .. } => {}
    }
    let count = result.outbound.len();
    if count > OUTBOUND_MAX {
        return Err(invalid(format!("outbound: expected at most {OUTBOUND_MAX}, found {count}")));
    }
    let bytes = result.outbound.iter().map(|event| event.value.len()).sum();
    at_most("outbound", bytes, OUTBOUND_BYTES_MAX)?;
    result.outbound.iter().try_for_each(outbound)
}

fn outbound(event: &Outbound) -> Checked {
    name("schema of an outbound event", &event.schema)?;
    if event.schema.starts_with("sys/") || event.schema.starts_with("aos/Linear") {
        return Err(invalid(format!("outbound: {} cannot be emitted by a handler", event.schema)));
    }
    value(&event.schema, &event.value)
}

/// An error or a reason as it is stored: cut between two characters.
pub fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}
