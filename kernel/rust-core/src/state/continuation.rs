//! Build the value that the origin cell receives for a settled receipt (spec/kernel.md;
//! `kernel/aos/core/state/continuation.py`).
//!
//! The origin cell is recorded in the intent; `routing.subscriptions` does not affect it.

use crate::manifest::effective::Workflow;

/// Whether the workflow accepts events of `schema`.
pub fn takes(workflow: &Workflow, schema: &str) -> bool {
    schema == &*workflow.event.name || workflow.arms.contains_key(schema)
}
