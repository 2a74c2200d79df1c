//! Find the cells that receive an event (spec/kernel.md, K-11, K-40a, K-42a, K-44, K-73;
//! `kernel/aos/core/decide/routing.py`).

use std::rc::Rc;

use crate::collections::SeededMap;
use crate::decide::fits::event_problem;
use crate::journal::records::CellId;
use crate::manifest::effective::{Effective, Route};
use crate::state::state::State;
use crate::state::version::{home, is_pinned, manifest_under};
use crate::values::cbor::Value;
use crate::values::errors::{quoted, Failure, Outcome, ValueProblem};
use crate::values::schema::Schema;
use crate::values::show::describe;

/// Longest key of a cell, in canonical CBOR. Every record of the cell contains the key.
pub const KEY_BYTES_MAX: usize = 1024;

/// Events that the record which is being decided has put into each mailbox so far.
pub type MailCounts = SeededMap<CellId, i64>;

/// The targets of one event: those whose mailbox has room, those that it overloads, and those that
/// do not exist and that it may not create (K-42a).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub to: Vec<CellId>,
    pub overloaded: Vec<CellId>,
    pub unknown: Vec<CellId>,
}

/// The cells that receive an event, in manifest order. `data` is its normal form. If a key is
/// missing, does not fit or is too long, no target gets the event.
pub fn route(
    effective: &Effective,
    schema: &Schema,
    data: &[u8],
) -> Result<Vec<CellId>, ValueProblem> {
    let routes = effective.routes(&schema.name);
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    schema.check_record(data)?;
    let mut targets = Vec::with_capacity(routes.len());
    for route in routes {
        let key = route.key_of(data)?;
        if key.len() > KEY_BYTES_MAX {
            let key_field = route.key_field.as_deref().unwrap_or("None");
            return Err(ValueProblem {
                message: format!(
                    "too long for a key of {}: expected at most {KEY_BYTES_MAX} bytes, found {}",
                    route.workflow,
                    key.len()
                ),
                path: format!("$.{key_field}"),
            });
        }
        targets.push(CellId { workflow: route.workflow.clone(), key: key.into() });
    }
    Ok(targets)
}

/// The first of these cells that is in another shard of the group than this world (K-40a), as a
/// sentence. None if there is none, or if the world is in no group.
pub fn shard_problem(effective: &Effective, targets: &[CellId]) -> Outcome<Option<String>> {
    let Some(shard) = effective.shard else { return Ok(None) };
    for id in targets {
        let workflow = effective.workflows.get(&id.workflow);
        let index = workflow.and_then(|workflow| workflow.placement.shard(&id.key, shard.count));
        if let Some(index) = index.filter(|index| *index != shard.index) {
            return Ok(Some(format!(
                "{} is in shard {index} of {}, and this world is shard {}",
                cell_text(effective, id)?,
                shard.count,
                shard.index
            )));
        }
    }
    Ok(None)
}

/// The name of a cell in a sentence: its workflow, and the key if there is one.
pub fn cell_text(effective: &Effective, id: &CellId) -> Outcome<String> {
    let name = &id.workflow;
    let schema = effective.workflows.get(name).and_then(|workflow| workflow.key.as_ref());
    let Some(schema) = schema else { return Ok(name.to_string()) };
    let key = schema.from_record(&id.key);
    Ok(match key.map_err(|problem| Failure::Damage(problem.to_string()))? {
        Value::Null => name.to_string(),
        Value::Text(text) => format!("{name} {}", quoted(&text)),
        other => format!("{name} {}", describe(&other)),
    })
}

/// The reason why an event cannot go to one of its targets: the target is pinned to a manifest under
/// which it does not take such events (K-73). None if there is no such target. `left_behind` are the
/// targets that are left behind. Damage if that manifest cannot be read.
pub fn pinned_problem(
    state: &State,
    targets: &[CellId],
    schema: &str,
    data: &[u8],
    left_behind: &[CellId],
) -> Outcome<Option<String>> {
    if state.eras.is_one() {
        return Ok(None);
    }
    for id in targets {
        let Some(shared) = state.cells.get(id)? else { continue };
        let cell = &shared.borrow();
        let is_left_behind = left_behind.contains(id);
        if !is_left_behind && !is_pinned(state, cell)? {
            continue;
        }
        let effective = manifest_under(state, home(state, cell))?;
        let Some(workflow) = effective.workflows.get(&id.workflow) else {
            return Err(Failure::Damage(format!(
                "{} runs under a manifest that does not have it",
                id.workflow
            )));
        };
        if let Some(problem) = event_problem(&effective, workflow, schema, data) {
            return Ok(Some(match is_left_behind {
                true => format!(
                    "an instance of {} is finished, and stays under an earlier manifest because \
                     its state does not fit the one in force: {problem} (apply a manifest that \
                     migrates it)",
                    id.workflow
                ),
                false => format!(
                    "an instance of {} is in flight under an earlier manifest: {problem} (send it \
                     again when that instance is done)",
                    id.workflow
                ),
            }));
        }
    }
    Ok(None)
}

/// Split the targets of an event, to which `routes` lead in the same order.
///
/// `mail_counts` counts the events that the same record has put into each mailbox so far; this
/// function adds to it. A cell that an earlier event of the record creates exists. Events also reach
/// failed instances, which keep or count them (K-44).
pub fn place_event(
    state: &State,
    routes: &[Rc<Route>],
    targets: Vec<CellId>,
    mail_counts: &mut MailCounts,
) -> Outcome<Placed> {
    let mailbox_max = state.effective().limits.mailbox as i64;
    let mut placed = Placed::default();
    for (route, id) in routes.iter().zip(targets) {
        let cell = state.cells.get(&id)?;
        let cell = cell.as_ref().map(|shared| shared.borrow());
        let count = mail_counts.get(&id).copied().unwrap_or(0);
        let waiting = cell.as_ref().map_or(0, |cell| cell.mailbox.len() as i64);
        // A cell that is known lends its id to the record.
        let id = cell.as_ref().map_or(id, |cell| cell.id.clone());
        if cell.is_none() && !route.creates && count == 0 {
            placed.unknown.push(id);
        } else if cell.is_some_and(|cell| cell.fault.is_some()) {
            placed.to.push(id);
        } else if waiting + count < mailbox_max {
            mail_counts.insert(id.clone(), count + 1);
            placed.to.push(id);
        } else {
            placed.overloaded.push(id);
        }
    }
    Ok(placed)
}
