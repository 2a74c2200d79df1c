//! Keep the cells of a world in four layers, few of them in memory (spec/state.md, SN-10;
//! `kernel/aos/core/state/cells.py`).
//!
//! - active: cells with mail, a fault or a place in the ring: always in memory
//! - resting: cells that came to rest or were read most recently: in memory, bounded per workflow
//! - delta: other cells that changed since the snapshot: packed entries, and tombstones
//! - base: all other cells: the workflow's index in the last snapshot, in the blob store
//!
//! A read searches the layers from top to bottom; the first one that has the cell, or has it as
//! deleted, decides. The layer of a cell changes no result: the same records give the same cells
//! and the same roots, whatever the bounds are.
//!
//! A cell that only waits for receipts rests, too, with its open intents, if the base holds open
//! work (SN-14); else it is active.
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
use crate::state::eras::ManifestOf;
use crate::state::open_intents::OpenIntents;
use crate::state::spilling::Spilling;
use crate::state::work_item::{cell_of_work, opened_entry, read_work, timer_key, work_item, Work};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{Failure, Outcome};

/// Default number of cells in the resting layer of one workflow; the host sets it by `keep`.
pub const RESTING_MAX: usize = 4096;

/// The format of snapshots that hold the open work of cells that only wait.
pub const WAITING_FORMAT: u64 = 2;

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
    /// The open work of a cell that waits.
    work: Option<PackedWork>,
}

/// The open work of a packed cell.
#[derive(Clone)]
struct PackedWork {
    intents: Rc<[Hash]>,
    item: WorkBytes,
}

/// The bytes of a work item, or their hash once they were spilled.
#[derive(Clone)]
pub enum WorkBytes {
    Kept(Rc<[u8]>),
    Spilled(Hash),
}

impl Packed {
    /// A cell at rest, which has a state, and its open work.
    fn of(cell: &Cell, work: &Work) -> Self {
        let work = (!work.is_empty()).then(|| PackedWork {
            intents: work.iter().map(|(intent, _)| intent.intent).collect(),
            item: WorkBytes::Kept(work_item(work).into()),
        });
        Packed {
            changed: cell.changed,
            entry: Some(entry_of(cell)),
            state: cell.state_bytes().cloned(),
            keys: pack_keys(&cell.keys).map(Into::into),
            work,
        }
    }

    /// The bytes that leave memory when this cell is spilled.
    fn blobs(&self) -> impl Iterator<Item = &Rc<[u8]>> {
        let work = self.work.as_ref().and_then(|work| match &work.item {
            WorkBytes::Kept(item) => Some(item),
            WorkBytes::Spilled(_) => None,
        });
        [self.state.as_ref(), self.keys.as_ref(), work].into_iter().flatten()
    }

    /// Bytes that spilling this cell frees; 0 if nothing is left to spill.
    fn size(&self) -> u64 {
        self.blobs().map(|data| data.len() as u64).sum()
    }

    /// The cell when its bytes are in the blob store.
    fn spilled(self) -> Packed {
        let work = self.work.map(|work| PackedWork {
            item: match work.item {
                WorkBytes::Kept(item) => WorkBytes::Spilled(content_hash(&item)),
                spilled => spilled,
            },
            ..work
        });
        Packed { state: None, keys: None, work, ..self }
    }

    /// The open intents of the cell.
    pub fn waits(&self) -> &[Hash] {
        self.work.as_ref().map_or(&[], |work| &work.intents)
    }

    /// The bytes of its open work, or their hash once they were spilled.
    pub fn work_bytes(&self) -> Option<&WorkBytes> {
        self.work.as_ref().map(|work| &work.item)
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
    /// The open work of cells that only waited when the last snapshot was taken.
    pub waiting: CellIndex,
    /// Key hashes whose entry in `waiting` is older than the base, which a migration made.
    pub ended: BTreeSet<Hash>,
    /// Number of cells that rest while they wait.
    pub resting_waiting: i128,
    /// Number of those whose module declares no terminal status.
    pub undeclared_waiting: i128,
}

impl Shelf {
    fn new(base: CellIndex) -> Self {
        Shelf {
            waiting: base.clone(),
            base,
            layers: RefCell::default(),
            count: 0,
            declared: [0, 0],
            since: 0,
            ended: BTreeSet::new(),
            resting_waiting: 0,
            undeclared_waiting: 0,
        }
    }

