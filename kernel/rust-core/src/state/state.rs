//! The state of a world at one point of its journal. Only `fold` changes it
//! (`kernel/aos/core/state/state.py`; spec/kernel.md).

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::journal::frame::Tip;
use crate::journal::ports::{BlobReader, Find};
use crate::journal::records::{CellId, Principal, Slot};
use crate::journal::vocabulary::{words, HaltPhase, SettledStatus, Word};
use crate::limits::Limits;
use crate::manifest::effective::{Delivery, Effective};
use crate::state::cell::{OpenIntent, Root};
use crate::state::cells::Cells;
use crate::state::eras::{Eras, ManifestOf};
use crate::state::proposals::Proposals;
use crate::state::submissions::Submissions;
use crate::values::digests::Hash;

words! {
    /// Why the core owes a receipt (K-80): the intent requests one of the core's own effects, an
    /// operator canceled it, it may run only once and it is unknown how that run ended, or an
    /// operator settled it.
    Debt { Answer = "answer", Cancel = "cancel", Loss = "loss", Settle = "settle" }
}

/// The status and the payload with which an operator settled an intent (K-108).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub status: SettledStatus,
    pub payload: Slot,
}

/// A receipt that the core itself is about to make.
///
/// `canceled` counts the intents that this one, a cancel effect, has ended so far. `settlement` is
/// present exactly if an operator settled it.
#[derive(Clone, Debug)]
pub struct Owed {
    pub intent: Hash,
    pub debt: Debt,
    pub root: Rc<Root>,
    pub depth: u64,
    pub problem: Option<Rc<str>>,
    pub canceled: u64,
    pub settlement: Option<Settlement>,
}

impl Owed {
    pub fn new(intent: Hash, debt: Debt, root: Rc<Root>, depth: u64) -> Self {
        Owed { intent, debt, root, depth, problem: None, canceled: 0, settlement: None }
    }
}

/// The progress of an intent's stream: the number of the last frame, the count of all frames, and
/// the count of frames in the second of journal time that began at `since_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub last: u64,
    pub frames: u64,
    pub since_ns: u64,
    pub recent: u64,
}

/// Why an open intent does not run: record `seq` held or parked `attempt` (K-99). `since_ns` is the
/// journal clock at that record. `code` and `problem` are the record's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    pub phase: HaltPhase,
    pub attempt: u64,
    pub seq: u64,
    pub since_ns: u64,
    pub code: Rc<str>,
    pub problem: Option<Rc<str>>,
}

/// A journaled snapshot: the record that announces it, the record `at` that ends the frame after
/// which it was taken, and the content hash of its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    pub at: u64,
    pub document: Hash,
}

/// A world from which this one was forked, and the last record that it has from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub world: Hash,
    pub at: u64,
}

/// The whole world.
///
/// `clock_ns` is the journal clock (K-4), `window_ns` the window time, by which submission ids are
/// forgotten (K-12a).
///
/// `intents` are the open intents in the order of opening; `abandoned` those whose receipts no cell
/// waits for. `owed` are receipts that the core makes itself before the ring continues. `attempts`
/// has the last journaled attempt of each intent that is open or abandoned, `halts` the last reason
/// why an open intent did not run, also if it has run again since (see `halt`), `streams` the
/// progress of each open intent's stream. `serial` counts manifest records, `controls` control
/// records. `revoked` are all keys that a manifest of this world ever revoked, `pinned` the hashes
/// of all its manifests and their modules, `snapshot` the last journaled one. `eras` are the
/// manifests that instances may still run under; the last is the one in force. `ancestors` are the
/// worlds from which this one was forked, the nearest last. `limits` are in no journal.
pub struct State {
    pub tip: Tip,
    pub limits: Limits,
    pub clock_ns: u64,
    pub window_ns: u64,
    pub next_seq: u64,
    pub world_key: Rc<[u8]>,
    pub operators: Vec<Principal>,
    pub semantics: u64,
    pub serial: u64,
    pub controls: u64,
    pub revoked: BTreeSet<Vec<u8>>,
    pub pinned: BTreeSet<Hash>,
    pub manifest: Option<Rc<Effective>>,
    pub manifest_seq: u64,
    pub eras: Eras,
    pub snapshot: Option<Mark>,
    pub ancestors: Vec<Ancestor>,
    pub cells: Cells,
    pub ring: VecDeque<CellId>,
    pub owed: VecDeque<Owed>,
    pub abandoned: OrderedMap<Hash, Rc<OpenIntent>>,
    pub submissions: RefCell<Submissions>,
    pub world_keys: OrderedMap<Rc<str>, Hash>,
    pub proposals: Proposals,
}

