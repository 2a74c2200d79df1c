//! Keep the cells of a world in four layers, few of them in memory (spec/state.md, SN-10;
//! `kernel/aos/core/state/cells.py`).
//!
//! - active: cells with mail, open intents, a fault or a place in the ring: always in memory
//! - resting: cells that came to rest or were read most recently: in memory, bounded per workflow
//! - delta: other cells that changed since the snapshot: packed entries, and tombstones
//! - base: all other cells: the workflow's index in the last snapshot, in the blob store
//!
//! A read searches the layers from top to bottom; the first one that has the cell, or has it as
//! deleted, decides. The layer of a cell changes no result: the same records give the same cells
//! and the same roots, whatever the bounds are.
//!
//! A cell is *dirty* if a record after the snapshot's changed it, otherwise *clean* (SN-11).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::vec::IntoIter;

use crate::collections::OrderedMap;
use crate::journal::ports::BlobReader;
use crate::journal::records::{CellId, Slot};
use crate::journal::vocabulary::{CellStatus, TerminalStatus};
use crate::limits::Limits;
use crate::state::cell::{Cell, SharedCell};
use crate::state::cell_index::{CellIndex, Put};
use crate::state::entry::{entry_of, entry_references, pack_keys, Entry};
use crate::state::spilling::Spilling;
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{Failure, Outcome};

/// Default number of cells in the resting layer of one workflow; the host sets it by `keep`.
pub const RESTING_MAX: usize = 4096;

/// Packed cells that `tidy` checks whenever a cell comes to rest after a rebase.
const TIDIED: usize = 8;

/// Cells in the order of a listing; Damage if an index or an entry cannot be read.
pub type Listing<'a> = Box<dyn Iterator<Item = Outcome<SharedCell>> + 'a>;

/// A cell of a delta: its entry, and the blobs of the entry that no store has yet.
#[derive(Clone)]
pub struct Packed {
    /// The last record that changed the cell.
    pub changed: u64,
    /// None for a tombstone: the cell was deleted, although the base may still have it.
    pub entry: Option<Entry>,
    /// The bytes of the state; None if the state is in the blob store or was spilled.
    pub state: Option<Rc<[u8]>>,
    /// The bytes of the idempotency keys; None if there are none or they were spilled.
    pub keys: Option<Rc<[u8]>>,
}

impl Packed {
    /// A cell at rest, which has a state.
    fn of(cell: &Cell) -> Self {
        Packed {
            changed: cell.changed,
            entry: Some(entry_of(cell)),
            state: cell.state_bytes().cloned(),
            keys: pack_keys(&cell.keys).map(Into::into),
        }
    }

    /// Bytes that spilling this cell frees; 0 if nothing is left to spill.
    fn size(&self) -> u64 {
        let size = |data: &Option<Rc<[u8]>>| data.as_ref().map_or(0, |data| data.len() as u64);
        size(&self.state) + size(&self.keys)
    }
}

/// The layers of one workflow that a read may change.
#[derive(Default)]
struct Layers {
    /// Cells at rest, decoded, in the order in which they entered this layer and leave it.
    resting: OrderedMap<CellId, SharedCell>,
    /// Packed cells and tombstones. A rebase makes some of them clean; `tidy` drops those.
    delta: OrderedMap<CellId, Packed>,
}

/// The layers of one workflow, except its active cells, which are in `Cells::active`.
pub struct Shelf {
    /// The workflow's index in the last snapshot, or the one that a later migration made.
    pub base: CellIndex,
    layers: RefCell<Layers>,
    /// Number of cells in all four layers; tombstones do not count. Only in a forged world can a
    /// number of cells be negative or very large.
    pub count: i128,
    /// Number of cells by the terminal status that their module declared last: completed, failed.
    pub declared: [i128; 2],
    /// The record of the migration that made the base; 0 if no migration made it.
    pub since: u64,
}

impl Shelf {
    fn new(base: CellIndex) -> Self {
        Shelf { base, layers: RefCell::default(), count: 0, declared: [0, 0], since: 0 }
    }

    /// Number of cells whose module declares no terminal status.
    pub fn undeclared(&self) -> i128 {
        self.count - self.declared.iter().sum::<i128>()
    }
}