    /// Number of cells whose module declares no terminal status.
    pub fn undeclared(&self) -> i128 {
        self.count - self.declared.iter().sum::<i128>()
    }
}

/// The open work of cells that only wait, in a snapshot (SN-15).
pub struct WorkIndexes {
    /// For each workflow, the work of its cells by the hash of their key.
    pub waiting: BTreeMap<Rc<str>, CellIndex>,
    /// For each effect, the cells of its intents by their hash.
    pub opened: BTreeMap<Rc<str>, CellIndex>,
    /// The intents of timers by the time at which they are due.
    pub timers: CellIndex,
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
    /// Whether the base holds open work, so that a cell that only waits may rest.
    pub rests_waiting: bool,
    /// The open intents of all cells.
    pub intents: OpenIntents,
    spilling: RefCell<Spilling>,
    /// Reads index nodes, states and keys: durable ones, and those of frames on their way.
    read: BlobReader,
    /// Bounds the resting layer of each workflow. The next cells that come to rest apply a new bound.
    pub resting_max: usize,
    /// Packed cells that `tidy` has still to check since a rebase, by shelf.
    stale: Vec<(Rc<str>, IntoIter<CellId>)>,
}

impl Cells {
    pub fn new(read: BlobReader, at: u64, limits: &Limits, manifest_of: ManifestOf) -> Self {
        Cells {
            active: OrderedMap::default(),
            shelves: OrderedMap::default(),
            at,
            rests_waiting: limits.snapshot_format == WAITING_FORMAT,
            intents: OpenIntents::new(read.clone(), manifest_of),
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
            shelf.waiting = shelf.waiting.reading_with(read.clone());
        }
        self.intents.read_with(read.clone());
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

    /// Drop the leaves of all indexes that are in memory (`cell_index::keep_leaves`).
    pub fn forget_leaves(&self) {
        let shelves = self.shelves.values().flat_map(|shelf| [&shelf.base, &shelf.waiting]);
        shelves.chain(self.intents.base.values()).for_each(CellIndex::forget_leaves);
        self.intents.timers.forget_leaves();
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
        counts[CellStatus::Running as usize] = shelf.undeclared() - shelf.undeclared_waiting;
        counts[CellStatus::Waiting as usize] = shelf.undeclared_waiting;
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

    /// The cells that are not idle, by workflow and then by the hash of the key: those with work, a
    /// fault or open intents. Cells that are not in memory are decoded one by one.
    pub fn unrested(&self) -> Listing<'_> {
        let names = self.workflows().into_iter();
        Box::new(names.flat_map(|workflow| self.unrested_of(&workflow)))
    }

    /// As `unrested`, of one workflow.
    pub fn unrested_of(&self, workflow: &str) -> Listing<'_> {
        let Some((name, shelf)) = self.shelves.get_entry(workflow) else {
            return Box::new(std::iter::empty());
        };
        let mut above: BTreeMap<Hash, Above> = BTreeMap::new();
        let layers = shelf.layers.borrow();
        for (id, packed) in layers.delta.iter().filter(|(_, packed)| packed.work.is_some()) {
            above.insert(content_hash(&id.key), Above::Packed(packed.clone()));
        }
        let resting = layers.resting.values().filter(|cell| !cell.borrow().inflight.is_empty());
        for cell in resting.chain(self.active_of(workflow)) {
            above.insert(content_hash(&cell.borrow().id.key), Above::Cell(cell.clone()));
        }
        drop(layers);
        let mut above = above.into_iter().peekable();
        let mut base = shelf
            .waiting
            .items(None)
            .filter_map(move |item| self.visible(shelf, item).transpose())
            .peekable();
        Box::new(std::iter::from_fn(move || {
            let is_above = match (above.peek(), base.peek()) {
                (None, None) => return None,
                (Some((one, _)), Some(Ok((other, _)))) => one < other,
                (Some(_), None) => true,
                (_, Some(_)) => false,
            };
            if !is_above {
                return base.next().map(|item| self.waiting_in_base(name, shelf, item?));
            }
            let (_, above) = above.next()?;
            Some(match above {
                Above::Cell(cell) => Ok(cell),
                Above::Packed(packed) => self.packed_cell(name, &packed),
            })
        }))
    }

    /// An item of the base's open work, unless a layer above it decides about its cell.
    fn visible(
        &self,
        shelf: &Shelf,
        item: Outcome<(Hash, Vec<u8>)>,
    ) -> Outcome<Option<(Hash, Vec<u8>)>> {
        let (hash, work) = item?;
        let is_hidden = shelf.ended.contains(&hash) || self.is_above(shelf, &cell_of_work(&work)?);
        Ok((!is_hidden).then_some((hash, work)))
    }