/// The current attempt of an intent for which the journal has none: 0 if the first must be
/// journaled.
pub fn first_attempt(intent: &OpenIntent) -> u64 {
    match intent.effect.delivery {
        Delivery::AtMostOnce => 0,
        Delivery::AtLeastOnce => 1,
    }
}

impl State {
    /// The state before a world's genesis. Its layers read blobs with `read`; `find` returns the
    /// record of a submission id. Python: `empty`.
    pub fn empty(
        tip: Tip,
        read: &BlobReader,
        find: Option<Rc<dyn Find>>,
        limits: Limits,
        manifest_of: ManifestOf,
    ) -> Self {
        State {
            tip,
            limits,
            clock_ns: 0,
            window_ns: 0,
            next_seq: 1,
            world_key: Rc::from([]),
            operators: Vec::new(),
            semantics: 0,
            serial: 0,
            controls: 0,
            revoked: BTreeSet::new(),
            pinned: BTreeSet::new(),
            manifest: None,
            manifest_seq: 0,
            eras: Eras::new(Vec::new(), None, manifest_of.clone()),
            snapshot: None,
            ancestors: Vec::new(),
            cells: Cells::new(read.clone(), 0, &limits, manifest_of),
            ring: VecDeque::new(),
            owed: VecDeque::new(),
            abandoned: OrderedMap::default(),
            submissions: RefCell::new(Submissions::new(Vec::new(), read.clone(), find, &limits)),
            world_keys: OrderedMap::default(),
            proposals: Proposals::default(),
        }
    }

    pub fn halts(&self) -> &SeededMap<Hash, Halt> {
        &self.cells.intents.halts
    }

    pub fn streams(&self) -> &SeededMap<Hash, StreamState> {
        &self.cells.intents.streams
    }

    /// The current attempt of a loaded or abandoned intent; 0 if its first must still be journaled.
    pub fn attempt(&self, intent: &OpenIntent) -> u64 {
        let last = self.cells.intents.attempts.borrow().get(&intent.intent).copied();
        last.unwrap_or_else(|| first_attempt(intent))
    }

    /// Why an open intent is held or parked; None if it is not, or if a later attempt has begun.
    pub fn halt(&self, intent: &OpenIntent) -> Option<&Halt> {
        self.halts().get(&intent.intent).filter(|halt| halt.attempt >= self.attempt(intent))
    }

    /// Whether the intent was opened in a world from which this one was forked: executors do not
    /// run it here (K-113).
    pub fn is_inherited(&self, intent: &OpenIntent) -> bool {
        self.ancestors.last().is_some_and(|parent| intent.seq <= parent.at)
    }

    /// The window time after a record with this stamp: it grows with the journal clock, but by at
    /// most `dedup_step_ns` for one record (K-12a).
    pub fn window_at(&self, stamp_ns: u64) -> u64 {
        let ahead = stamp_ns.saturating_sub(self.clock_ns);
        let step_ns_max = self.manifest.as_ref().and_then(|manifest| manifest.limits.dedup_step_ns);
        self.window_ns.saturating_add(step_ns_max.map_or(ahead, |most| ahead.min(most)))
    }

    pub fn world(&self) -> &Hash {
        &self.tip.world
    }

    /// The manifest in force; there must be one.
    pub fn effective(&self) -> &Rc<Effective> {
        self.manifest.as_ref().expect("asked before a manifest was applied")
    }
}
