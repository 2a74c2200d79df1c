//! The records of a journal: one struct for each kind (spec/journal.md, J-10 to J-19;
//! `kernel/aos/core/journal/records.py`).
//!
//! Fields have the names and the meaning of the reference. Texts and bytes are shared (`Rc`),
//! because the state keeps them; a record that mail keeps is shared whole. `record_codec` writes
//! and reads the bytes.

use std::rc::Rc;

use crate::journal::faults::Fault;
use crate::journal::ports::Blobs;
use crate::journal::vocabulary::{
    ApplyMode, AttemptPhase, CellStatus, ControlAction, ControlStatus, GovernanceAction, OpenWork,
    ReceiptOutcome, ReceiptStatus,
};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// A longer value is in the blob store; the record holds its hash and size.
pub const INLINE_BYTES: usize = 1024;

pub const ENTROPY_BYTES: usize = 64;

/// An instance of a workflow: `key` is the canonical CBOR of its key, empty for an unkeyed
/// workflow. It sorts by workflow, then by the bytes of the key. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellId {
    pub workflow: Rc<str>,
    pub key: Rc<[u8]>,
}

impl CellId {
    pub fn new(workflow: impl Into<Rc<str>>, key: impl Into<Rc<[u8]>>) -> Self {
        CellId { workflow: workflow.into(), key: key.into() }
    }
}

/// (sequence of the record, index of the event in it): what a mailbox holds.
pub type EntryId = (u64, u64);

/// A value kept in the blob store: content hash and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    pub hash: Hash,
    pub size: u64,
}

/// A value in a record: its bytes, or where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    Bytes(Rc<[u8]>),
    Ref(Ref),
}

impl Slot {
    /// The slot of `data`; a long value is given to `keep`.
    pub fn of(data: &[u8], keep: &mut impl FnMut(Hash, &[u8])) -> Slot {
        if data.len() <= INLINE_BYTES {
            return Slot::Bytes(data.into());
        }
        let hash = content_hash(data);
        keep(hash, data);
        Slot::Ref(Ref { hash, size: data.len() as u64 })
    }

    /// Python: `slot_bytes`.
    pub fn bytes(&self, blobs: &dyn Blobs) -> Outcome<Rc<[u8]>> {
        match self {
            Slot::Bytes(data) => Ok(data.clone()),
            Slot::Ref(reference) => Ok(blobs.read(&reference.hash)?.into()),
        }
    }

    /// The content hash of its bytes. Python: `slot_hash`.
    pub fn hash(&self) -> Hash {
        match self {
            Slot::Bytes(data) => content_hash(data),
            Slot::Ref(reference) => reference.hash,
        }
    }

    pub fn as_ref(&self) -> Option<&Ref> {
        match self {
            Slot::Ref(reference) => Some(reference),
            Slot::Bytes(_) => None,
        }
    }
}

/// The key that a module requested for an effect: text or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestKey {
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
}

/// The host adds it to an input once: its wall clock in ns and 64 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub ns: u64,
    pub entropy: [u8; ENTROPY_BYTES],
}

/// An operator named in the genesis, who may change the manifest of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: Rc<str>,
    pub key: Rc<[u8]>,
}

/// The first record of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    pub seq: u64,
    pub stamp: Stamp,
    pub nonce: Rc<[u8]>,
    pub world_key: Rc<[u8]>,
    pub operators: Vec<Principal>,
    pub semantics: u64,
    pub signature: Rc<[u8]>,
}

/// The software of a start record: names and texts, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts(pub Vec<(Rc<str>, Rc<str>)>);

/// A process began to execute steps. Its content is outside byte-identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub seq: u64,
    pub stamp: Stamp,
    pub host: HostFacts,
}

/// The cells of one workflow as a migration left them: the root of their index (K-76).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    pub workflow: Rc<str>,
    pub root: Hash,
    pub count: u64,
}

/// A manifest came into force. `document` is the effective manifest's blob; `mode` is absent if it
/// is strict (K-70 to K-76, GV-40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub seq: u64,
    pub stamp: Stamp,
    pub document: Ref,
    pub principal: Rc<str>,
    pub serial: u64,
    pub signature: Rc<[u8]>,
    pub mode: Option<ApplyMode>,
    pub leaves: Vec<Rc<str>>,
    pub migrated: Vec<Migrated>,
    pub proposal: Option<u64>,
}

/// A domain event was admitted at ingress. `kept` are the receivers that run it under their own
/// manifest (K-74a).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    pub stamp: Stamp,
    pub schema: Rc<str>,
    pub value: Slot,
    pub submission_id: Option<Rc<str>>,
    pub to: Vec<CellId>,
    pub overloaded: Vec<CellId>,
    pub kept: Vec<CellId>,
}

