//! Find the reasons why a new manifest cannot come into force now (spec/kernel.md, K-70 to K-75;
//! `kernel/aos/core/decide/quiescence.py`).
//!
//! The cheap checks of open work run first. Only if they find nothing are stored states read, and
//! only those of workflows whose schemas accept other values than before.
//!
//! A function is Damage if a stored state or a manifest cannot be read.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::collections::SeededMap;
use crate::decide::answers::Blocker;
use crate::decide::fits::{key_problem, state_problem, work_problems};
use crate::decide::left_behind::next_under;
use crate::journal::ports::Blobs;
use crate::journal::records::CellId;
use crate::journal::vocabulary::{ApplyMode, Word};
use crate::manifest::builtins::is_kernel_effect;
use crate::manifest::effective::{Effect, Effective, Lifecycle, Upgrade, Workflow};
use crate::manifest::shapes::Shapes;
use crate::state::cell::{Cell, OpenIntent, SharedCell};
use crate::state::state::State;
use crate::state::version::{
    home, is_in_flight, is_terminal, manifest_under, stays, workflow_under,
};
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

pub const NOT_TERMINAL: &str = "instance_is_not_terminal";
pub const INTENT_OPEN: &str = "intent_is_open";
pub const MAIL_QUEUED: &str = "mail_is_queued";
pub const REMOVED: &str = "workflow_has_cells";
pub const NEEDED: &str = "effect_is_needed";
pub const MISFIT: &str = "cell_does_not_fit";
pub const FAILED_MIGRATION: &str = "migration_failed";

/// Whether a blocker disappears by itself if the world continues to run.
pub fn is_in_flight_kind(kind: &str) -> bool {
    matches!(kind, NOT_TERMINAL | INTENT_OPEN | MAIL_QUEUED)
}

/// A manifest that an operator wants to put in force, and the mode.
#[derive(Clone)]
pub struct Change {
    pub in_force: Option<Rc<Effective>>,
    pub effective: Rc<Effective>,
    pub mode: ApplyMode,
    pub leaves: Vec<Rc<str>>,
}

impl Change {
    /// Whether instances in flight of this workflow continue under the new manifest.
    pub fn moves(&self, workflow: &str) -> bool {
        self.effective
            .workflows
            .get(workflow)
            .is_some_and(|new| new.upgrade == Upgrade::InPlace || self.migrates(workflow))
    }

    /// Whether the new module converts the stored states of this workflow (K-76).
    pub fn migrates(&self, workflow: &str) -> bool {
        let Some(in_force) = self.in_force.as_ref().filter(|_| self.mode == ApplyMode::Migrate)
        else {
            return false;
        };
        let old = in_force.workflows.get(workflow);
        old.is_some_and(|old| takes_over(old, self.effective.workflows.get(workflow)))
    }
}

/// Whether the new workflow converts states of the old one (K-76). An unchanged workflow never does.
pub fn takes_over(old: &Workflow, new: Option<&Rc<Workflow>>) -> bool {
    new.is_some_and(|new| {
        new.migrate.as_ref().is_some_and(|migrate| migrate.source == old.state.name)
            && (new.hash, new.module.hash) != (old.hash, old.module.hash)
    })
}

/// Whether the new module converts the state of this cell, which may run under a manifest earlier
/// than the one in force.
pub fn migrates(state: &State, change: &Change, cell: &Cell, blobs: &dyn Blobs) -> Outcome<bool> {
    if cell.state.is_none() || !change.migrates(&cell.id.workflow) {
        return Ok(false);
    }
    let old = workflow_under(state, &cell.id, next_under(state, cell, blobs)?)?;
    let new = change.effective.workflows.get(&cell.id.workflow);
    Ok(old.is_some_and(|old| takes_over(&old, new)))
}

/// Blockers up to a limit.
struct Found {
    blockers: Vec<Blocker>,
    limit: usize,
}

impl Found {
    fn new(limit: u64) -> Self {
        Found { blockers: Vec::new(), limit: usize::try_from(limit).unwrap_or(usize::MAX) }
    }

    fn is_full(&self) -> bool {
        self.blockers.len() >= self.limit
    }

