//! Find finished instances that stay with an earlier manifest (spec/kernel.md, K-74a;
//! `kernel/aos/core/decide/left_behind.py`).
//!
//! A finished instance normally takes the manifest in force with its next event. If its key or state
//! does not fit there, it is *left behind*: its next entry runs under its own manifest, as an entry
//! of an instance in flight does. Nothing is written for it until that event, whose record lists it
//! as `kept`; until then only its stored state tells.
//!
//! A function is Damage if a stored state or a manifest cannot be read.

use crate::decide::fits::{key_problem, state_problem};
use crate::journal::ports::Blobs;
use crate::journal::records::CellId;
use crate::manifest::effective::Effective;
use crate::manifest::shapes::Shapes;
use crate::state::cell::Cell;
use crate::state::state::State;
use crate::state::version::{home, manifest_under, runs_under, stays};
use crate::values::errors::Outcome;

/// The receivers of an event that are left behind, each once.
pub fn kept_of(state: &State, targets: &[CellId], blobs: &dyn Blobs) -> Outcome<Vec<CellId>> {
    let mut receivers: Vec<CellId> = Vec::new();
    if state.eras.is_one() {
        return Ok(receivers);
    }
    for id in targets {
        let Some(shared) = state.cells.get(id)? else { continue };
        if is_left_behind(state, &shared.borrow(), blobs)? && !receivers.contains(id) {
            receivers.push(id.clone());
        }
    }
    Ok(receivers)
}

/// The record of the manifest under which the cell's next entry runs, whether mail for it has
/// arrived or not. Reads the state if that decides.
pub fn next_under(state: &State, cell: &Cell, blobs: &dyn Blobs) -> Outcome<u64> {
    if is_left_behind(state, cell, blobs)? {
        return Ok(home(state, cell));
    }
    runs_under(state, cell)
}

/// Whether a finished instance stays with its own manifest until a step of it ends.
pub fn is_left_behind(state: &State, cell: &Cell, blobs: &dyn Blobs) -> Outcome<bool> {
    if state.eras.is_one() || cell.fault.is_some() || stays(state, cell)? {
        return Ok(false);
    }
    Ok(home(state, cell) != state.manifest_seq
        && misfits_under(state, cell, state.effective(), blobs)?)
}

/// Whether a finished instance can stay with its own manifest and does not fit `new`.
pub fn misfits_under(
    state: &State,
    cell: &Cell,
    new: &Effective,
    blobs: &dyn Blobs,
) -> Outcome<bool> {
    let own = manifest_under(state, home(state, cell))?;
    let Some(workflow) = new.workflows.get(&cell.id.workflow) else { return Ok(false) };
    if !own.workflows.contains_key(&cell.id.workflow) || !may_differ(&own, new, &cell.id.workflow) {
        return Ok(false);
    }
    Ok(key_problem(workflow, &cell.id.key).is_some()
        || state_problem(workflow, cell.state.as_ref(), blobs)?.is_some())
}

/// Whether a key or state of a workflow of the old manifest may not fit the new one. Both must have
/// the workflow.
pub fn may_differ(old: &Effective, new: &Effective, workflow: &str) -> bool {
    let (Some(old_workflow), Some(new_workflow)) =
        (old.workflows.get(workflow), new.workflows.get(workflow))
    else {
        return true;
    };
    let shapes = Shapes::new(old, new);
    !shapes.same(old_workflow.key.as_deref(), new_workflow.key.as_deref())
        || !shapes.same(Some(&old_workflow.state), Some(&new_workflow.state))
        // The content of an opaque state was never checked.
        || old_workflow.has_opaque_state() != new_workflow.has_opaque_state()
}