/// A domain event that a step emitted, and the cells that it reached. `unknown` are the cells that
/// do not exist and that the event may not create (K-42a).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub schema: Rc<str>,
    pub value: Slot,
    pub to: Vec<CellId>,
    pub overloaded: Vec<CellId>,
    pub unknown: Vec<CellId>,
    pub kept: Vec<CellId>,
}

/// An effect that a step asked for. `key` is the idempotency key that the module requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub intent: Hash,
    pub effect: Rc<str>,
    pub effect_hash: Hash,
    pub params: Slot,
    pub key: Option<RequestKey>,
    pub issuer_ref: Option<Rc<str>>,
}

/// The ring's head ran once and its whole output was taken.
///
/// `root` is the sequence of the input that caused the step, `depth` the number of emitted events
/// between. `under` is the record of the manifest that a pinned instance ran under, if that is not
/// the one in force; `fits` is then the record of the one in force, if the new state fits it (K-74).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub seq: u64,
    pub cell: CellId,
    pub entry: EntryId,
    pub root: u64,
    pub depth: u64,
    pub state: Option<Slot>,
    pub status: CellStatus,
    pub events: Vec<Emitted>,
    pub intents: Vec<Intent>,
    pub abandoned: Vec<Hash>,
    pub ann: Option<Slot>,
    pub fuel: u64,
    pub pages: u64,
    pub output: Hash,
    pub under: Option<u64>,
    pub fits: Option<u64>,
}

/// The ring's head ran once and failed: the output was dropped, the instance is failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faulted {
    pub seq: u64,
    pub cell: CellId,
    pub entry: EntryId,
    pub root: u64,
    pub depth: u64,
    pub fault: Fault,
    pub fuel: u64,
    pub pages: u64,
    pub output: Option<Hash>,
    pub under: Option<u64>,
}

/// The place of a receipt among those that were signed together: leaf `index` of `size`, and the
/// path to the signed root (J-40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub index: u64,
    pub size: u64,
    pub path: Vec<Hash>,
}

/// An executor settled an intent. With a `batch`, `signature` is over the root of a tree of
/// receipts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub seq: u64,
    pub stamp: Stamp,
    pub intent: Hash,
    pub cell: CellId,
    pub effect: Rc<str>,
    pub attempt: u64,
    pub status: ReceiptStatus,
    pub payload: Slot,
    pub payload_schema: Option<Rc<str>>,
    pub started_ns: u64,
    pub finished_ns: u64,
    pub cost_cents: Option<u64>,
    pub executor: Rc<str>,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
    pub outcome: ReceiptOutcome,
    pub problem: Option<Rc<str>>,
    pub abandoned: Vec<Hash>,
    pub batch: Option<Batch>,
}

/// The core itself settled an intent: it answered its own effect, or ended another's as canceled or
/// lost (K-80 to K-86). It has no signature: replay computes it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelReceipt {
    pub seq: u64,
    pub intent: Hash,
    pub cell: CellId,
    pub effect: Rc<str>,
    pub status: ReceiptStatus,
    pub payload: Slot,
    pub payload_schema: Option<Rc<str>>,
    pub root: u64,
    pub depth: u64,
    pub by: Option<Hash>,
    pub outcome: ReceiptOutcome,
    pub problem: Option<Rc<str>>,
    pub abandoned: Vec<Hash>,
}

/// An executor reported the progress of an open intent to its origin cell (K-90 to K-94).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub seq: u64,
    pub stamp: Stamp,
    pub intent: Hash,
    pub cell: CellId,
    pub effect: Rc<str>,
    pub attempt: u64,
    pub frame_seq: u64,
    pub frame_kind: Rc<str>,
    pub payload: Slot,
    pub payload_ref: Option<Hash>,
    pub executor: Rc<str>,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
}

/// The host is about to run an intent for the `attempt`-th time, cannot know how that attempt ended
/// (K-95 to K-98), or does not run the intent now (K-99).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub seq: u64,
    pub stamp: Stamp,
    pub intent: Hash,
    pub cell: CellId,
    pub attempt: u64,
    pub phase: AttemptPhase,
    pub problem: Option<Rc<str>>,
    pub code: Option<Rc<str>>,
}

/// `document` is a snapshot of the world after record `at`, the last record of the frame with the
/// hash `frame` (SN-1 to SN-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub seq: u64,
    pub stamp: Stamp,
    pub at: u64,
    pub frame: Hash,
    pub document: Ref,
}