    fn add(&mut self, kind: &'static str, cell: &CellId, detail: String) {
        if !self.is_full() {
            self.blockers.push(Blocker { kind, cell: cell.clone(), detail });
        }
    }

    fn of_workflow(&mut self, kind: &'static str, workflow: &Rc<str>, detail: String) {
        self.add(kind, &CellId::new(workflow.clone(), &[][..]), detail);
    }
}

/// The first blockers of a change, in the order of K-70a; none if the manifest can come into force.
///
/// Stored states up to record `since` are known to fit. With `is_recorded` the change is replayed:
/// stored states were checked when it was first applied and are not checked again.
pub fn blockers(
    state: &State,
    change: &Change,
    blobs: &dyn Blobs,
    since: Option<u64>,
    is_recorded: bool,
    limit: u64,
) -> Outcome<Vec<Blocker>> {
    if state.manifest.is_none() {
        return Ok(Vec::new());
    }
    let mut found = Found::new(limit);
    if change.mode != ApplyMode::Pin {
        in_flight(state, change, &mut found)?;
    }
    if !is_recorded {
        removed(state, change, &mut found);
    }
    unserved(state, change, &mut found)?;
    if found.blockers.is_empty() && !is_recorded {
        misfits(state, change, blobs, since, &mut found)?;
    }
    Ok(found.blockers)
}

/// Instances that are not terminal, open intents, cells with queued mail.
fn in_flight(state: &State, change: &Change, found: &mut Found) -> Outcome<()> {
    let mut unfinished = |cell: &Cell| {
        if !change.moves(&cell.id.workflow) {
            let detail = format!("status {}", cell.status().word());
            found.add(NOT_TERMINAL, &cell.id, detail);
        }
        found.is_full()
    };
    for cell in state.cells.unrested() {
        let cell = cell?;
        let cell = cell.borrow();
        if !is_terminal(state, &cell)? && unfinished(&cell) {
            return Ok(());
        }
    }
    // Of instances at rest, only those of `explicit` workflows are unfinished.
    for name in explicit(state)? {
        for cell in state.cells.of(&name, None) {
            let cell = cell?;
            let cell = cell.borrow();
            if cell.is_at_rest()
                && cell.declared.is_none()
                && !is_terminal(state, &cell)?
                && unfinished(&cell)
            {
                return Ok(());
            }
        }
    }
    for intent in state.cells.each_intent()? {
        if found.is_full() {
            return Ok(());
        }
        let (intent, _) = intent?;
        if !change.moves(&intent.cell.workflow) {
            let detail = format!("{} of record {}", intent.effect.name, intent.seq);
            found.add(INTENT_OPEN, &intent.cell, detail);
        }
    }
    for id in &state.ring {
        if found.is_full() {
            break;
        }
        if !change.moves(&id.workflow) {
            let cell = state.cells.known(id, state.next_seq)?;
            let detail = format!("mail to run: {}", cell.borrow().mailbox.len());
            found.add(MAIL_QUEUED, id, detail);
        }
    }
    Ok(())
}

/// The workflows whose instances at rest may be in flight.
fn explicit(state: &State) -> Outcome<Vec<Rc<str>>> {
    let mut names = Vec::new();
    for name in state.cells.workflows() {
        let has_undeclared =
            state.cells.shelves.get(&name).is_some_and(|shelf| shelf.undeclared() != 0);
        if has_undeclared && has_explicit_version(state, &name)? {
            names.push(name);
        }
    }
    Ok(names)
}

