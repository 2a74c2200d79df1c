//! Find the manifest that a cell runs under (spec/kernel.md, K-61a, K-72 to K-75;
//! `kernel/aos/core/state/version.py`).
//!
//! An instance is *in flight* while a strict apply would wait for it. If an operator applies a
//! manifest with `pin`, the instances in flight are *pinned*: they keep running under the manifest
//! under which they came in flight, until they are done. The apply writes nothing to the cells: each
//! cell records the manifest under which it came in flight, and the rest is computed from that.
//!
//! A function is Damage if a manifest that it needs cannot be read.

use std::rc::Rc;

use crate::journal::records::CellId;
use crate::journal::vocabulary::CellStatus;
use crate::manifest::effective::{Effective, Lifecycle, Workflow};
use crate::state::cell::Cell;
use crate::state::eras::Era;
use crate::state::state::State;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// The record of the manifest under which the cell came in flight, or of a later one that its
/// workflow took in place.
pub fn home(state: &State, cell: &Cell) -> u64 {
    let eras = state.eras.all();
    let (false, Some(last)) = (state.eras.is_one(), eras.last()) else {
        return state.manifest_seq;
    };
    let seq = home_among(eras, cell);
    // The same document is in force again: the two eras need not be told apart.
    if manifest_of(eras, seq) == Some(&last.manifest) {
        state.manifest_seq
    } else {
        seq
    }
}

fn home_among(eras: &[Era], cell: &Cell) -> u64 {
    let mut seq = cell.version.max(eras[0].seq);
    for era in eras {
        if era.seq > seq && era.in_place.contains(&cell.id.workflow) {
            seq = era.seq;
        }
    }
    seq
}

fn manifest_of(eras: &[Era], seq: u64) -> Option<&Hash> {
    eras.iter().find(|era| era.seq == seq).map(|era| &era.manifest)
}

/// Whether this instance is complete, according to its workflow's `lifecycle`.
pub fn is_terminal(state: &State, cell: &Cell) -> Outcome<bool> {
    if matches!(cell.status(), CellStatus::Completed | CellStatus::Failed) {
        return Ok(true);
    }
    if !cell.mailbox.is_empty() || !cell.inflight.is_empty() {
        return Ok(false);
    }
    let workflow = workflow_under(state, &cell.id, home(state, cell))?;
    Ok(workflow.is_none_or(|workflow| workflow.lifecycle != Lifecycle::Explicit))
}

/// Whether a strict apply waits for the cell (K-70): it is not terminal, or it has open intents or
/// mail to run.
pub fn is_in_flight(state: &State, cell: &Cell) -> Outcome<bool> {
    if !cell.inflight.is_empty() || !is_terminal(state, cell)? {
        return Ok(true);
    }
    Ok(!cell.mailbox.is_empty() && cell.fault.is_none())
}

/// Whether the cell's next entry runs under its own manifest, even if that is not in force.
pub fn stays(state: &State, cell: &Cell) -> Outcome<bool> {
    let oldest = state.eras.all().first().map_or(0, |era| era.seq);
    if is_in_flight(state, cell)? || (cell.is_kept && cell.version >= oldest) {
        return Ok(true);
    }
    Ok(cell.fault_seq.is_some_and(|at| failed_pinned(state, cell, at)))
}

/// Whether the cell failed at record `at` under another manifest than the one in force.
fn failed_pinned(state: &State, cell: &Cell, at: u64) -> bool {
    let all = state.eras.all();
    let eras = &all[..all.partition_point(|era| era.seq <= at)];
    let Some(last) = eras.last() else { return false };
    if cell.version > at {
        return false; // it got another manifest since
    }
    manifest_of(eras, home_among(eras, cell)) != Some(&last.manifest)
}

/// The record of the manifest under which the cell's next entry runs.
pub fn runs_under(state: &State, cell: &Cell) -> Outcome<u64> {
    if state.eras.is_one() || !stays(state, cell)? {
        return Ok(state.manifest_seq);
    }
    Ok(home(state, cell))
}

/// Whether the cell runs under another manifest than the one in force (K-72).
pub fn is_pinned(state: &State, cell: &Cell) -> Outcome<bool> {
    Ok(!state.eras.is_one() && runs_under(state, cell)? != state.manifest_seq)
}

/// The manifest that record `seq` put in force; it must be one of the eras.
pub fn manifest_under(state: &State, seq: u64) -> Outcome<Rc<Effective>> {
    if seq == state.manifest_seq {
        return Ok(state.effective().clone());
    }
    state.eras.at(seq)
}

pub fn workflow_under(state: &State, id: &CellId, seq: u64) -> Outcome<Option<Rc<Workflow>>> {
    if state.manifest.is_none() {
        return Ok(None);
    }
    Ok(manifest_under(state, seq)?.workflows.get(&id.workflow).cloned())
}

/// The workflow that the cell's next entry runs. None if nothing pins the cell and the manifest in
/// force no longer has the workflow.
pub fn workflow_of(state: &State, cell: &Cell) -> Outcome<Option<Rc<Workflow>>> {
    workflow_under(state, &cell.id, runs_under(state, cell)?)
}

/// The `version` of a cell that comes in flight under the manifest of record `seq`.
pub fn mark(state: &State, seq: u64) -> u64 {
    if state.eras.is_one() {
        0
    } else {
        seq
    }
}
