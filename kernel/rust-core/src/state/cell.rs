//! An instance of a workflow while it is in memory, with its mail and its open intents (K-60;
//! `kernel/aos/core/state/cell.py`).

use std::cell::{Cell as Changing, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::faults::Fault;
use crate::journal::records::{
    CellId, EntryId, KernelReceipt, Receipt, RequestKey, Slot, Stamp, Stream,
};
use crate::journal::vocabulary::{CellStatus, ReceiptOutcome, ReceiptStatus, TerminalStatus};
use crate::manifest::effective::{Effect, Effective, Executor};
use crate::values::digests::Hash;

/// The input that a cascade of steps comes from, and how many steps it has caused. All its mail
/// shares it. `stamp` is its own, or that of the last retry or skip that gave it another (K-101b).
#[derive(Debug)]
pub struct Root {
    pub seq: u64,
    pub stamp: Changing<Stamp>,
    pub steps: Changing<u64>,
}

impl Root {
    pub fn new(seq: u64, stamp: Stamp) -> Rc<Self> {
        Root::after(seq, stamp, 0)
    }

    /// A root that has caused `steps` steps.
    pub fn after(seq: u64, stamp: Stamp, steps: u64) -> Rc<Self> {
        Rc::new(Root { seq, stamp: Changing::new(stamp), steps: Changing::new(steps) })
    }
}

/// An effect that a step requested and no receipt has settled.
///
/// `opened_ns` is the journal clock at that step, `under` the manifest that was in force then and
/// that `effect` is from. Executors see `idempotency_key`: it is the same for every attempt, and for
/// every intent of this cell that requests the same `key`.
#[derive(Debug)]
pub struct OpenIntent {
    pub intent: Hash,
    pub cell: CellId,
    pub workflow_hash: Hash,
    pub seq: u64,
    pub index: u64,
    pub opened_ns: u64,
    pub under: Rc<Effective>,
    pub effect: Rc<Effect>,
    pub params: Slot,
    pub params_hash: Hash,
    pub key: Option<RequestKey>,
    pub idempotency_key: Rc<str>,
    pub issuer_ref: Option<Rc<str>>,
}

impl OpenIntent {
    /// The hash of the manifest under which it was opened.
    pub fn manifest(&self) -> &Hash {
        &self.under.hash
    }

    /// The executors of the manifest under which it was opened.
    pub fn executors(&self) -> Option<&OrderedMap<Rc<str>, Rc<Executor>>> {
        self.under.executors.as_ref()
    }
}

/// The record that settled an intent.
#[derive(Clone, Debug)]
pub enum Settling {
    Receipt(Rc<Receipt>),
    Kernel(Rc<KernelReceipt>),
}

impl Settling {
    pub fn seq(&self) -> u64 {
        match self {
            Settling::Receipt(record) => record.seq,
            Settling::Kernel(record) => record.seq,
        }
    }

    pub fn intent(&self) -> &Hash {
        match self {
            Settling::Receipt(record) => &record.intent,
            Settling::Kernel(record) => &record.intent,
        }
    }

    pub fn cell(&self) -> &CellId {
        match self {
            Settling::Receipt(record) => &record.cell,
            Settling::Kernel(record) => &record.cell,
        }
    }

    pub fn status(&self) -> ReceiptStatus {
        match self {
            Settling::Receipt(record) => record.status,
            Settling::Kernel(record) => record.status,
        }
    }

    pub fn payload(&self) -> &Slot {
        match self {
            Settling::Receipt(record) => &record.payload,
            Settling::Kernel(record) => &record.payload,
        }
    }

    pub fn payload_schema(&self) -> Option<&Rc<str>> {
        match self {
            Settling::Receipt(record) => record.payload_schema.as_ref(),
            Settling::Kernel(record) => record.payload_schema.as_ref(),
        }
    }

    pub fn outcome(&self) -> ReceiptOutcome {
        match self {
            Settling::Receipt(record) => record.outcome,
            Settling::Kernel(record) => record.outcome,
        }
    }

    pub fn problem(&self) -> Option<&Rc<str>> {
        match self {
            Settling::Receipt(record) => record.problem.as_ref(),
            Settling::Kernel(record) => record.problem.as_ref(),
        }
    }

    pub fn abandoned(&self) -> &[Hash] {
        match self {
            Settling::Receipt(record) => &record.abandoned,
            Settling::Kernel(record) => &record.abandoned,
        }
    }

    pub fn cost_cents(&self) -> Option<u64> {
        match self {
            Settling::Receipt(record) => record.cost_cents,
            Settling::Kernel(_) => None,
        }
    }

    /// Empty for a receipt of the core.
    pub fn signature(&self) -> &[u8] {
        match self {
            Settling::Receipt(record) => &record.signature,
            Settling::Kernel(_) => &[],
        }
    }
}

/// An entry of a mailbox. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mail {
    pub entry: EntryId,
    pub root: Rc<Root>,
    pub depth: u64,
    pub content: Content,
}

