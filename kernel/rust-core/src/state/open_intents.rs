//! The open intents of a world, over the layers of its cells
//! (`kernel/aos/core/state/open_intents.py`; spec/state.md, SN-14).
//!
//! - loaded: those of cells that are in memory
//! - packed: those of packed cells: of each only its cell
//! - base: those of all other cells that only wait: the maps of the last snapshot
//!
//! An intent leaves memory with its cell and comes back with it. So whether one is open is decided
//! by its cell: `packed` and `base` only say where to look. Nothing else depends on the layers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::journal::ports::BlobReader;
use crate::journal::records::CellId;
use crate::manifest::builtins::TIMER;
use crate::manifest::effective::Effective;
use crate::state::cell::{Cell, OpenIntent};
use crate::state::cell_index::CellIndex;
use crate::state::cells::Cells;
use crate::state::eras::{ManifestOf, KEPT_MAX};
use crate::state::state::{Halt, StreamState};
use crate::state::timer_order::TimerOrder;
use crate::state::work_item::{read_opened, timer_key, Work};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// The intents of all cells. `Cells` loads and unloads them.
pub struct OpenIntents {
    read: BlobReader,
    manifest_of: ManifestOf,
    /// Some manifests that were in force, decoded.
    manifests: RefCell<OrderedMap<Hash, Rc<Effective>>>,
    pub loaded: RefCell<SeededMap<Hash, Rc<OpenIntent>>>,
    pub packed: RefCell<SeededMap<Hash, CellId>>,
    /// For each effect, the intents of waiting cells in the last snapshot.
    pub base: BTreeMap<Rc<str>, CellIndex>,
    /// The timers among them, by the time at which they are due.
    pub timers: CellIndex,
    /// All timers that are loaded or packed.
    order: RefCell<TimerOrder>,
    /// Number of all open intents.
    pub count: u64,
    /// For each effect, the number of its open intents.
    pub counts: BTreeMap<Rc<str>, u64>,
    /// The last journaled attempt of each loaded or abandoned intent that has one.
    pub attempts: RefCell<SeededMap<Hash, u64>>,
    pub halts: SeededMap<Hash, Halt>,
    pub streams: SeededMap<Hash, StreamState>,
}

impl OpenIntents {
    pub fn new(read: BlobReader, manifest_of: ManifestOf) -> Self {
        OpenIntents {
            timers: CellIndex::empty(read.clone()),
            read,
            manifest_of,
            manifests: RefCell::default(),
            loaded: RefCell::default(),
            packed: RefCell::default(),
            base: BTreeMap::new(),
            order: RefCell::default(),
            count: 0,
            counts: BTreeMap::new(),
            attempts: RefCell::default(),
            halts: SeededMap::default(),
            streams: SeededMap::default(),
        }
    }

    /// Read all blobs with `read` from now on.
    pub fn read_with(&mut self, read: BlobReader) {
        self.read = read;
        let (base, timers) = (std::mem::take(&mut self.base), self.timers.clone());
        self.rebase(base, timers);
    }

    /// Use the maps of another snapshot.
    pub fn rebase(&mut self, base: BTreeMap<Rc<str>, CellIndex>, timers: CellIndex) {
        let read = &self.read;
        let reading = |(effect, index): (Rc<str>, CellIndex)| {
            let index = index.reading_with(read.clone());
            (effect, index)
        };
        self.base = base.into_iter().map(reading).collect();
        self.timers = timers.reading_with(read.clone());
        let mut order = self.order.borrow_mut();
        order.keep(|timer| self.is_above(timer));
    }

    /// Whether an intent is of a cell in a layer above the base.
    fn is_above(&self, intent: &Hash) -> bool {
        self.loaded.borrow().contains_key(intent) || self.packed.borrow().contains_key(intent)
    }

    /// A manifest that was in force. Damage if it cannot be read.
    pub fn manifest(&self, hash: &Hash) -> Outcome<Rc<Effective>> {
        let kept = self.manifests.borrow().get(hash).cloned();
        if let Some(effective) = kept {
            return Ok(effective);
        }
        let effective = (self.manifest_of)(&self.read.read(hash)?)?;
        self.keep(*hash, effective.clone());
        Ok(effective)
    }

    /// Keep a manifest decoded, until it is the oldest of too many.
    pub fn keep(&self, hash: Hash, effective: Rc<Effective>) {
        let mut manifests = self.manifests.borrow_mut();
        manifests.insert(hash, effective);
        if manifests.len() > KEPT_MAX {
            manifests.pop_first();
        }
    }

    /// A loaded intent.
    pub fn loaded(&self, intent: &Hash) -> Option<Rc<OpenIntent>> {
        self.loaded.borrow().get(intent).cloned()
    }

    /// Whether an intent has a stream or a halt: those change without its cell.
    pub fn is_unrested(&self, intent: &Hash) -> bool {
        self.halts.contains_key(intent) || self.streams.contains_key(intent)
    }

