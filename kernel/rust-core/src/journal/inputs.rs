//! The inputs of the core, and the messages that their senders sign
//! (`kernel/aos/core/journal/inputs.py`).
//!
//! Words of inputs are texts: admission looks them up and refuses unknown ones. An input comes
//! whole from the host, so that its bytes may be anything.

use std::rc::Rc;

use crate::journal::governing::{put_option, GovernanceInput};
use crate::journal::records::{Batch, CellId, Control, Fork, Principal, Receipt, Stream};
use crate::journal::statements::{
    receipt_message, signed_receipt_message, stream_message, Signer, Statement, StreamStatement,
};
use crate::journal::vocabulary::{ApplyMode, ControlAction, Word};
use crate::values::cbor::{put_array, put_bool, put_bytes, put_map, put_nat, put_null, put_text};
use crate::values::digests::{content_hash, Hash};

pub const SEMANTICS: u64 = 1;

/// Longest code of a held or parked attempt.
pub const CODE_BYTES_MAX: usize = 128;

/// The beginning of a world, signed with the world's key.
#[derive(Clone, Debug)]
pub struct GenesisInput {
    pub nonce: Rc<[u8]>,
    pub world_key: Rc<[u8]>,
    pub operators: Vec<Principal>,
    pub signature: Rc<[u8]>,
}

fn put_operators(out: &mut Vec<u8>, operators: &[Principal]) {
    put_array(out, operators.len());
    for operator in operators {
        put_array(out, 2);
        put_text(out, &operator.name);
        put_bytes(out, &operator.key);
    }
}

/// The bytes that the world key signs.
pub fn genesis_message(nonce: &[u8], world_key: &[u8], operators: &[Principal]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put_array(&mut out, 5);
    put_text(&mut out, "aos/genesis/1");
    put_bytes(&mut out, nonce);
    put_bytes(&mut out, world_key);
    put_operators(&mut out, operators);
    put_nat(&mut out, SEMANTICS);
    out
}

/// The bytes that the key of a forked world signs (J-43).
pub fn fork_message(fork: &Fork) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    put_array(&mut out, 11);
    put_text(&mut out, "aos/fork/1");
    put_bytes(&mut out, &fork.parent);
    put_nat(&mut out, fork.at);
    put_bytes(&mut out, &fork.frame);
    put_bytes(&mut out, &fork.nonce);
    put_bytes(&mut out, &fork.world_key);
    put_operators(&mut out, &fork.operators);
    put_text(&mut out, fork.open_work.word());
    put_array(&mut out, fork.erased.len());
    for hash in &fork.erased {
        put_bytes(&mut out, hash);
    }
    put_option(&mut out, fork.cut.as_ref(), |out, hash| put_bytes(out, hash));
    put_nat(&mut out, SEMANTICS);
    out
}

/// The software that executes from now on: kernel, wasmtime, target, engine fingerprint.
#[derive(Clone, Debug)]
pub struct StartInput {
    pub host: Vec<(Rc<str>, Rc<str>)>,
}

/// An operator puts an effective manifest in force. `checked` and `is_recorded` are in no signature
/// and no record (K-71a, K-71c).
#[derive(Clone, Debug)]
pub struct ManifestInput {
    pub document: Rc<[u8]>,
    pub principal: Rc<str>,
    pub serial: u64,
    pub signature: Rc<[u8]>,
    pub mode: Rc<str>,
    pub leaves: Vec<Rc<str>>,
    pub proposal: Option<u64>,
    pub checked: Option<u64>,
    pub is_recorded: bool,
}

/// The bytes that an operator signs to apply a manifest (J-36, J-36a, J-36b).
pub fn manifest_message(
    world: &Hash,
    serial: u64,
    document: &Hash,
    mode: &str,
    leaves: &[Rc<str>],
    proposal: Option<u64>,
) -> Vec<u8> {
    let is_plain = proposal.is_none() && mode == ApplyMode::Strict.word() && leaves.is_empty();
    let (domain, items) = match proposal {
        Some(_) => ("aos/apply/3", 7),
        None if is_plain => ("aos/apply/1", 4),
        None => ("aos/apply/2", 6),
    };
    let mut out = Vec::with_capacity(256);
    put_array(&mut out, items);
    put_text(&mut out, domain);
    put_bytes(&mut out, world);
    put_nat(&mut out, serial);
    put_bytes(&mut out, document);
    if !is_plain {
        put_text(&mut out, mode);
        put_array(&mut out, leaves.len());
        for name in leaves {
            put_text(&mut out, name);
        }
    }
    if let Some(proposal) = proposal {
        put_nat(&mut out, proposal);
    }
    out
}

/// A domain event; `value` is CBOR at the ingress gate.
#[derive(Clone, Debug)]
pub struct EventInput {
    pub schema: Rc<str>,
    pub value: Rc<[u8]>,
    pub submission_id: Option<Rc<str>>,
}