/// A mapping of (workflow, key) to cell, over the four layers of all workflows.
///
/// To change a cell, the fold calls `wake`, changes it, then calls `put_to_rest`. A cell moves
/// between memory and disk in this order:
///
/// 1. `put_to_rest` moves an idle cell to the resting layer. If that is full, the oldest cell leaves
///    it: a clean one is forgotten, because the base has it; a dirty one is packed into the delta,
///    with the bytes of its state and keys.
/// 2. The kernel calls `spill` once per frame. If the deltas are too large, `spill` moves bytes of
///    the oldest packed cells into the frame's blobs, and pins them. From then on, the cell is read
///    by the reader, which must find a blob of a sealed frame before it is durable.
/// 3. The host commits the blobs in the transaction of the frame.
/// 4. A snapshot writes the blobs and nodes of all dirty cells (`indexed`). The host makes them
///    durable before it submits the record that names the snapshot.
/// 5. When that record is durable, too, the host calls `rebase`: the snapshot's indexes become the
///    base, and the pins that it names are dropped.
/// 6. `tidy` drops the packed cells that the new base has, a few at a time.
pub struct Cells {
    /// The active layer of all workflows: never packed, so it has no bound here.
    pub active: OrderedMap<CellId, SharedCell>,
    /// The other three layers, by workflow. A shelf stays when its last cell is deleted.
    pub shelves: OrderedMap<Rc<str>, Shelf>,
    /// The record that the base was taken after; a cell with a later `changed` is dirty.
    pub at: u64,
    spilling: RefCell<Spilling>,
    /// Reads index nodes, states and keys: durable ones, and those of frames on their way.
    read: BlobReader,
    /// Bounds the resting layer of each workflow. The next cells that come to rest apply a new bound.
    pub resting_max: usize,
    /// Packed cells that `tidy` has still to check since a rebase, by shelf.
    stale: Vec<(Rc<str>, IntoIter<CellId>)>,
}

impl Cells {
    pub fn new(read: BlobReader, at: u64, limits: &Limits) -> Self {
        Cells {
            active: OrderedMap::default(),
            shelves: OrderedMap::default(),
            at,
            spilling: RefCell::new(Spilling::new(limits)),
            read,
            resting_max: RESTING_MAX,
            stale: Vec::new(),
        }
    }

    /// Read all blobs with `read` from now on: it also finds blobs that are not durable.
    pub fn read_with(&mut self, read: BlobReader) {
        for name in self.workflows() {
            let shelf = self.shelf(&name);
            shelf.base = shelf.base.reading_with(read.clone());
        }
        self.read = read;
    }

    /// Which packed cells leave memory, and the pins of those that have left it.
    pub fn spilling(&mut self) -> &mut Spilling {
        self.spilling.get_mut()
    }

    // Reading

    /// A cell, or None if there is none. A cell at rest moves to the resting layer. Damage if the
    /// index or an entry in it cannot be read; nothing has changed then.
    pub fn get(&self, id: &CellId) -> Outcome<Option<SharedCell>> {
        if let Some(cell) = self.active.get(id) {
            return Ok(Some(cell.clone()));
        }
        match self.shelves.get(&id.workflow) {
            Some(shelf) => self.at_rest(shelf, id),
            None => Ok(None),
        }
    }

    /// A cell that an earlier record has made, as record `seq` says.
    pub fn known(&self, id: &CellId, seq: u64) -> Outcome<SharedCell> {
        self.get(id)?.ok_or_else(|| {
            Failure::Damage(format!(
                "record {seq} is for {}, and there is no such cell",
                id.workflow
            ))
        })
    }