    /// Add an intent that a step opened.
    pub fn open(&mut self, intent: Rc<OpenIntent>) {
        if is_timer(&intent) {
            self.order.get_mut().add(intent.intent);
        }
        let effect = intent.effect.name.clone();
        if self.loaded.get_mut().insert(intent.intent, intent).is_none() {
            self.count += 1;
            *self.counts.entry(effect).or_default() += 1;
        }
    }

    /// The cell that an intent was of when its cell left memory last.
    fn cell_of(&self, intent: &Hash) -> Outcome<Option<CellId>> {
        if let Some(id) = self.packed.borrow().get(intent) {
            return Ok(Some(id.clone()));
        }
        for index in self.base.values() {
            if let Some(entry) = index.get(intent)? {
                return Ok(Some(read_opened(&entry)?.0));
            }
        }
        Ok(None)
    }

    /// A cell comes into memory with its open work.
    pub fn load(&self, cell: &mut Cell, work: Work) {
        let mut loaded = self.loaded.borrow_mut();
        let mut attempts = self.attempts.borrow_mut();
        let mut order = self.order.borrow_mut();
        for (intent, attempt) in work {
            if is_timer(&intent) {
                order.add(intent.intent);
            }
            if !cell.inflight.contains(&intent.intent) {
                cell.inflight.push_back(intent.intent);
            }
            if let Some(attempt) = attempt {
                attempts.insert(intent.intent, attempt);
            }
            loaded.insert(intent.intent, intent);
        }
    }

    /// The open work of a cell that is in memory.
    pub fn loaded_work(&self, cell: &Cell) -> Work {
        let (loaded, attempts) = (self.loaded.borrow(), self.attempts.borrow());
        let intents = cell.inflight.iter().filter_map(|intent| loaded.get(intent));
        intents.map(|intent| (intent.clone(), attempts.get(&intent.intent).copied())).collect()
    }

    /// The intents of a cell leave memory with it.
    pub fn unload(&self, cell: &Cell) -> Work {
        let mut loaded = self.loaded.borrow_mut();
        let mut attempts = self.attempts.borrow_mut();
        cell.inflight
            .iter()
            .filter_map(|intent| Some((loaded.remove(intent)?, attempts.remove(intent))))
            .collect()
    }
}

/// Open intents by hash, in the order of opening: by record, then by index. Reading one loads its
/// cell, unless it is read by an iteration. Damage if a part of the snapshot cannot be read.
impl Cells {
    pub fn open_intent(&self, intent: &Hash) -> Outcome<Option<Rc<OpenIntent>>> {
        let loaded = self.intents.loaded(intent);
        if loaded.is_some() {
            return Ok(loaded);
        }
        match self.intents.cell_of(intent)? {
            Some(id) if self.get(&id)?.is_some() => Ok(self.intents.loaded(intent)),
            _ => Ok(None),
        }
    }

    pub fn is_open(&self, intent: &Hash) -> Outcome<bool> {
        Ok(self.open_intent(intent)?.is_some())
    }

    /// Take an intent that ends. Python: `pop`.
    pub fn end_intent(&mut self, intent: &Hash) -> Outcome<Option<Rc<OpenIntent>>> {
        if !self.is_open(intent)? {
            return Ok(None);
        }
        self.intents.count -= 1;
        self.intents.order.get_mut().remove(intent);
        let ended = self.intents.loaded.get_mut().remove(intent);
        if let Some(ended) = &ended {
            let count = self.intents.counts.get_mut(&ended.effect.name);
            *count.expect("an open intent is counted") -= 1;
        }
        Ok(ended)
    }

