//! Convert all stored states with the modules of a new manifest (spec/kernel.md, K-76;
//! `kernel/aos/core/decide/migration.py`).
//!
//! - input: `{version: 1, state: bytes, from: {schema, hash}, to: {schema, hash}, key?: bytes}`
//! - output: `{state: bytes}` or `{fault: {kind, message, detail?}}`
//!
//! All or nothing: if one cell cannot be converted, the core refuses the manifest. The results are
//! stored as the workflow's new index, node by node. They take effect only when the manifest's
//! record names the index's root.
//!
//! The core never runs a module: `next` returns one call after the other, and `ran` takes how it
//! ended. Nothing may change the state in between.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::decide::answers::{Blocker, Misfit};
use crate::decide::envelope::{misfit, read_output, EFFECT_FIELDS};
use crate::decide::fits::{completed, state_problem};
use crate::decide::left_behind::next_under;
use crate::decide::quiescence::{migrates, Change, FAILED_MIGRATION};
use crate::journal::faults::FaultKind;
use crate::journal::ports::{BlobReader, Blobs, Call, Ran};
use crate::journal::records::{CellId, Migrated, Slot};
use crate::journal::vocabulary::Word;
use crate::manifest::effective::{Effective, Workflow};
use crate::state::cell::{Cell, SharedCell};
use crate::state::cell_index::{CellIndex, Changes};
use crate::state::entry::{entry_of, pack_keys};
use crate::state::state::State;
use crate::state::version::{manifest_under, workflow_under};
use crate::values::cbor::{decode_record, encode, Key, Value, RECORD};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{Failure, Outcome};

/// Cells that are listed together. Each listing sorts all cells above the base again.
const LISTED: usize = 4096;

type Held = OrderedMap<Hash, Rc<[u8]>>;

/// The blobs of a migration. If the host keeps them in transactions of their own, memory holds a
/// bounded part of them; `uncommitted` are those that are committed with the manifest's record.
struct Puts {
    uncommitted: Held,
    size: u64,
    /// From so many bytes on, the host makes blobs durable; None if it keeps none.
    kept_bytes: Option<u64>,
    /// Whether a cell was stored since the host was asked.
    has_stored: bool,
    nodes: Held,
    nodes_before: Held,
    host: BlobReader,
}

impl Puts {
    fn put(&mut self, data: &[u8]) -> Hash {
        let hash = content_hash(data);
        if !self.uncommitted.contains_key(&hash) {
            self.uncommitted.insert(hash, data.into());
            self.size += data.len() as u64;
        }
        hash
    }

    /// The blobs that the host makes durable now, after each stored cell if there are many.
    fn keep(&mut self) -> Option<Vec<(Hash, Rc<[u8]>)>> {
        let is_full = self.kept_bytes.is_some_and(|most| self.size >= most);
        if !std::mem::take(&mut self.has_stored) || !is_full {
            return None;
        }
        self.size = 0;
        Some(std::mem::take(&mut self.uncommitted).into_entries())
    }

    /// Store a node of an index; the next slice may read it.
    fn put_node(&mut self, data: Vec<u8>) -> Hash {
        let hash = self.put(&data);
        self.nodes.insert(hash, data.into());
        hash
    }

    /// End a slice. From now on only nodes of the last two slices are kept for reading.
    fn turn(&mut self) {
        self.nodes_before = std::mem::take(&mut self.nodes);
    }
}

struct Reading(Rc<RefCell<Puts>>);

impl Blobs for Reading {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        let puts = self.0.borrow();
        for blobs in [&puts.nodes, &puts.nodes_before, &puts.uncommitted] {
            if let Some(data) = blobs.get(hash) {
                return Ok(data.to_vec());
            }
        }
        puts.host.read(hash)
    }
}

/// The workflows whose cells a migration took over, and the blobs that are committed with the
/// manifest's record.
#[derive(Default)]
pub struct MigratedCells {
    pub migrated: Vec<Migrated>,
    pub blobs: Vec<(Hash, Rc<[u8]>)>,
}

/// The next need of a migration.
pub enum Progress {
    /// The host runs a call.
    Call(Call),
    /// The host makes these blobs durable.
    Keep(Vec<(Hash, Rc<[u8]>)>),
    /// It is over.
    Done(MigratedCells),
    /// The first cells that the new modules cannot convert.
    Failed(Vec<Blocker>),
}