    /// Number of all cells.
    pub fn len(&self) -> i128 {
        self.shelves.values().map(|shelf| shelf.count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all shelves, sorted.
    pub fn workflows(&self) -> Vec<Rc<str>> {
        let mut names: Vec<Rc<str>> = self.shelves.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// All cells, by workflow and then by the hash of the key. Packed cells and cells of the base
    /// are decoded one by one and not kept.
    pub fn values(&self) -> Listing<'_> {
        Box::new(self.workflows().into_iter().flat_map(|workflow| self.of(&workflow, None)))
    }

    /// Number of cells of a workflow by status, in the order of `CellStatus::WORDS`. Reads no cell
    /// at rest.
    pub fn statuses(&self, workflow: &str) -> [i128; 4] {
        let mut counts = [0; 4];
        let Some(shelf) = self.shelves.get(workflow) else { return counts };
        counts[CellStatus::Running as usize] = shelf.undeclared();
        counts[CellStatus::Completed as usize] = shelf.declared[0];
        counts[CellStatus::Failed as usize] = shelf.declared[1];
        for cell in self.active_of(workflow) {
            let cell = cell.borrow();
            let counted = match cell.declared {
                None => CellStatus::Running,
                Some(TerminalStatus::Completed) => CellStatus::Completed,
                Some(TerminalStatus::Failed) => CellStatus::Failed,
            };
            counts[counted as usize] -= 1;
            counts[cell.status() as usize] += 1;
        }
        counts
    }

    /// The active cells of one workflow, in the order in which they became active.
    pub fn active_of<'a>(&'a self, workflow: &'a str) -> impl Iterator<Item = &'a SharedCell> {
        self.active.iter().filter(move |(id, _)| &*id.workflow == workflow).map(|(_, cell)| cell)
    }

    /// The active cells of one workflow in the order of their key hashes.
    pub fn sorted_active_of(&self, workflow: &str) -> Vec<SharedCell> {
        let mut cells: Vec<SharedCell> = self.active_of(workflow).cloned().collect();
        cells.sort_by_cached_key(|cell| content_hash(&cell.borrow().id.key));
        cells
    }

    /// The cells of one workflow in the order of their key hashes, which are greater than
    /// `after_hash`.
    pub fn of(&self, workflow: &str, after_hash: Option<Hash>) -> Listing<'_> {
        let Some((name, shelf)) = self.shelves.get_entry(workflow) else {
            return Box::new(std::iter::empty());
        };
        let mut above: BTreeMap<Hash, Above> = BTreeMap::new();
        let layers = shelf.layers.borrow();
        for (id, packed) in layers.delta.iter() {
            above.insert(content_hash(&id.key), Above::Packed(packed.clone()));
        }
        for (id, cell) in layers.resting.iter() {
            above.insert(content_hash(&id.key), Above::Cell(cell.clone()));
        }
        for cell in self.active_of(workflow) {
            above.insert(content_hash(&cell.borrow().id.key), Above::Cell(cell.clone()));
        }
        let hidden: BTreeSet<Hash> = above.keys().copied().collect();
        let mut above = above
            .into_iter()
            .filter(move |(hash, _)| after_hash.is_none_or(|after| *hash > after))
            .peekable();
        let mut base = shelf
            .base
            .items(after_hash)
            .filter(move |item| item.as_ref().map_or(true, |(hash, _)| !hidden.contains(hash)))
            .peekable();
        Box::new(std::iter::from_fn(move || loop {
            let is_above = match (above.peek(), base.peek()) {
                (None, None) => return None,
                (Some((one, _)), Some(Ok((other, _)))) => one < other,
                (Some(_), None) => true,
                (_, Some(_)) => false,
            };
            if !is_above {
                return base.next().map(|item| self.cell(name, &Entry::new(item?.1), None));
            }
            match above.next() {
                Some((_, Above::Cell(cell))) => return Some(Ok(cell)),
                Some((_, Above::Packed(packed))) => {
                    if let Some(entry) = &packed.entry {
                        return Some(self.cell(name, entry, Some(&packed)));
                    }
                }
                None => return None,
            }
        }))
    }

    /// The cells of one workflow that a record after `since` changed, in the order of their key
    /// hashes. `since` must not be before `at`, so that all these cells are above the base.
    pub fn changed(&self, workflow: &str, since: u64) -> Listing<'_> {
        assert!(since >= self.at, "cells since record {since}, and the base is of {}", self.at);
        let Some((name, shelf)) = self.shelves.get_entry(workflow) else {
            return Box::new(std::iter::empty());
        };
        let mut above: BTreeMap<Hash, Above> = BTreeMap::new();
        let layers = shelf.layers.borrow();
        for (id, packed) in layers.delta.iter() {
            if packed.changed > since {
                above.insert(content_hash(&id.key), Above::Packed(packed.clone()));
            }
        }
        for cell in layers.resting.values().chain(self.active_of(workflow)) {
            let (changed, key_hash) = (cell.borrow().changed, content_hash(&cell.borrow().id.key));
            if changed > since {
                above.insert(key_hash, Above::Cell(cell.clone()));
            }
        }
        Box::new(above.into_values().filter_map(move |above| match above {
            Above::Cell(cell) => Some(Ok(cell)),
            Above::Packed(packed) => {
                let entry = packed.entry.as_ref()?;
                Some(self.cell(name, entry, Some(&packed)))
            }
        }))
    }