/// An executor's signed receipt: how an intent ended.
#[derive(Clone, Debug)]
pub struct ReceiptInput {
    pub intent: Hash,
    pub effect: Rc<str>,
    pub attempt: u64,
    pub status: Rc<str>,
    pub payload: Rc<[u8]>,
    pub started_ns: u64,
    pub finished_ns: u64,
    pub executor: Rc<str>,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
    pub cost_cents: Option<u64>,
    pub batch: Option<Batch>,
}

impl ReceiptInput {
    pub fn statement(&self) -> Statement<'_> {
        Statement {
            intent: &self.intent,
            effect: &self.effect,
            attempt: self.attempt,
            status: &self.status,
            started_ns: self.started_ns,
            finished_ns: self.finished_ns,
            cost_cents: self.cost_cents,
        }
    }

    fn signer(&self) -> Signer<'_> {
        Signer { executor: &self.executor, key_id: &self.key_id }
    }

    /// The bytes that `signature` signs; None if the batch's path leads to no root.
    pub fn signed_message(&self, world: &Hash) -> Option<Vec<u8>> {
        let payload = content_hash(&self.payload);
        signed_receipt_message(
            world,
            &self.statement(),
            &payload,
            self.signer(),
            self.batch.as_ref(),
        )
    }

    /// The bytes that the executor signs when it signs this receipt alone.
    pub fn message(&self, world: &Hash) -> Vec<u8> {
        receipt_message(world, &self.statement(), &content_hash(&self.payload), self.signer())
    }
}

impl Receipt {
    pub fn statement(&self) -> Statement<'_> {
        Statement {
            intent: &self.intent,
            effect: &self.effect,
            attempt: self.attempt,
            status: self.status.word(),
            started_ns: self.started_ns,
            finished_ns: self.finished_ns,
            cost_cents: self.cost_cents,
        }
    }

    /// The bytes that its signature signs; None if the batch's path leads to no root.
    pub fn signed_message(&self, world: &Hash) -> Option<Vec<u8>> {
        let signer = Signer { executor: &self.executor, key_id: &self.key_id };
        let payload = self.payload.hash();
        signed_receipt_message(world, &self.statement(), &payload, signer, self.batch.as_ref())
    }
}

/// An executor's signed stream frame: the progress of an open intent.
#[derive(Clone, Debug)]
pub struct StreamInput {
    pub intent: Hash,
    pub effect: Rc<str>,
    pub attempt: u64,
    pub frame_seq: u64,
    pub frame_kind: Rc<str>,
    pub payload: Rc<[u8]>,
    pub executor: Rc<str>,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
    pub payload_ref: Option<Hash>,
}

impl StreamInput {
    /// The bytes that `signature` signs.
    pub fn signed_message(&self, world: &Hash) -> Vec<u8> {
        let statement = StreamStatement {
            intent: &self.intent,
            effect: &self.effect,
            attempt: self.attempt,
            frame_seq: self.frame_seq,
            frame_kind: &self.frame_kind,
        };
        let signer = Signer { executor: &self.executor, key_id: &self.key_id };
        let payload = content_hash(&self.payload);
        stream_message(world, &statement, &payload, self.payload_ref.as_ref(), signer)
    }
}

impl Stream {
    /// The bytes that its signature signs.
    pub fn signed_message(&self, world: &Hash) -> Vec<u8> {
        let statement = StreamStatement {
            intent: &self.intent,
            effect: &self.effect,
            attempt: self.attempt,
            frame_seq: self.frame_seq,
            frame_kind: &self.frame_kind,
        };
        let signer = Signer { executor: &self.executor, key_id: &self.key_id };
        let payload = self.payload.hash();
        stream_message(world, &statement, &payload, self.payload_ref.as_ref(), signer)
    }
}

/// The host is about to run an intent again, cannot know how a run ended (K-95), or does not run the
/// intent now (K-99).
#[derive(Clone, Debug)]
pub struct AttemptInput {
    pub intent: Hash,
    pub attempt: u64,
    /// A word of `AttemptPhase` if it is valid.
    pub phase: Rc<str>,
    pub problem: Option<Rc<str>>,
    pub code: Option<Rc<str>>,
}

/// The host has stored a snapshot: the document with this hash and size, and all blobs that it
/// names. It is the world after record `at`, the last record of the frame `frame`.
#[derive(Clone, Debug)]
pub struct SnapshotInput {
    pub at: u64,
    pub frame: Hash,
    pub document: Hash,
    pub size: u64,
}

/// An operator's signed command: `action` and the fields of `command_fields` (K-100).
#[derive(Clone, Debug)]
pub struct ControlInput {
    /// A word of `ControlAction` if it is valid.
    pub action: Rc<str>,
    pub principal: Rc<str>,
    pub serial: u64,
    pub signature: Rc<[u8]>,
    pub cell: Option<CellId>,
    pub intent: Option<Hash>,
    pub value: Option<Hash>,
    pub status: Option<Rc<str>>,
    pub payload: Option<Rc<[u8]>>,
    pub why: Option<Rc<str>>,
    pub restamp: bool,
}