/// An entry of a mailbox: a domain event, a continuation or a stream frame. The last two come to
/// the cell that requested the effect.
#[derive(Clone, Debug)]
pub enum Content {
    Event { schema: Rc<str>, value: Slot },
    Receipt { intent: Rc<OpenIntent>, receipt: Settling },
    Stream { intent: Rc<OpenIntent>, frame: Rc<Stream> },
}

/// A cell that the layers share. No borrow of it may last over a call that changes the state.
pub type SharedCell = Rc<RefCell<Cell>>;

/// An instance of a workflow (K-60).
///
/// `declared` is the terminal status that its module last declared, `fault` the reason why the
/// kernel failed it. A faulted cell runs nothing: the entry that failed stays at the head of its
/// mailbox, and later mail queues behind it. `mail_uncounted` counts the entries that arrived when
/// the mailbox was full: only the journal holds them. `keys` are the idempotency keys of its
/// requests, each with the hash of its params, the most recent last.
///
/// `runs` is true while the kernel folds a step of the cell: the cell has left the ring, and events
/// that it sends to itself do not put it back before its turn (K-41). `changed` is the last record
/// that changed the cell; 0 if none did since the snapshot that it was read from.
///
/// `version` is the record of the manifest under which the cell came in flight; 0, or a record
/// before the oldest era, means the oldest era. `is_kept` means that the cell was done and stays
/// under that manifest, because its state does not fit the one in force (K-74, K-74a).
///
/// `stepped_under` is the record of the manifest under which a step wrote `state`, if this process
/// ran or folded that step since the cell came into memory; else 0. Nothing that is journaled
/// depends on it: it only saves reading a state that is known to be complete (K-71d).
#[derive(Clone, Debug)]
pub struct Cell {
    pub id: CellId,
    pub workflow_hash: Hash,
    pub module_hash: Hash,
    pub state: Option<Slot>,
    pub declared: Option<TerminalStatus>,
    pub fault: Option<Fault>,
    pub fault_seq: Option<u64>,
    pub last_seq: u64,
    pub last_active_ns: u64,
    pub mail_uncounted: u64,
    pub changed: u64,
    pub version: u64,
    pub is_kept: bool,
    pub stepped_under: u64,
    pub in_ring: bool,
    pub runs: bool,
    /// In the order of opening; most cells wait for few.
    pub inflight: VecDeque<Hash>,
    pub keys: OrderedMap<Rc<str>, Hash>,
    pub mailbox: VecDeque<Mail>,
}

impl Cell {
    /// A cell without a state, which nothing has reached.
    pub fn new(id: CellId, workflow_hash: Hash, module_hash: Hash) -> Self {
        Cell {
            id,
            workflow_hash,
            module_hash,
            state: None,
            declared: None,
            fault: None,
            fault_seq: None,
            last_seq: 0,
            last_active_ns: 0,
            mail_uncounted: 0,
            changed: 0,
            version: 0,
            is_kept: false,
            stepped_under: 0,
            in_ring: false,
            runs: false,
            inflight: VecDeque::new(),
            keys: OrderedMap::default(),
            mailbox: VecDeque::new(),
        }
    }

    /// The bytes of the state, if it is in memory.
    pub fn state_bytes(&self) -> Option<&Rc<[u8]>> {
        match &self.state {
            Some(Slot::Bytes(data)) => Some(data),
            _ => None,
        }
    }

    pub fn shared(self) -> SharedCell {
        Rc::new(RefCell::new(self))
    }

    pub fn status(&self) -> CellStatus {
        if self.fault.is_some() {
            return CellStatus::Failed;
        }
        match self.declared {
            Some(TerminalStatus::Completed) => CellStatus::Completed,
            Some(TerminalStatus::Failed) => CellStatus::Failed,
            None if self.inflight.is_empty() => CellStatus::Running,
            None => CellStatus::Waiting,
        }
    }

    /// Whether the cell has no work and waits for nothing, so that it may leave memory.
    pub fn is_at_rest(&self) -> bool {
        self.mailbox.is_empty()
            && self.inflight.is_empty()
            && !self.in_ring
            && !self.runs
            && self.fault.is_none()
    }

    /// Whether the cell waits for receipts and has nothing else to do.
    pub fn only_waits(&self) -> bool {
        !self.inflight.is_empty()
            && self.state.is_some()
            && self.mailbox.is_empty()
            && !self.in_ring
            && !self.runs
            && self.fault.is_none()
    }

    /// Forget an intent in flight; false if it was not.
    pub fn land(&mut self, intent: &Hash) -> bool {
        match self.inflight.iter().position(|other| other == intent) {
            Some(at) => self.inflight.remove(at).is_some(),
            None => false,
        }
    }
}