fn has_explicit_version(state: &State, workflow: &str) -> Outcome<bool> {
    for era in state.eras.all() {
        let manifest = manifest_under(state, era.seq)?;
        let version = manifest.workflows.get(workflow);
        if version.is_some_and(|version| version.lifecycle == Lifecycle::Explicit) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn removed(state: &State, change: &Change, found: &mut Found) {
    for name in state.cells.workflows() {
        let count = state.cells.shelves.get(&name).map_or(0, |shelf| shelf.count);
        let is_removed = !change.effective.workflows.contains_key(&name)
            && state.effective().workflows.contains_key(&name);
        if count != 0 && is_removed && !change.leaves.contains(&name) {
            let cells = if count > 1 { format!("{count} cells") } else { "1 cell".to_string() };
            found.of_workflow(REMOVED, &name, format!("it is removed, and has {cells}"));
        }
    }
}

/// Effects that are open, or that instances in flight may request, and that no executor could serve
/// under the new manifest.
fn unserved(state: &State, change: &Change, found: &mut Found) -> Outcome<()> {
    // Thousands of open intents are of few effects: each is compared once.
    let mut problems: SeededMap<(Hash, Rc<str>), Option<&'static str>> = SeededMap::default();
    let mut problem_of = |intent: &OpenIntent| {
        let effect = &intent.effect;
        *problems.entry((*intent.manifest(), effect.name.clone())).or_insert_with(|| {
            let shapes = Shapes::new(&intent.under, &change.effective);
            effect_problem(effect, &change.effective, &shapes)
        })
    };
    for intent in state.cells.each_intent()? {
        if found.is_full() {
            return Ok(());
        }
        let (intent, _) = intent?;
        if change.mode == ApplyMode::Pin || change.moves(&intent.cell.workflow) {
            if let Some(problem) = problem_of(&intent) {
                let detail =
                    format!("{} of record {} is open: {problem}", intent.effect.name, intent.seq);
                found.add(NEEDED, &intent.cell, detail);
            }
        }
    }
    if change.mode != ApplyMode::Pin || found.is_full() {
        return Ok(());
    }
    for (name, seq) in pinned(state, change)? {
        let old = manifest_under(state, seq)?;
        let between = Shapes::new(&old, &change.effective);
        let Some(workflow) = old.workflows.get(&name) else { continue };
        for effect in workflow.effects_emitted.iter().filter_map(|name| old.effects.get(name)) {
            if let Some(problem) = effect_problem(effect, &change.effective, &between) {
                let detail = format!(
                    "{}: its instances in flight may ask for it, and {problem}",
                    effect.name
                );
                found.of_workflow(NEEDED, &name, detail);
            }
        }
    }
    Ok(())
}

/// The workflows, each with a manifest's record, whose instances would be pinned.
fn pinned(state: &State, change: &Change) -> Outcome<BTreeSet<(Rc<str>, u64)>> {
    let mut candidates = BTreeSet::new();
    for cell in state.cells.unrested() {
        let cell = cell?;
        let cell = cell.borrow();
        if is_in_flight(state, &cell)? {
            candidates.insert((cell.id.workflow.clone(), home(state, &cell)));
        }
    }
    for name in explicit(state)? {
        candidates.extend(state.eras.all().iter().map(|era| (name.clone(), era.seq)));
    }
    let mut pinned = BTreeSet::new();
    for (name, seq) in candidates {
        if !change.moves(&name) && manifest_under(state, seq)?.workflows.contains_key(&name) {
            pinned.insert((name, seq));
        }
    }
    Ok(pinned)
}

fn effect_problem(old: &Effect, new: &Effective, shapes: &Shapes) -> Option<&'static str> {
    if is_kernel_effect(&old.name) {
        return None;
    }
    match new.effects.get(&old.name) {
        None => Some("the manifest does not have it"),
        Some(new) if !shapes.same_effect(old, new) => {
            Some("the manifest gives it other params, another receipt or another executor")
        }
        Some(_) => None,
    }
}

// Stored states

/// Cells that would continue under the new manifest and do not fit it (K-71). Failed cells are left
/// out: they are checked when an operator retries them (K-102).
fn misfits(
    state: &State,
    change: &Change,
    blobs: &dyn Blobs,
    since: Option<u64>,
    found: &mut Found,
) -> Outcome<()> {
    for name in state.cells.workflows() {
        let count = state.cells.shelves.get(&name).map_or(0, |shelf| shelf.count);
        let workflow = change.effective.workflows.get(&name).filter(|_| count != 0);
        let Some(workflow) = workflow else { continue };
        let checks = checks_of(state, change, workflow)?;
        if !(checks.reads() || checks.moves) {
            continue;
        }
        let mut look = |cell: SharedCell| -> Outcome<bool> {
            let cell = &*cell.borrow();
            if cell.fault.is_none() && (checks.all || is_homeless(state, cell)?) {
                checks.problems(state, change, workflow, cell, blobs, found)?;
            }
            Ok(found.is_full())
        };
        let listing = match since {
            _ if !checks.reads() => None,
            None => Some(state.cells.of(&name, None)),
            Some(since) => Some(state.cells.changed(&name, since)),
        };
        for cell in listing.into_iter().flatten() {
            if look(cell?)? {
                return Ok(());
            }
        }
        if checks.reads() && since.is_none() {
            continue;
        }
        for cell in state.cells.unrested_of(&name) {
            let cell = cell?;
            let is_known = checks.reads() && since.is_some_and(|at| cell.borrow().changed > at);
            if !is_known && look(cell)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The checks of one workflow's cells: of `all` cells, or only of those that cannot stay with their
/// own manifest.
struct Checks {
    all: bool,
    key_differs: bool,
    state_differs: bool,
    moves: bool,
}

impl Checks {
    /// Whether the checks read the states of cells.
    fn reads(&self) -> bool {
        self.key_differs || self.state_differs
    }

    fn problems(
        &self,
        state: &State,
        change: &Change,
        workflow: &Workflow,
        cell: &Cell,
        blobs: &dyn Blobs,
        found: &mut Found,
    ) -> Outcome<()> {
        let of_key = match self.key_differs {
            true => key_problem(workflow, &cell.id.key),
            false => None,
        };
        let of_state = match self.state_differs && !migrates(state, change, cell, blobs)? {
            true => state_problem(workflow, cell.state.as_ref(), blobs)?,
            false => None,
        };
        for problem in [of_key, of_state].into_iter().flatten() {
            found.add(MISFIT, &cell.id, problem);
        }
        if self.moves && !found.is_full() {
            let intents = state.cells.intents_of(cell)?;
            let mails = cell.mailbox.iter();
            work_problems(&change.effective, workflow, mails, &intents, blobs, &mut |problem| {
                found.add(MISFIT, &cell.id, problem);
                !found.is_full()
            })?;
        }
        Ok(())
    }
}

fn checks_of(state: &State, change: &Change, workflow: &Workflow) -> Outcome<Checks> {
    let moves = change.moves(&workflow.name);
    let all = change.mode != ApplyMode::Pin || moves;
    let (key_differs, state_differs) = if all {
        differs(state, change, workflow)?
    } else {
        let was_removed = was_removed(state, &workflow.name)?;
        (was_removed, was_removed)
    };
    Ok(Checks { all, key_differs, state_differs, moves })
}

/// Whether a finished instance cannot stay with its own manifest: that has no such workflow.
fn is_homeless(state: &State, cell: &Cell) -> Outcome<bool> {
    if stays(state, cell)? {
        return Ok(false);
    }
    let own = manifest_under(state, home(state, cell))?;
    Ok(!own.workflows.contains_key(&cell.id.workflow))
}

fn was_removed(state: &State, workflow: &str) -> Outcome<bool> {
    for era in state.eras.all() {
        if !manifest_under(state, era.seq)?.workflows.contains_key(workflow) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether keys, and whether states, of this workflow may not fit the new manifest.
fn differs(state: &State, change: &Change, workflow: &Workflow) -> Outcome<(bool, bool)> {
    let (mut key_differs, mut state_differs) = (false, false);
    for era in state.eras.all() {
        let old = manifest_under(state, era.seq)?;
        let Some(old_workflow) = old.workflows.get(&workflow.name) else {
            return Ok((true, true));
        };
        let shapes = Shapes::new(&old, &change.effective);
        key_differs |= !shapes.same(old_workflow.key.as_deref(), workflow.key.as_deref());
        state_differs |= !shapes.same(Some(&old_workflow.state), Some(&workflow.state));
        // The content of an opaque state was never checked.
        state_differs |= old_workflow.has_opaque_state() != workflow.has_opaque_state();
    }
    Ok((key_differs, state_differs))
}