    fn waiting_in_base(
        &self,
        workflow: &Rc<str>,
        shelf: &Shelf,
        (hash, work): (Hash, Vec<u8>),
    ) -> Outcome<SharedCell> {
        let Some(data) = shelf.base.get(&hash)? else {
            return Err(Failure::Damage(format!(
                "a cell of {workflow} waits, and the snapshot does not have it"
            )));
        };
        let cell = self.cell(workflow, &Entry::new(data), None)?;
        self.show_waiting(cell, Some(&work))
    }

    /// Give a copy of a cell its open intents, which are not loaded.
    fn show_waiting(&self, cell: SharedCell, work: Option<&[u8]>) -> Outcome<SharedCell> {
        if let Some(work) = work {
            let work = read_work(work, |hash| self.intents.manifest(hash))?;
            let inflight = &mut cell.borrow_mut().inflight;
            inflight.extend(work.iter().map(|(intent, _)| intent.intent));
        }
        Ok(cell)
    }

    fn packed_cell(&self, workflow: &Rc<str>, packed: &Packed) -> Outcome<SharedCell> {
        let entry = packed.entry.as_ref().expect("a tombstone is no cell");
        let cell = self.cell(workflow, entry, Some(packed))?;
        cell.borrow_mut().inflight.extend(packed.waits());
        Ok(cell)
    }

    /// The open work of a cell that is packed or in the base; empty for any other. Loads nothing.
    pub fn work_at_rest(&self, id: &CellId) -> Outcome<Work> {
        let Some(shelf) = self.shelves.get(&id.workflow) else { return Ok(Work::new()) };
        let layers = shelf.layers.borrow();
        if self.active.contains_key(id) || layers.resting.contains_key(id) {
            return Ok(Work::new());
        }
        match layers.delta.get(id) {
            Some(packed) => self.packed_work(shelf, id, packed),
            None => self.base_work(shelf, &content_hash(&id.key)),
        }
    }

    /// Whether the open work of a cell in the base is not that of the world any more.
    pub fn hides_base(&self, id: &CellId) -> bool {
        self.shelves.get(&id.workflow).is_some_and(|shelf| {
            self.is_above(shelf, id) || shelf.ended.contains(&content_hash(&id.key))
        })
    }

    fn packed_work(&self, shelf: &Shelf, id: &CellId, packed: &Packed) -> Outcome<Work> {
        let manifest = |hash: &Hash| self.intents.manifest(hash);
        match packed.work.as_ref().map(|work| &work.item) {
            None => Ok(Work::new()),
            Some(WorkBytes::Kept(item)) => read_work(item, manifest),
            // No pin keeps the blob any more, and the base has the same.
            Some(WorkBytes::Spilled(_)) if packed.changed <= self.at => {
                self.base_work(shelf, &content_hash(&id.key))
            }
            Some(WorkBytes::Spilled(hash)) => read_work(&self.read.read(hash)?, manifest),
        }
    }

    fn base_work(&self, shelf: &Shelf, key_hash: &Hash) -> Outcome<Work> {
        match shelf.ended.contains(key_hash) {
            true => Ok(Work::new()),
            false => self.stored_work(shelf, key_hash),
        }
    }

