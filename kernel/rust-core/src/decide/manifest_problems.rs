//! Find the problems of a manifest that only this world knows: its keys, the workflows that it
//! leaves, its shard, and the patch of a proposal (K-14; spec/governance.md, GV-27;
//! `kernel/aos/core/decide/manifest_problems.py`).

use std::rc::Rc;

use crate::decide::envelope::words;
use crate::journal::governing::{GovernanceInput, PATCH_BYTES_MAX};
use crate::journal::ports::Judge;
use crate::journal::signing::{approver_with_used_key, back_from_revocation, is_misnamed};
use crate::journal::vocabulary::{ApplyMode, Word};
use crate::manifest::effective::Effective;
use crate::manifest::names::NODE;
use crate::manifest::placement::{Placement, Shard};
use crate::state::state::State;
use crate::values::digests::{content_hash, hex};
use crate::values::errors::{quoted, Outcome};

/// A document from outside that was judged; or the problem of one that is no manifest.
pub fn judged(document: &[u8], judge: &dyn Judge) -> Outcome<Result<Rc<Effective>, String>> {
    match judge.problem(document)? {
        Some(problem) => Ok(Err(format!("the effective manifest cannot be read: {problem}"))),
        None => Ok(Ok(Effective::from_document(document)?)),
    }
}

/// The problem of an executor's or approver's key; None if there is none.
pub fn keys_problem(effective: &Effective, state: &State) -> Option<String> {
    let problem =
        misnamed_executor(effective, &state.world_key).or_else(|| revoked_key(effective, state));
    if let Some(problem) = problem {
        return Some(format!("executors: {problem}"));
    }
    let governance = effective.governance.as_ref();
    let (name, owner) = approver_with_used_key(governance, &state.revoked, &state.world_key)?;
    Some(format!(
        "governance: approver {name} has {owner}: expected a key that only the approver has"
    ))
}

/// The problem of `leaves`: not sorted and unique, or a workflow is still in the manifest.
pub fn leaves_problem(effective: &Effective, leaves: &[Rc<str>]) -> Option<String> {
    if !leaves.windows(2).all(|pair| pair[0] < pair[1]) {
        return Some("leaves: expected names of workflows, each once, in order".to_string());
    }
    let name = leaves.iter().find(|name| effective.workflows.contains_key(*name))?;
    Some(format!("leaves: {name} is still in the manifest"))
}

/// The problem of a manifest that would put cells of this world into other shards (GR-12, GR-13);
/// None if there is none.
pub fn placement_problem(effective: &Effective, state: &State) -> Option<String> {
    let in_force = state.manifest.as_ref()?;
    if effective.shard != in_force.shard {
        return Some(format!(
            "shard: expected {}, as in the manifest in force, found {} (a world stays the shard that \
             it is: apply the manifest to the whole group)",
            shard_text(in_force.shard),
            shard_text(effective.shard)
        ));
    }
    effective.shard?;
    for (name, workflow) in effective.workflows.iter() {
        let Some(old) = in_force.workflows.get(name) else { continue };
        if old.placement != workflow.placement {
            return Some(format!(
                "routing.shards: {name} is placed {} in the manifest in force: expected the same, \
                 found {} (its instances would be in other shards: give the workflow another name)",
                placement_text(&old.placement),
                placement_text(&workflow.placement)
            ));
        }
    }
    None
}

fn shard_text(shard: Option<Shard>) -> String {
    shard.map_or("none".to_string(), |shard| format!("[{}, {}]", shard.index, shard.count))
}

fn placement_text(placement: &Placement) -> String {
    match placement {
        Placement::Key { shard_by: None } => "by its key".to_string(),
        Placement::Key { shard_by: Some(shard_by) } => format!("by {}", quoted(shard_by)),
        Placement::First => "in shard 0".to_string(),
        Placement::Each => "in each shard".to_string(),
    }
}

/// The first problem of the proposed manifest, as an apply would find it, or of its patch (GV-27).
pub fn change_problem(
    state: &State,
    governance_input: &GovernanceInput,
    judge: &dyn Judge,
) -> Outcome<Option<String>> {
    let (Some(document), Some(patch)) = (&governance_input.document, &governance_input.patch)
    else {
        return Ok(Some("a proposal has a document and a patch".to_string()));
    };
    let mode = governance_input.mode.text();
    if mode.and_then(|mode| ApplyMode::of(mode)).is_none() {
        return Ok(Some(format!(
            "mode: expected {}, found {}",
            words::<ApplyMode>(),
            governance_input.mode.quoted()
        )));
    }
    if content_hash(document) == state.effective().hash {
        let problem = "this manifest is already in force: a proposal changes something";
        return Ok(Some(problem.to_string()));
    }
    let effective = match judged(document, judge)? {
        Ok(effective) => effective,
        Err(problem) => return Ok(Some(problem)),
    };
    let leaves = governance_input.left_names()?;
    let problem = keys_problem(&effective, state)
        .or_else(|| leaves_problem(&effective, &leaves))
        .or_else(|| placement_problem(&effective, state));
    if problem.is_some() {
        return Ok(problem);
    }
    if patch.len() > PATCH_BYTES_MAX {
        return Ok(Some(format!(
            "patch: expected at most {PATCH_BYTES_MAX} bytes, found {}",
            patch.len()
        )));
    }
    let problem = judge.patch_problem(&state.effective().document, patch, document)?;
    Ok(problem.map(|problem| format!("patch: {problem}")))
}

/// The problem of an executor that has only one of the world's own key and the name `node`.
fn misnamed_executor(effective: &Effective, world_key: &[u8]) -> Option<String> {
    let mut executors = effective.executors.iter().flat_map(|executors| executors.values());
    let executor = executors.find(|executor| is_misnamed(executor, world_key))?;
    Some(format!(
        "{NODE} must have this world's own key and no other may: expected ed25519:{}, found {} \
         with ed25519:{}",
        hex(world_key),
        executor.name,
        hex(&executor.public_key)
    ))
}

/// The problem of a manifest that uses a key that an earlier one revoked (K-106).
fn revoked_key(effective: &Effective, state: &State) -> Option<String> {
    let (name, key) = back_from_revocation(effective.executors.as_ref(), &state.revoked)?;
    Some(format!(
        "{name} has ed25519:{}, which an earlier manifest revoked: expected another key",
        hex(&key)
    ))
}