    /// Visit the cells at rest of a shelf that changed since the base, packed, and the tombstones.
    pub fn visit_changed_at_rest(&self, shelf: &Shelf, mut visit: impl FnMut(&CellId, &Packed)) {
        let layers = shelf.layers.borrow();
        for (id, packed) in layers.delta.iter().filter(|(_, packed)| packed.changed > self.at) {
            visit(id, packed);
        }
        for (id, cell) in layers.resting.iter().filter(|(_, cell)| cell.borrow().changed > self.at)
        {
            visit(id, &Packed::of(&cell.borrow()));
        }
    }

    /// The cells whose state or keys are this blob. Reads every leaf of every index.
    pub fn naming(&self, blob: Hash) -> Listing<'_> {
        let names = move |cell: &SharedCell| entry_references(&cell.borrow()).contains(&blob);
        let active = self.active.values().filter(move |cell| names(cell)).cloned().map(Ok);
        let at_rest = self.shelves.iter().flat_map(move |(name, shelf)| {
            let layers = shelf.layers.borrow();
            let resting: Vec<SharedCell> =
                layers.resting.values().filter(|cell| names(cell)).cloned().collect();
            let delta: Vec<Packed> = layers.delta.values().cloned().collect();
            let packed = delta.into_iter().filter_map(move |packed| {
                let entry = packed.entry.as_ref()?;
                match entry.references() {
                    Ok(hashes) if !hashes.contains(&blob) => None,
                    Ok(_) => Some(self.cell(name, entry, Some(&packed))),
                    Err(failure) => Some(Err(failure)),
                }
            });
            resting.into_iter().map(Ok).chain(packed).chain(self.naming_in_base(name, shelf, blob))
        });
        Box::new(active.chain(at_rest))
    }

    fn naming_in_base<'a>(
        &'a self,
        name: &'a Rc<str>,
        shelf: &'a Shelf,
        blob: Hash,
    ) -> impl Iterator<Item = Outcome<SharedCell>> + 'a {
        let entries = shelf.base.leaves(|_| false).flat_map(|leaf| match leaf {
            Ok((_, entries)) => entries.into_iter().map(Ok).collect(),
            Err(failure) => vec![Err(failure)],
        });
        entries.filter_map(move |data| {
            let entry = match data {
                Ok(data) => Entry::new(data),
                Err(failure) => return Some(Err(failure)),
            };
            // Most entries hold these bytes nowhere: they are not decoded.
            if !entry.data().windows(blob.len()).any(|part| part == blob) {
                return None;
            }
            let cell = match entry.references() {
                Ok(hashes) if !hashes.contains(&blob) => return None,
                Ok(_) => self.cell(name, &entry, None),
                Err(failure) => Err(failure),
            };
            match cell {
                Ok(cell) if self.is_above(shelf, &cell.borrow().id) => None,
                other => Some(other),
            }
        })
    }

    fn is_above(&self, shelf: &Shelf, id: &CellId) -> bool {
        let layers = shelf.layers.borrow();
        self.active.contains_key(id)
            || layers.resting.contains_key(id)
            || layers.delta.contains_key(id)
    }

    fn at_rest(&self, shelf: &Shelf, id: &CellId) -> Outcome<Option<SharedCell>> {
        let mut layers = shelf.layers.borrow_mut();
        if let Some(cell) = layers.resting.get(id) {
            return Ok(Some(cell.clone()));
        }
        let cell = match layers.delta.get(id) {
            Some(packed) => {
                let Some(entry) = &packed.entry else { return Ok(None) };
                let cell = self.cell(&id.workflow, entry, Some(packed))?;
                self.drop_packed(&mut layers, id);
                cell
            }
            None => match shelf.base.get(&content_hash(&id.key))? {
                Some(data) => self.cell(&id.workflow, &Entry::new(data), None)?,
                None => return Ok(None),
            },
        };
        layers.resting.insert(id.clone(), cell.clone());
        // If states are spilled, only `put_to_rest` packs: a read must not add to the blobs of a
        // frame.
        if !self.spilling.borrow().is_on {
            self.bound(&mut layers);
        }
        Ok(Some(cell))
    }

    fn cell(
        &self,
        workflow: &Rc<str>,
        entry: &Entry,
        packed: Option<&Packed>,
    ) -> Outcome<SharedCell> {
        let keys = packed.and_then(|packed| packed.keys.as_deref());
        let mut cell = entry.to_cell(workflow.clone(), &*self.read, keys)?;
        if let Some(packed) = packed {
            cell.changed = packed.changed;
            if let Some(state) = &packed.state {
                cell.state = Some(Slot::Bytes(state.clone()));
            }
        }
        Ok(cell.shared())
    }

    // Writing

    /// The shelf of a workflow; an empty one is added if there is none.
    pub fn shelf(&mut self, workflow: &Rc<str>) -> &mut Shelf {
        if !self.shelves.contains_key(workflow) {
            let shelf = Shelf::new(CellIndex::empty(self.read.clone()));
            self.shelves.insert(workflow.clone(), shelf);
        }
        self.shelves.get_mut(workflow).expect("it was added")
    }

    fn shelf_of(&self, workflow: &str) -> &Shelf {
        self.shelves.get(workflow).expect("a cell has a shelf")
    }

    /// Add a new cell to the active layer. There must be no cell with this id.
    pub fn add(&mut self, cell: Cell) -> SharedCell {
        let id = cell.id.clone();
        self.shelf(&id.workflow).count += 1;
        let shelf = self.shelf_of(&id.workflow);
        self.drop_packed(&mut shelf.layers.borrow_mut(), &id);
        let cell = cell.shared();
        self.active.insert(id, cell.clone());
        cell
    }

    /// Begin a change of `cell` by record `seq`: mark it dirty and move it to the active layer. Call
    /// `put_to_rest` after the change.
    pub fn wake(&mut self, cell: &SharedCell, seq: u64) {
        let id = {
            let mut cell = cell.borrow_mut();
            cell.changed = seq;
            if self.active.contains_key(&cell.id) {
                return;
            }
            cell.id.clone()
        };
        let mut layers = self.shelf_of(&id.workflow).layers.borrow_mut();
        layers.resting.remove(&id);
        self.drop_packed(&mut layers, &id);
        drop(layers);
        self.active.insert(id, cell.clone());
    }

    /// Set the terminal status that the module declares for `cell`; None withdraws it.
    pub fn declare(&mut self, cell: &mut Cell, status: Option<TerminalStatus>) {
        if cell.declared == status {
            return;
        }
        let shelf = self.shelves.get_mut(&cell.id.workflow).expect("a cell has a shelf");
        if let Some(declared) = cell.declared {
            shelf.declared[declared as usize] -= 1;
        }
        if let Some(declared) = status {
            shelf.declared[declared as usize] += 1;
        }
        cell.declared = status;
    }

    /// End a change of `cell`. A cell that has work stays active. An idle one moves to the resting
    /// layer or, if it has no state, is deleted.
    pub fn put_to_rest(&mut self, cell: &SharedCell) {
        let borrowed = cell.borrow();
        if !borrowed.is_at_rest() || self.active.remove(&borrowed.id).is_none() {
            return;
        }
        if borrowed.state.is_none() {
            self.remove(&borrowed);
            return;
        }
        let shelf = self.shelf_of(&borrowed.id.workflow);
        let mut layers = shelf.layers.borrow_mut();
        layers.resting.insert(borrowed.id.clone(), cell.clone());
        drop(borrowed);
        self.bound(&mut layers);
        drop(layers);
        if !self.stale.is_empty() {
            self.tidy(Some(TIDIED));
        }
    }

    fn bound(&self, layers: &mut Layers) {
        while layers.resting.len() > self.resting_max {
            self.pack_oldest(layers);
        }
    }

    fn remove(&mut self, cell: &Cell) {
        let is_on = self.spilling.get_mut().is_on;
        let shelf = self.shelves.get_mut(&cell.id.workflow).expect("a cell has a shelf");
        shelf.count -= 1;
        if let Some(declared) = cell.declared {
            shelf.declared[declared as usize] -= 1;
        }
        // The base may still have the cell, or a snapshot in progress may bring it back.
        if is_on || shelf.base.count() > 0 {
            let tombstone = Packed { changed: cell.changed, entry: None, state: None, keys: None };
            shelf.layers.get_mut().delta.insert(cell.id.clone(), tombstone);
        }
    }

    fn pack_oldest(&self, layers: &mut Layers) {
        let Some((id, cell)) = layers.resting.pop_first() else { return };
        let cell = cell.borrow();
        if cell.changed <= self.at {
            return;
        }
        let packed = Packed::of(&cell);
        self.spilling.borrow_mut().add(&id, packed.size());
        layers.delta.insert(id, packed);
    }

    fn drop_packed(&self, layers: &mut Layers, id: &CellId) {
        if layers.delta.remove(id).is_some() {
            self.spilling.borrow_mut().drop(id);
        }
    }

    /// The blobs that were pinned since the last call.
    pub fn take_new_pins(&mut self) -> Vec<Hash> {
        self.spilling.get_mut().pins.take_new()
    }

    /// Move states and keys out of memory and return them, for the frame that is being sealed
    /// (SN-11a).
    ///
    /// Call it once per frame and commit the result in the frame's transaction: this object reads
    /// these blobs from now on. Spilling begins when the deltas hold more than `Limits::delta_bytes`
    /// and continues, frame by frame, until half of that is left. The cells stay dirty, and their
    /// entries stay in memory.
    pub fn spill(&mut self) -> Vec<(Hash, Rc<[u8]>)> {
        let spilling = self.spilling.get_mut();
        let mut blobs = Vec::new();
        for id in spilling.take() {
            let shelf = self.shelves.get_mut(&id.workflow).expect("a packed cell has a shelf");
            let delta = &mut shelf.layers.get_mut().delta;
            let packed = delta.remove(&id).expect("a counted cell is in the delta");
            if packed.changed <= self.at {
                continue; // the base has it
            }
            for data in [packed.state, packed.keys].into_iter().flatten() {
                let hash = content_hash(&data);
                spilling.pins.add(hash, packed.changed);
                blobs.push((hash, data));
            }
            let bare = Packed { state: None, keys: None, ..packed };
            delta.insert(id, bare);
        }
        blobs
    }

    // Migrations

    /// Replace the cells of a workflow by those that the migration of record `seq` made.
    ///
    /// The index of `count` entries under `root` becomes the base. Active cells stay active and get
    /// their new states; the resting layer and the delta become empty. Damage if the index cannot be
    /// read, or does not have exactly these cells: the cells may be half changed then and must not
    /// be used.
    pub fn replace(&mut self, workflow: &Rc<str>, root: Hash, count: u64, seq: u64) -> Outcome<()> {
        let index = CellIndex::new(Some(root), count, self.read.clone())?;
        let active: Vec<SharedCell> = self.active_of(workflow).cloned().collect();
        let stateless = active.iter().filter(|cell| cell.borrow().state.is_none()).count();
        let shelf_count = self.shelf(workflow).count;
        if count as i128 != shelf_count - stateless as i128 {
            return Err(Failure::Damage(format!(
                "record {seq} migrates {count} cells of {workflow}, where there are {shelf_count}"
            )));
        }
        for cell in &active {
            let mut cell = cell.borrow_mut();
            if cell.state.is_some() {
                self.replace_one(&mut cell, &index, seq)?;
            }
        }
        let shelf = self.shelf(workflow);
        shelf.base = index;
        shelf.since = seq;
        let layers = shelf.layers.get_mut();
        layers.resting.clear();
        let dropped = std::mem::take(&mut layers.delta);
        for id in dropped.keys() {
            self.spilling.get_mut().drop(id);
        }
        Ok(())
    }

    fn replace_one(&self, cell: &mut Cell, index: &CellIndex, seq: u64) -> Outcome<()> {
        let Some(data) = index.get(&content_hash(&cell.id.key))? else {
            return Err(Failure::Damage(format!(
                "record {seq} migrates {} and leaves out a cell of it",
                cell.id.workflow
            )));
        };
        let migrated = Entry::new(data).to_cell(cell.id.workflow.clone(), &*self.read, None)?;
        cell.state = migrated.state;
        cell.workflow_hash = migrated.workflow_hash;
        cell.module_hash = migrated.module_hash;
        cell.version = 0;
        cell.is_kept = false;
        cell.changed = seq;
        Ok(())
    }

    // Snapshots

    /// Build the index of each workflow with all changes since the base, for a snapshot, sorted by
    /// name.
    ///
    /// `put` receives the states, keys and nodes that the base does not have, and returns their
    /// content hashes; spilled blobs are stored already and not put again. Changes no layer: see
    /// `rebase`. Damage if a node of a base cannot be read.
    pub fn indexed(&self, put: Put) -> Outcome<Vec<(Rc<str>, CellIndex)>> {
        let mut indexes = Vec::new();
        for name in self.workflows() {
            let index = self.indexed_one(&name, put)?;
            indexes.push((name, index));
        }
        Ok(indexes)
    }

    fn indexed_one(&self, workflow: &Rc<str>, put: Put) -> Outcome<CellIndex> {
        let shelf = self.shelf_of(workflow);
        let layers = shelf.layers.borrow();
        let mut changes: BTreeMap<Hash, Option<Vec<u8>>> = BTreeMap::new();
        for (id, packed) in layers.delta.iter() {
            if packed.changed > self.at {
                for data in [&packed.state, &packed.keys].into_iter().flatten() {
                    put(data.to_vec());
                }
                let entry = packed.entry.as_ref().map(|entry| entry.data().to_vec());
                changes.insert(content_hash(&id.key), entry);
            }
        }
        for cell in layers.resting.values().chain(self.active_of(workflow)) {
            let cell = cell.borrow();
            if cell.changed > self.at {
                changes.insert(content_hash(&cell.id.key), stored(&cell, put));
            }
        }
        if changes.is_empty() {
            return Ok(shelf.base.clone());
        }
        shelf.base.updated(changes.into_iter().collect(), put)
    }

    /// Make the indexes of a snapshot taken after record `at` the base (SN-13).
    ///
    /// Everything that the snapshot names must be durable. Changes after `at` stay in the layers
    /// above. The cells that became clean leave the delta later, in `tidy`: removing all of them
    /// together would stop the world for too long. No read returns another result than before.
    pub fn rebase(&mut self, indexes: &[(Rc<str>, CellIndex)], at: u64) {
        self.at = at;
        self.spilling.get_mut().pins.drop_to(at);
        for (name, index) in indexes {
            let shelf = self.shelf(name);
            if shelf.since <= at {
                shelf.base = index.clone();
            }
        }
        let names: BTreeSet<&str> = indexes.iter().map(|(name, _)| &**name).collect();
        let shelves: Vec<Rc<str>> = self.shelves.keys().cloned().collect();
        for name in shelves {
            let shelf = self.shelves.get_mut(&name).expect("it has the key");
            // A migration after the snapshot has replaced every cell: the snapshot has old states.
            if shelf.since > at {
                continue;
            }
            if !names.contains(&*name) {
                shelf.base = CellIndex::empty(self.read.clone());
            }
            let delta = &shelf.layers.get_mut().delta;
            if !delta.is_empty() {
                let ids: Vec<CellId> = delta.keys().cloned().collect();
                self.stale.push((name, ids.into_iter()));
            }
        }
    }

    /// Drop packed cells that are clean, because the base has them. Check `limit` cells at most, or
    /// all of them if it is None.
    pub fn tidy(&mut self, limit: Option<usize>) {
        while let Some((name, ids)) = self.stale.last_mut() {
            let delta =
                &mut self.shelves.get_mut(name).expect("it is stale").layers.get_mut().delta;
            let mut checked = 0;
            for id in ids.by_ref().take(limit.unwrap_or(usize::MAX)) {
                checked += 1;
                if delta.get(&id).is_some_and(|packed| packed.changed <= self.at) {
                    delta.remove(&id);
                    self.spilling.get_mut().drop(&id);
                }
            }
            if limit != Some(checked) {
                self.stale.pop();
            }
            if limit.is_some() {
                return;
            }
        }
    }
}

/// The part of a cell that a layer above the base has.
enum Above {
    Cell(SharedCell),
    Packed(Packed),
}

/// Put the state and the keys of a cell and return its entry; None if it has no state.
fn stored(cell: &Cell, put: Put) -> Option<Vec<u8>> {
    if let Slot::Bytes(data) = cell.state.as_ref()? {
        put(data.to_vec());
    }
    if let Some(keys) = pack_keys(&cell.keys) {
        put(keys);
    }
    Some(entry_of(cell).data().to_vec())
}