    fn stored_work(&self, shelf: &Shelf, key_hash: &Hash) -> Outcome<Work> {
        match shelf.waiting.get(key_hash)? {
            Some(work) => read_work(&work, |hash| self.intents.manifest(hash)),
            None => Ok(Work::new()),
        }
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
        let mut works = shelf.waiting.items(after_hash).peekable();
        let mut work_at = move |hash: &Hash| -> Outcome<Option<Vec<u8>>> {
            while works.next_if(|item| item.as_ref().is_ok_and(|(other, _)| other < hash)).is_some()
            {
            }
            let is_next = |item: &Outcome<(Hash, Vec<u8>)>| {
                item.as_ref().map_or(true, |(other, _)| other == hash)
            };
            match works.next_if(is_next) {
                Some(Ok((_, work))) if !shelf.ended.contains(hash) => Ok(Some(work)),
                Some(Err(failure)) => Err(failure),
                _ => Ok(None),
            }
        };
        Box::new(std::iter::from_fn(move || loop {
            let is_above = match (above.peek(), base.peek()) {
                (None, None) => return None,
                (Some((one, _)), Some(Ok((other, _)))) => one < other,
                (Some(_), None) => true,
                (_, Some(_)) => false,
            };
            if !is_above {
                return base.next().map(|item| {
                    let (hash, data) = item?;
                    let cell = self.cell(name, &Entry::new(data), None)?;
                    self.show_waiting(cell, work_at(&hash)?.as_deref())
                });
            }
            match above.next() {
                Some((_, Above::Cell(cell))) => return Some(Ok(cell)),
                Some((_, Above::Packed(packed))) => {
                    if packed.entry.is_some() {
                        return Some(self.packed_cell(name, &packed));
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
                packed.entry.as_ref()?;
                Some(self.packed_cell(name, &packed))
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
            let cell = cell.borrow();
            visit(id, &Packed::of(&cell, &self.intents.loaded_work(&cell)));
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
        let (cell, work) = match layers.delta.get(id) {
            Some(packed) => {
                let Some(entry) = &packed.entry else { return Ok(None) };
                let cell = self.cell(&id.workflow, entry, Some(packed))?;
                let work = self.packed_work(shelf, id, packed)?;
                self.drop_packed(&mut layers, id);
                (cell, work)
            }
            None => {
                let key_hash = content_hash(&id.key);
                let Some(data) = shelf.base.get(&key_hash)? else { return Ok(None) };
                let cell = self.cell(&id.workflow, &Entry::new(data), None)?;
                (cell, self.base_work(shelf, &key_hash)?)
            }
        };
        self.intents.load(&mut cell.borrow_mut(), work);
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
    pub fn wake(&mut self, cell: &SharedCell, seq: u64) -> Outcome<()> {
        let (id, is_waiting, is_undeclared) = {
            let mut cell = cell.borrow_mut();
            cell.changed = seq;
            if self.active.contains_key(&cell.id) {
                return Ok(());
            }
            (cell.id.clone(), !cell.inflight.is_empty(), cell.declared.is_none())
        };
        if is_waiting {
            let shelf = self.shelf_of(&id.workflow);
            let resting = shelf.layers.borrow().resting.get(&id).cloned();
            if !resting.is_some_and(|resting| Rc::ptr_eq(&resting, cell)) {
                // It has left memory meanwhile.
                let work = self.work_at_rest(&id)?;
                self.intents.load(&mut cell.borrow_mut(), work);
            }
            let shelf = self.shelves.get_mut(&id.workflow).expect("a cell has a shelf");
            shelf.resting_waiting -= 1;
            shelf.undeclared_waiting -= i128::from(is_undeclared);
        }
        let mut layers = self.shelf_of(&id.workflow).layers.borrow_mut();
        layers.resting.remove(&id);
        self.drop_packed(&mut layers, &id);
        drop(layers);
        self.active.insert(id, cell.clone());
        Ok(())
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

    /// End a change of `cell`. A cell that has work stays active. An idle one, and one that only
    /// waits, moves to the resting layer or, if it has no state, is deleted.
    pub fn put_to_rest(&mut self, cell: &SharedCell) {
        let borrowed = cell.borrow();
        let is_waiting = self.rests_waiting && self.may_wait(&borrowed);
        if !(is_waiting || borrowed.is_at_rest()) || self.active.remove(&borrowed.id).is_none() {
            return;
        }
        if is_waiting {
            let shelf = self.shelves.get_mut(&borrowed.id.workflow).expect("a cell has a shelf");
            shelf.resting_waiting += 1;
            shelf.undeclared_waiting += i128::from(borrowed.declared.is_none());
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

    /// Whether the cell only waits, and its open intents have neither streams nor halts: those
    /// change without the cell (SN-14).
    pub fn may_wait(&self, cell: &Cell) -> bool {
        cell.only_waits() && !cell.inflight.iter().any(|intent| self.intents.is_unrested(intent))
    }

    /// How many cells of a workflow only wait and declare no terminal status.
    pub fn undeclared_waiting(&self, workflow: &str) -> i128 {
        let active = self.active_of(workflow).filter(|cell| {
            let cell = cell.borrow();
            cell.declared.is_none() && self.may_wait(&cell)
        });
        active.count() as i128 + self.shelf_of(workflow).undeclared_waiting
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
            let changed = cell.changed;
            let tombstone = Packed { changed, entry: None, state: None, keys: None, work: None };
            shelf.layers.get_mut().delta.insert(cell.id.clone(), tombstone);
        }
    }

    fn pack_oldest(&self, layers: &mut Layers) {
        let Some((id, cell)) = layers.resting.pop_first() else { return };
        let cell = cell.borrow();
        let work = self.intents.unload(&cell);
        if cell.changed <= self.at {
            return;
        }
        let packed = Packed::of(&cell, &work);
        let mut places = self.intents.packed.borrow_mut();
        places.extend(packed.waits().iter().map(|intent| (*intent, id.clone())));
        self.spilling.borrow_mut().add(&id, packed.size());
        layers.delta.insert(id, packed);
    }

    fn drop_packed(&self, layers: &mut Layers, id: &CellId) {
        if let Some(packed) = layers.delta.remove(id) {
            self.spilling.borrow_mut().drop(id);
            self.forget_places(&packed);
        }
    }

    fn forget_places(&self, packed: &Packed) {
        let mut places = self.intents.packed.borrow_mut();
        for intent in packed.waits() {
            places.remove(intent);
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
        let places = self.intents.packed.get_mut();
        let mut blobs = Vec::new();
        for id in spilling.take() {
            let shelf = self.shelves.get_mut(&id.workflow).expect("a packed cell has a shelf");
            let delta = &mut shelf.layers.get_mut().delta;
            let packed = delta.remove(&id).expect("a counted cell is in the delta");
            if packed.changed <= self.at {
                // The base has it.
                packed.waits().iter().for_each(|intent| drop(places.remove(intent)));
                continue;
            }
            for data in packed.blobs() {
                let hash = content_hash(data);
                spilling.pins.add(hash, packed.changed);
                blobs.push((hash, data.clone()));
            }
            delta.insert(id, packed.spilled());
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
        let awake = self.awake(workflow)?;
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
        // A snapshot in progress may have the work of cells that do not wait any more.
        let is_on = self.spilling.get_mut().is_on;
        let shelf = self.shelf(workflow);
        shelf.base = index;
        shelf.since = seq;
        let layers = shelf.layers.get_mut();
        if shelf.waiting.count() > 0 || is_on {
            let above = layers.resting.keys().chain(layers.delta.keys());
            shelf.ended.extend(above.map(|id| content_hash(&id.key)));
        }
        layers.resting.clear();
        let dropped = std::mem::take(&mut layers.delta);
        for (id, packed) in dropped.iter() {
            self.spilling.get_mut().drop(id);
            self.forget_places(packed);
        }
        for cell in &awake {
            self.put_to_rest(cell);
        }
        Ok(())
    }

    /// Make the cells active that wait in the layers above the base; return them.
    fn awake(&mut self, workflow: &Rc<str>) -> Outcome<Vec<SharedCell>> {
        let ids: Vec<CellId> = {
            let layers = self.shelf(workflow).layers.get_mut();
            let packed = layers.delta.iter().filter(|(_, packed)| packed.work.is_some());
            let resting =
                layers.resting.iter().filter(|(_, cell)| !cell.borrow().inflight.is_empty());
            packed.map(|(id, _)| id.clone()).chain(resting.map(|(id, _)| id.clone())).collect()
        };
        let mut cells = Vec::new();
        for id in ids {
            if let Some(cell) = self.get(&id)? {
                let changed = cell.borrow().changed;
                self.wake(&cell, changed)?;
                cells.push(cell);
            }
        }
        Ok(cells)
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

    /// Build the maps of the open work of all cells that only wait, for a snapshot of format 2.
    /// Otherwise as `indexed`.
    pub fn indexed_work(&self, put: Put) -> Outcome<WorkIndexes> {
        let mut changes = WorkChanges::default();
        let mut waiting = BTreeMap::new();
        for name in self.workflows() {
            let shelf = self.shelf_of(&name);
            let ended = shelf.ended.iter().map(|key_hash| (*key_hash, Work::new()));
            let mut changed: BTreeMap<Hash, Work> = ended.collect();
            changed.extend(self.changed_work(&name, shelf)?);
            for (key_hash, work) in changed {
                let old = self.stored_work(shelf, &key_hash)?;
                changes.change(key_hash, &old, &work, &self.read)?;
            }
            let cells = std::mem::take(&mut changes.cells);
            let index = match cells.is_empty() {
                true => shelf.waiting.clone(),
                false => shelf.waiting.updated(cells, put)?,
            };
            if index.count() > 0 {
                waiting.insert(name, index);
            }
        }
        let mut opened = self.intents.base.clone();
        for (effect, entries) in changes.opened {
            let index = opened.remove(&effect);
            let index = index.unwrap_or_else(|| CellIndex::empty(self.read.clone()));
            let index = index.updated(entries.into_iter().collect(), put)?;
            opened.insert(effect, index);
        }
        opened.retain(|_, index| index.count() > 0);
        let timers = match changes.timers.is_empty() {
            true => self.intents.timers.clone(),
            false => self.intents.timers.updated(changes.timers.into_iter().collect(), put)?,
        };
        Ok(WorkIndexes { waiting, opened, timers })
    }

    /// The open work of each cell whose entry in `waiting` may have changed.
    fn changed_work(&self, workflow: &str, shelf: &Shelf) -> Outcome<Vec<(Hash, Work)>> {
        let mut changed = Vec::new();
        let layers = shelf.layers.borrow();
        for (id, packed) in layers.delta.iter().filter(|(_, packed)| packed.changed > self.at) {
            changed.push((content_hash(&id.key), self.packed_work(shelf, id, packed)?));
        }
        let attempts = self.intents.attempts.borrow();
        for cell in layers.resting.values().chain(self.active_of(workflow)) {
            let cell = cell.borrow();
            if cell.changed <= self.at && self.rests_waiting {
                continue;
            }
            let work = match self.may_wait(&cell) {
                true => cell
                    .inflight
                    .iter()
                    .filter_map(|intent| {
                        Some((self.intents.loaded(intent)?, attempts.get(intent).copied()))
                    })
                    .collect(),
                false => Work::new(),
            };
            changed.push((content_hash(&cell.id.key), work));
        }
        Ok(changed)
    }

    /// Make the maps of a snapshot the base, after `rebase`; None for one of format 1, before which no
    /// cell may wait at rest (`wake_waiting`).
    pub fn rebase_work(&mut self, work: Option<&WorkIndexes>) {
        let (at, empty) = (self.at, CellIndex::empty(self.read.clone()));
        for name in self.workflows() {
            let shelf = self.shelf(&name);
            let index = work.and_then(|work| work.waiting.get(&name));
            shelf.waiting = index.unwrap_or(&empty).clone();
            if shelf.since <= at || work.is_none() {
                shelf.ended.clear();
            }
        }
        match work {
            None => self.intents.rebase(BTreeMap::new(), empty),
            Some(work) => self.intents.rebase(work.opened.clone(), work.timers.clone()),
        }
        if work.is_some() && !self.rests_waiting {
            self.rests_waiting = true;
            let active: Vec<SharedCell> = self.active.values().cloned().collect();
            active.iter().for_each(|cell| self.put_to_rest(cell));
        }
        self.rests_waiting = work.is_some();
    }

    /// Make all cells active that wait at rest, before a `rebase` whose base does not hold their work.
    pub fn wake_waiting(&mut self) -> Outcome<()> {
        let mut ids = Vec::new();
        for cell in self.unrested() {
            let id = cell?.borrow().id.clone();
            if !self.active.contains_key(&id) {
                ids.push(id);
            }
        }
        for id in ids {
            if let Some(cell) = self.get(&id)? {
                let changed = cell.borrow().changed;
                self.wake(&cell, changed)?;
            }
        }
        Ok(())
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
                    if let Some(packed) = delta.remove(&id) {
                        let places = self.intents.packed.get_mut();
                        packed.waits().iter().for_each(|intent| drop(places.remove(intent)));
                    }
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

/// Changes of the maps of open work; None deletes an entry.
#[derive(Default)]
struct WorkChanges {
    cells: Vec<(Hash, Option<Vec<u8>>)>,
    opened: BTreeMap<Rc<str>, BTreeMap<Hash, Option<Vec<u8>>>>,
    timers: BTreeMap<Hash, Option<Vec<u8>>>,
}

impl WorkChanges {
    /// The open work of a cell was `old` and is `new`; empty for a cell that does not wait.
    fn change(&mut self, key: Hash, old: &Work, new: &Work, read: &BlobReader) -> Outcome<()> {
        let shown = |work: &Work| -> Vec<(Hash, Option<u64>)> {
            work.iter().map(|(intent, attempt)| (intent.intent, *attempt)).collect()
        };
        if shown(old) == shown(new) {
            return Ok(());
        }
        self.cells.push((key, (!new.is_empty()).then(|| work_item(new))));
        for (work, is_new) in [(old, false), (new, true)] {
            for (intent, _) in work {
                let opened = self.opened.entry(intent.effect.name.clone()).or_default();
                opened.insert(intent.intent, is_new.then(|| opened_entry(intent)));
                if let Some(due) = timer_key(intent, read)? {
                    self.timers.insert(due, is_new.then(|| intent.intent.to_vec()));
                }
            }
        }
        Ok(())
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