    /// All open intents in the order of opening, `but` those of one effect: each a hash, and its cell
    /// where it is not loaded.
    pub fn opened(&self, but: Option<&str>) -> Outcome<Vec<Opened>> {
        let intents = &self.intents;
        let is_listed = |intent: &OpenIntent| but != Some(&*intent.effect.name);
        let loaded = intents.loaded.borrow();
        let listed = loaded.values().filter(|intent| is_listed(intent));
        let mut opened: Vec<Opened> = listed.map(|intent| Opened::loaded(intent)).collect();
        drop(loaded);
        let mut ids: Vec<CellId> = intents.packed.borrow().values().cloned().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            for (intent, _) in self.work_at_rest(&id)? {
                if is_listed(&intent) {
                    opened.push(Opened { cell: Some(id.clone()), ..Opened::loaded(&intent) });
                }
            }
        }
        let listed = intents.base.iter().filter(|(effect, _)| but != Some(&***effect));
        for (_, index) in listed {
            for item in index.items(None) {
                let (intent, entry) = item?;
                let (id, seq, place) = read_opened(&entry)?;
                if !self.hides_base(&id) {
                    opened.push(Opened { seq, place, intent, cell: Some(id) });
                }
            }
        }
        opened.sort_unstable_by_key(|opened| (opened.seq, opened.place, opened.intent));
        Ok(opened)
    }

    /// An open intent with its last journaled attempt. Loads nothing.
    pub fn peek(&self, opened: &Opened) -> Outcome<(Rc<OpenIntent>, Option<u64>)> {
        if let Some(intent) = self.intents.loaded(&opened.intent) {
            let attempt = self.intents.attempts.borrow().get(&opened.intent).copied();
            return Ok((intent, attempt));
        }
        let work = match &opened.cell {
            Some(id) => self.work_at_rest(id)?,
            None => match self.intents.cell_of(&opened.intent)? {
                Some(id) => self.work_at_rest(&id)?,
                None => Work::new(),
            },
        };
        let found = work.into_iter().find(|(intent, _)| intent.intent == opened.intent);
        found.ok_or_else(|| {
            Failure::damage("an intent of the snapshot is open, and its cell does not wait for it")
        })
    }

    /// All open intents in the order of opening, each with its last journaled attempt. Decodes those
    /// that are not loaded one by one, and keeps none.
    pub fn each_intent(
        &self,
    ) -> Outcome<impl Iterator<Item = Outcome<(Rc<OpenIntent>, Option<u64>)>> + '_> {
        Ok(self.opened(None)?.into_iter().map(|opened| self.peek(&opened)))
    }

    /// The first `count` open timers whose key in the map is greater than `after`, by that key, each
    /// with its last journaled attempt (SN-16). Loads nothing.
    pub fn timers_after(&self, after: Option<&Hash>, count: usize) -> Outcome<Vec<Timer>> {
        let intents = &self.intents;
        let is_above = |timer: &Hash| intents.is_above(timer);
        let mut order = intents.order.borrow_mut();
        order.place(is_above, |timer| self.timer_key(timer))?;
        let mut above = order.after(after, is_above).peekable();
        let mut base = intents.timers.items(after.copied());
        let mut first_of_base = self.next_of_base(&mut base)?;
        let mut timers = Vec::new();
        while timers.len() < count {
            let is_of_base = match (above.peek(), &first_of_base) {
                (None, None) => break,
                (Some((key, _)), Some((base_key, _))) => base_key < key,
                (_, first) => first.is_some(),
            };
            let (key, opened) = if is_of_base {
                let first = first_of_base.take().expect("it was looked at");
                first_of_base = self.next_of_base(&mut base)?;
                first
            } else {
                let (key, intent) = above.next().expect("it was looked at");
                (key, Opened { seq: 0, place: 0, intent, cell: None })
            };
            let (intent, attempt) = self.peek(&opened)?;
            timers.push(Timer { key, intent, attempt });
        }
        Ok(timers)
    }

    fn timer_key(&self, timer: &Hash) -> Outcome<Hash> {
        let opened = Opened { seq: 0, place: 0, intent: *timer, cell: None };
        let key = timer_key(&self.peek(&opened)?.0, &self.intents.read)?;
        Ok(key.expect("a timer above the base is open, and has a key"))
    }

    /// The next timer of the base whose cell is in no layer above it, after its key.
    fn next_of_base(
        &self,
        base: &mut impl Iterator<Item = Outcome<(Hash, Vec<u8>)>>,
    ) -> Outcome<Option<(Hash, Opened)>> {
        let none = || Failure::damage("a timer of the snapshot is none of its open intents");
        for item in base {
            let (key, entry) = item?;
            let intent: Hash = (*entry).try_into().map_err(|_| none())?;
            let entry = match self.intents.base.get(TIMER) {
                Some(index) => index.get(&intent)?,
                None => None,
            };
            let (id, seq, place) = read_opened(&entry.ok_or_else(none)?)?;
            if !self.hides_base(&id) {
                return Ok(Some((key, Opened { seq, place, intent, cell: Some(id) })));
            }
        }
        Ok(None)
    }

    /// The open intents of a cell, in the order of opening. Loads nothing.
    pub fn intents_of(&self, cell: &Cell) -> Outcome<Vec<Rc<OpenIntent>>> {
        let loaded = cell.inflight.iter().map(|intent| self.intents.loaded(intent));
        match loaded.collect() {
            Some(intents) => Ok(intents),
            None => {
                let work = self.work_at_rest(&cell.id)?;
                Ok(work.into_iter().map(|(intent, _)| intent).collect())
            }
        }
    }
}

fn is_timer(intent: &OpenIntent) -> bool {
    &*intent.effect.name == TIMER
}

/// An open timer with its last journaled attempt, and its key in the map of timers.
pub struct Timer {
    pub key: Hash,
    pub intent: Rc<OpenIntent>,
    pub attempt: Option<u64>,
}

/// The place of an intent in the order of opening.
#[derive(Clone, Debug)]
pub struct Opened {
    pub seq: u64,
    pub place: u64,
    pub intent: Hash,
    /// Its cell, if that is not in memory.
    pub cell: Option<CellId>,
}

impl Opened {
    fn loaded(intent: &OpenIntent) -> Self {
        Opened { seq: intent.seq, place: intent.index, intent: intent.intent, cell: None }
    }
}