/// The migration of all cells, at rest or not, of the workflows that migrate; in progress.
pub struct Migration {
    change: Change,
    puts: Rc<RefCell<Puts>>,
    workflows: VecDeque<Rc<str>>,
    current: Option<OfWorkflow>,
    migrated: Vec<Migrated>,
    failed: Vec<Blocker>,
}

/// The migration of one workflow.
struct OfWorkflow {
    name: Rc<str>,
    workflow: Rc<Workflow>,
    to: Value,
    from: SeededMap<Hash, Value>,
    index: CellIndex,
    changes: Changes,
    listed: VecDeque<SharedCell>,
    /// The key's hash of the last listed cell; None before the first.
    after: Option<Hash>,
    is_listed: bool,
    /// The cell whose call the host runs.
    running: Option<SharedCell>,
}

impl Migration {
    /// The host `keeps` blobs if it makes them durable in transactions of their own.
    pub fn new(state: &State, change: Change, read: &BlobReader, keeps: bool) -> Self {
        let has_cells =
            |name: &Rc<str>| state.cells.shelves.get(name).is_some_and(|shelf| shelf.count != 0);
        let workflows = state.cells.workflows().into_iter();
        let workflows = workflows.filter(|name| has_cells(name) && change.migrates(name));
        let puts = Puts {
            uncommitted: Held::default(),
            size: 0,
            kept_bytes: keeps.then_some(state.limits.kept_bytes),
            has_stored: false,
            nodes: Held::default(),
            nodes_before: Held::default(),
            host: read.clone(),
        };
        Migration {
            workflows: workflows.collect(),
            change,
            puts: Rc::new(RefCell::new(puts)),
            current: None,
            migrated: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Convert cells until the host must do something, or to the end. Damage if a stored state cannot
    /// be read.
    pub fn next(&mut self, state: &State, blobs: &dyn Blobs) -> Outcome<Progress> {
        loop {
            let keep = self.puts.borrow_mut().keep();
            if let Some(blobs) = keep {
                return Ok(Progress::Keep(blobs));
            }
            if self.current.is_none() {
                let Some(name) = self.workflows.pop_front() else { return Ok(self.done(state)) };
                self.current = Some(self.begun(name)?);
            }
            let current = self.current.as_mut().expect("it was begun");
            match current.next_cell(state)? {
                Some(cell) => {
                    let old_state = old_state(state, &self.change, current, &cell, blobs)?;
                    match old_state {
                        None => {
                            let plain = plain(&cell.borrow());
                            self.store(state, plain)?;
                        }
                        Some((source, old_state)) => {
                            let call = current.call(&source, &cell.borrow().id, &old_state)?;
                            current.running = Some(cell);
                            return Ok(Progress::Call(call));
                        }
                    }
                }
                None => self.end_workflow()?,
            }
        }
    }

    /// Take how the call that `next` returned has ended.
    pub fn ran(&mut self, state: &State, ran: Ran) -> Outcome<()> {
        let current = self.current.as_mut().expect("a call of a migration ran");
        let cell = current.running.take().expect("a call of a migration ran");
        let converted = match ran.result {
            Err(fault) => Err(fault),
            Ok(data) => match checked(&current.workflow, &data) {
                Ok(new_state) => Ok(new_state),
                Err(Misfit::Fault(fault)) => Err(fault),
                Err(Misfit::Failure(failure)) => return Err(failure),
            },
        };
        match converted {
            Ok(new_state) => {
                let mut converted = plain(&cell.borrow());
                converted.state = Some(Slot::Bytes(new_state.into()));
                converted.workflow_hash = current.workflow.hash;
                converted.module_hash = current.workflow.module.hash;
                self.store(state, converted)
            }
            Err(fault) => {
                let detail = format!("{}: {}", fault.kind.word(), fault.message);
                let cell = cell.borrow().id.clone();
                self.failed.push(Blocker { kind: FAILED_MIGRATION, cell, detail });
                if self.failed.len() as u64 >= state.limits.blockers {
                    current.listed.clear();
                    current.is_listed = true;
                }
                Ok(())
            }
        }
    }

    fn begun(&self, name: Rc<str>) -> Outcome<OfWorkflow> {
        let Some(workflow) = self.change.effective.workflows.get(&name).cloned() else {
            return Err(Failure::Damage(format!("{name} migrates, and is not in the manifest")));
        };
        Ok(OfWorkflow {
            to: schema_of(&self.change.effective, &workflow)?,
            name,
            workflow,
            from: SeededMap::default(),
            index: CellIndex::empty(Rc::new(Reading(self.puts.clone()))),
            changes: Vec::new(),
            listed: VecDeque::new(),
            after: None,
            is_listed: false,
            running: None,
        })
    }

    /// Add a cell to the new index, unless the migration has failed.
    fn store(&mut self, state: &State, cell: Cell) -> Outcome<()> {
        if !self.failed.is_empty() {
            return Ok(());
        }
        let current = self.current.as_mut().expect("a workflow migrates");
        {
            let puts = &mut *self.puts.borrow_mut();
            if let Some(Slot::Bytes(data)) = &cell.state {
                puts.put(data);
            }
            if let Some(keys) = pack_keys(&cell.keys) {
                puts.put(&keys);
            }
        }
        let key_hash = content_hash(&cell.id.key);
        current.changes.push((key_hash, Some(entry_of(&cell).data().to_vec())));
        if current.changes.len() as u64 >= state.limits.slice_cells {
            current.flush(&self.puts)?;
            self.puts.borrow_mut().turn();
        }
        self.puts.borrow_mut().has_stored = true;
        Ok(())
    }

    fn end_workflow(&mut self) -> Outcome<()> {
        let mut current = self.current.take().expect("a workflow migrates");
        current.flush(&self.puts)?;
        if let Some(root) = current.index.root() {
            let count = current.index.count();
            self.migrated.push(Migrated { workflow: current.name, root: *root, count });
        }
        Ok(())
    }

    fn done(&mut self, state: &State) -> Progress {
        if !self.failed.is_empty() {
            let limit = usize::try_from(state.limits.blockers).unwrap_or(usize::MAX);
            self.failed.truncate(limit);
            return Progress::Failed(std::mem::take(&mut self.failed));
        }
        let uncommitted = std::mem::take(&mut self.puts.borrow_mut().uncommitted);
        Progress::Done(MigratedCells {
            migrated: std::mem::take(&mut self.migrated),
            blobs: uncommitted.into_entries(),
        })
    }
}

impl OfWorkflow {
    /// The next cell with a state; None after the last.
    fn next_cell(&mut self, state: &State) -> Outcome<Option<SharedCell>> {
        loop {
            if let Some(cell) = self.listed.pop_front() {
                return Ok(Some(cell));
            }
            if self.is_listed {
                return Ok(None);
            }
            let mut count = 0;
            for cell in state.cells.of(&self.name, self.after).take(LISTED) {
                let cell = cell?;
                count += 1;
                self.after = Some(content_hash(&cell.borrow().id.key));
                if cell.borrow().state.is_some() {
                    self.listed.push_back(cell);
                }
            }
            self.is_listed = count < LISTED;
        }
    }

    fn flush(&mut self, puts: &Rc<RefCell<Puts>>) -> Outcome<()> {
        let changes = std::mem::take(&mut self.changes);
        self.index = self.index.updated(changes, &mut |data| puts.borrow_mut().put_node(data))?;
        Ok(())
    }

    /// Convert a complete state of the cell, which ran under `source` (K-77).
    fn call(&mut self, source: &Effective, id: &CellId, old_state: &[u8]) -> Outcome<Call> {
        let limits = &self.workflow.limits;
        let Some(migrate) = &self.workflow.migrate else {
            return Err(Failure::Damage(format!("{} has no migration", self.name)));
        };
        if !self.from.contains_key(&source.hash) {
            let Some(workflow) = source.workflows.get(&id.workflow) else {
                return Err(Failure::Damage(format!("{} was no workflow", id.workflow)));
            };
            self.from.insert(source.hash, schema_of(source, workflow)?);
        }
        let mut fields = vec![
            (Key::Text("version".to_string()), Value::Int(1)),
            (Key::Text("state".to_string()), Value::Bytes(old_state.to_vec())),
            (Key::Text("from".to_string()), self.from[&source.hash].clone()),
            (Key::Text("to".to_string()), self.to.clone()),
        ];
        if !id.key.is_empty() {
            fields.push((Key::Text("key".to_string()), Value::Bytes(id.key.to_vec())));
        }
        Ok(Call {
            module: self.workflow.module.hash,
            entrypoint: migrate.entrypoint.clone(),
            input: encode(&Value::Map(fields)),
            fuel: limits.fuel,
            memory_bytes: limits.memory_bytes,
            output_bytes: limits.output_bytes,
        })
    }
}

/// The manifest under which a cell runs and its complete state, if the new module converts it; None
/// if the cell stays as it is.
fn old_state(
    state: &State,
    change: &Change,
    current: &OfWorkflow,
    cell: &SharedCell,
    blobs: &dyn Blobs,
) -> Outcome<Option<(Rc<Effective>, Vec<u8>)>> {
    let cell = &*cell.borrow();
    let under = next_under(state, cell, blobs)?;
    let (true, Some(stored)) = (migrates(state, change, cell, blobs)?, &cell.state) else {
        return Ok(None);
    };
    let old = workflow_under(state, &cell.id, under)?;
    // A failed cell may have a state of an older manifest (K-102).
    if cell.fault.is_some() {
        let is_of_another_time = match &old {
            None => true,
            Some(old) => state_problem(old, Some(stored), blobs)?.is_some(),
        };
        if is_of_another_time {
            return Ok(None);
        }
    }
    let data = stored.bytes(blobs)?;
    let data = match old {
        Some(old) if !old.has_opaque_state() => completed(&old.state, &data).into_owned(),
        _ => data.to_vec(),
    };
    debug_assert!(current.running.is_none());
    Ok(Some((manifest_under(state, under)?, data)))
}

/// A cell as its entry has it, which no longer belongs to an earlier manifest.
fn plain(cell: &Cell) -> Cell {
    let mut plain = Cell::new(cell.id.clone(), cell.workflow_hash, cell.module_hash);
    plain.state = cell.state.clone();
    plain.declared = cell.declared;
    plain.last_seq = cell.last_seq;
    plain.last_active_ns = cell.last_active_ns;
    plain.keys = cell.keys.clone();
    plain
}

fn checked(workflow: &Workflow, data: &[u8]) -> Result<Vec<u8>, Misfit> {
    let limits = &workflow.limits;
    let output = read_output(data, limits.output_bytes as usize, &EFFECT_FIELDS)?;
    if !output.events.is_empty()
        || !output.effects.is_empty()
        || output.ann.is_some()
        || output.status.is_some()
    {
        let message = "a migration returns a state and nothing else";
        return misfit(FaultKind::OutputMalformed, message);
    }
    let Some(state) = output.state else {
        return misfit(FaultKind::StateInvalid, "a migration returns a state, found null");
    };
    if state.len() as u64 > limits.state_bytes {
        let message =
            format!("state: expected at most {} bytes, found {}", limits.state_bytes, state.len());
        return misfit(FaultKind::StateInvalid, message);
    }
    if !workflow.has_opaque_state() {
        if let Err(problem) = workflow.state.check_record(&state) {
            let message = format!("{}: {problem}", workflow.state.name);
            return misfit(FaultKind::StateInvalid, message);
        }
    }
    Ok(state)
}

/// The state schema of a workflow, in the form of a migration's input.
fn schema_of(effective: &Effective, workflow: &Workflow) -> Outcome<Value> {
    let damage = || Failure::damage("the effective manifest has no such schema");
    let document = decode_record(&effective.document, RECORD).map_err(|_| damage())?;
    let schemas = document.get("manifest").and_then(|manifest| manifest.get("schemas"));
    let mut schemas = schemas.and_then(Value::as_list).ok_or_else(damage)?.iter();
    let name = &workflow.state.name;
    let is_it = |entry: &&Value| entry.get("name").and_then(Value::as_text) == Some(&**name);
    let hash = schemas.find(is_it).and_then(|entry| entry.get("hash")).ok_or_else(damage)?;
    Ok(Value::Map(vec![
        (Key::Text("schema".to_string()), Value::Text(name.to_string())),
        (Key::Text("hash".to_string()), hash.clone()),
    ]))
}