impl ControlInput {
    /// The bytes that the operator signs.
    pub fn message(&self, world: &Hash) -> Vec<u8> {
        Command {
            serial: self.serial,
            action: &self.action,
            cell: self.cell.as_ref(),
            intent: self.intent,
            value: self.value,
            status: self.status.as_deref(),
            payload: self.payload.as_ref().map(|payload| content_hash(payload)),
            why: self.why.as_deref(),
            restamp: self.restamp,
        }
        .message(world)
    }
}

impl Control {
    /// The bytes that its signature signs.
    pub fn message(&self, world: &Hash) -> Vec<u8> {
        Command {
            serial: self.serial,
            action: self.action.word(),
            cell: self.cell.as_ref(),
            intent: self.intent,
            value: self.value,
            status: self.status.map(Word::word),
            payload: self.payload.as_ref().map(|payload| payload.hash()),
            why: self.why.as_deref(),
            restamp: self.restamp,
        }
        .message(world)
    }
}

/// The fields of a command that an operator signs; `payload` is the payload's content hash.
struct Command<'a> {
    serial: u64,
    action: &'a str,
    cell: Option<&'a CellId>,
    intent: Option<Hash>,
    value: Option<Hash>,
    status: Option<&'a str>,
    payload: Option<Hash>,
    why: Option<&'a str>,
    restamp: bool,
}

impl Command<'_> {
    /// The bytes that an operator signs (J-42). A field that the command has and that is absent is
    /// null.
    fn message(&self, world: &Hash) -> Vec<u8> {
        use ControlAction::{End, Remove, Retry, Settle, Skip};
        let mut out = Vec::with_capacity(256);
        let named = match ControlAction::of(self.action) {
            Some(action @ (Settle | End | Remove)) => Some(action),
            Some(action @ (Retry | Skip)) if self.restamp => Some(action),
            _ => None,
        };
        put_array(&mut out, if named.is_some() { 5 } else { 7 });
        put_text(&mut out, if named.is_some() { "aos/control/2" } else { "aos/control/1" });
        put_bytes(&mut out, world);
        put_nat(&mut out, self.serial);
        put_text(&mut out, self.action);
        let Some(action) = named else {
            self.put_field(&mut out, "cell");
            self.put_field(&mut out, "intent");
            self.put_field(&mut out, "value");
            return out;
        };
        let mut names = command_fields(action).to_vec();
        names.sort_unstable_by_key(|name| (name.len(), *name));
        put_map(&mut out, names.len());
        for name in names {
            put_text(&mut out, name);
            self.put_field(&mut out, name);
        }
        out
    }

    fn put_field(&self, out: &mut Vec<u8>, name: &str) {
        let put_hash = |out: &mut Vec<u8>, hash: Hash| put_bytes(out, &hash);
        match name {
            "cell" => put_option(out, self.cell, |out, cell| {
                put_array(out, 2);
                put_text(out, &cell.workflow);
                put_bytes(out, &cell.key);
            }),
            "intent" => put_option(out, self.intent, put_hash),
            "value" => put_option(out, self.value, put_hash),
            "status" => put_option(out, self.status, put_text),
            "payload" => put_option(out, self.payload, put_hash),
            "why" => put_option(out, self.why, put_text),
            "restamp" if self.restamp => put_bool(out, true),
            _ => put_null(out),
        }
    }
}

/// The fields of each command, in its input and in its record. See `needed_fields`.
pub fn command_fields(action: ControlAction) -> &'static [&'static str] {
    match action {
        ControlAction::Retry | ControlAction::Skip => &["cell", "restamp"],
        ControlAction::Unpin => &["cell"],
        ControlAction::Cancel => &["intent"],
        ControlAction::Erase => &["value"],
        ControlAction::Settle => &["intent", "status", "payload"],
        ControlAction::End => &["cell", "status", "why"],
        ControlAction::Remove => &["cell", "why"],
        ControlAction::Clock => &[],
    }
}

/// The fields that `action` cannot lack.
pub fn needed_fields(action: ControlAction) -> Vec<&'static str> {
    let is_needed = |name: &&str| !matches!(*name, "why" | "restamp");
    command_fields(action).iter().copied().filter(is_needed).collect()
}

/// Whether `names`, the fields that a command has, are those of `action`.
pub fn has_fields_of(action: ControlAction, names: &[&str]) -> bool {
    let fields = command_fields(action);
    needed_fields(action).iter().all(|name| names.contains(name))
        && names.iter().all(|name| fields.contains(name))
}

/// All that enters the core.
#[derive(Clone, Debug)]
pub enum Input {
    Genesis(GenesisInput),
    Start(StartInput),
    Manifest(Rc<ManifestInput>),
    Event(EventInput),
    Receipt(ReceiptInput),
    Stream(StreamInput),
    Attempt(AttemptInput),
    Snapshot(SnapshotInput),
    Control(ControlInput),
    Governance(GovernanceInput),
}