/// An operator's command (K-100 to K-109b). With `restamp`, `retry` and `skip` give their stamp to
/// the mail of the cell; those of older releases lack it (K-101b).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    pub seq: u64,
    pub stamp: Stamp,
    pub action: ControlAction,
    pub cell: Option<CellId>,
    pub intent: Option<Hash>,
    pub value: Option<Hash>,
    pub principal: Rc<str>,
    pub serial: u64,
    pub signature: Rc<[u8]>,
    pub status: Option<ControlStatus>,
    pub payload: Option<Slot>,
    pub why: Option<Rc<str>>,
    pub restamp: bool,
    pub dropped: Option<u64>,
    pub abandoned: Vec<Hash>,
}

/// An operator or approver proposed a manifest, reported on a proposal, voted on one or withdrew
/// one (GV-20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governance {
    pub seq: u64,
    pub stamp: Stamp,
    pub action: GovernanceAction,
    pub principal: Rc<str>,
    pub signature: Rc<[u8]>,
    pub proposal: Option<u64>,
    pub serial: Option<u64>,
    pub base: Option<Hash>,
    pub document: Option<Ref>,
    pub patch: Option<Ref>,
    pub mode: Option<ApplyMode>,
    pub leaves: Vec<Rc<str>>,
    pub report: Option<Ref>,
    pub seen: Option<Hash>,
    pub note: Option<Rc<str>>,
}

/// Another world continues from here (K-110 to K-116): the first record after those that it has
/// from world `parent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub seq: u64,
    pub stamp: Stamp,
    pub parent: Hash,
    pub at: u64,
    pub frame: Hash,
    pub nonce: Rc<[u8]>,
    pub world_key: Rc<[u8]>,
    pub operators: Vec<Principal>,
    pub open_work: OpenWork,
    pub erased: Vec<Hash>,
    pub cut: Option<Hash>,
    pub signature: Rc<[u8]>,
}

/// Any record. Receipts and stream frames are shared with the mail that delivers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Genesis(Genesis),
    Start(Start),
    Manifest(Manifest),
    Event(Event),
    Step(Step),
    Faulted(Faulted),
    Receipt(Rc<Receipt>),
    KernelReceipt(Rc<KernelReceipt>),
    Stream(Rc<Stream>),
    Attempt(Attempt),
    Snapshot(Snapshot),
    Control(Control),
    Fork(Fork),
    Governance(Governance),
}

impl Record {
    /// The name of its kind, as in its bytes.
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Genesis(_) => "genesis",
            Record::Start(_) => "start",
            Record::Manifest(_) => "manifest",
            Record::Event(_) => "event",
            Record::Step(_) => "step",
            Record::Faulted(_) => "fault",
            Record::Receipt(_) => "receipt",
            Record::KernelReceipt(_) => "kernel_receipt",
            Record::Stream(_) => "stream",
            Record::Attempt(_) => "attempt",
            Record::Snapshot(_) => "snapshot",
            Record::Control(_) => "control",
            Record::Fork(_) => "fork",
            Record::Governance(_) => "governance",
        }
    }

    pub fn seq(&self) -> u64 {
        match self {
            Record::Genesis(record) => record.seq,
            Record::Start(record) => record.seq,
            Record::Manifest(record) => record.seq,
            Record::Event(record) => record.seq,
            Record::Step(record) => record.seq,
            Record::Faulted(record) => record.seq,
            Record::Receipt(record) => record.seq,
            Record::KernelReceipt(record) => record.seq,
            Record::Stream(record) => record.seq,
            Record::Attempt(record) => record.seq,
            Record::Snapshot(record) => record.seq,
            Record::Control(record) => record.seq,
            Record::Fork(record) => record.seq,
            Record::Governance(record) => record.seq,
        }
    }

    /// The stamp of an input; None for what the core made itself: steps, faults and its receipts.
    pub fn stamp(&self) -> Option<&Stamp> {
        match self {
            Record::Genesis(record) => Some(&record.stamp),
            Record::Start(record) => Some(&record.stamp),
            Record::Manifest(record) => Some(&record.stamp),
            Record::Event(record) => Some(&record.stamp),
            Record::Step(_) | Record::Faulted(_) | Record::KernelReceipt(_) => None,
            Record::Receipt(record) => Some(&record.stamp),
            Record::Stream(record) => Some(&record.stamp),
            Record::Attempt(record) => Some(&record.stamp),
            Record::Snapshot(record) => Some(&record.stamp),
            Record::Control(record) => Some(&record.stamp),
            Record::Fork(record) => Some(&record.stamp),
            Record::Governance(record) => Some(&record.stamp),
        }
    }
}
