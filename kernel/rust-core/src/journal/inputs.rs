//! The inputs of the core, and the messages that their senders sign
//! (`kernel/aos/core/journal/inputs.py`).
//!
//! Words of inputs are texts: admission looks them up and refuses unknown ones. An input comes
//! whole from the host, so that its bytes may be anything.

use std::rc::Rc;

use crate::journal::governing::{put_option, GovernanceInput};
use crate::journal::input_fields::{
    option, put_input_hash, put_input_text, InputHash, InputNat, InputText,
};
use crate::journal::records::{Batch, Control, Fork, Principal, Receipt, Stream};
use crate::journal::statements::{
    signed_receipt_message, stream_message, Signer, Statement, StreamStatement,
};
use crate::journal::vocabulary::{ApplyMode, ControlAction, Word};
use crate::values::cbor::{put_array, put_bool, put_bytes, put_map, put_nat, put_null, put_text};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

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
    pub principal: InputText,
    pub serial: InputNat,
    pub signature: Rc<[u8]>,
    pub mode: InputText,
    pub leaves: Vec<InputText>,
    pub proposal: Option<InputNat>,
    pub checked: Option<InputNat>,
    pub is_recorded: bool,
}

impl ManifestInput {
    /// The names of the workflows that it removes although they have cells.
    pub fn left_names(&self) -> Outcome<Vec<Rc<str>>> {
        self.leaves.iter().map(|name| name.written().cloned()).collect()
    }
}

/// The bytes that an operator signs to apply a manifest (J-36, J-36a, J-36b).
pub fn manifest_message(
    world: &Hash,
    serial: u64,
    document: &Hash,
    manifest_input: &ManifestInput,
) -> Outcome<Vec<u8>> {
    let ManifestInput { mode, leaves, proposal, .. } = manifest_input;
    let is_plain = proposal.is_none() && mode.is(ApplyMode::Strict.word()) && leaves.is_empty();
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
        put_input_text(&mut out, mode)?;
        put_array(&mut out, leaves.len());
        for name in leaves {
            put_input_text(&mut out, name)?;
        }
    }
    if let Some(proposal) = proposal {
        proposal.put(&mut out)?;
    }
    Ok(out)
}

/// A domain event; `value` is CBOR at the ingress gate.
#[derive(Clone, Debug)]
pub struct EventInput {
    pub schema: InputText,
    pub value: Rc<[u8]>,
    pub submission_id: Option<InputText>,
}

/// An executor's signed receipt: how an intent ended.
#[derive(Clone, Debug)]
pub struct ReceiptInput {
    pub intent: InputHash,
    pub effect: InputText,
    pub attempt: InputNat,
    pub status: InputText,
    pub payload: Rc<[u8]>,
    pub started_ns: InputNat,
    pub finished_ns: InputNat,
    pub executor: InputText,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
    pub cost_cents: Option<InputNat>,
    pub batch: Option<InputBatch>,
}

/// The place of a receipt among those that were signed together.
#[derive(Clone, Debug)]
pub struct InputBatch {
    pub index: InputNat,
    pub size: InputNat,
    pub path: Vec<InputHash>,
}

impl InputBatch {
    /// As in a record; None if it leads to no root for one of its fields.
    pub fn batch(&self) -> Option<Batch> {
        let path: Option<Vec<Hash>> = self.path.iter().map(InputHash::hash).collect();
        Some(Batch { index: self.index.nat()?, size: self.size.nat()?, path: path? })
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
    pub intent: InputHash,
    pub effect: InputText,
    pub attempt: InputNat,
    pub frame_seq: InputNat,
    pub frame_kind: InputText,
    pub payload: Rc<[u8]>,
    pub executor: InputText,
    pub key_id: Rc<[u8]>,
    pub signature: Rc<[u8]>,
    pub payload_ref: Option<InputHash>,
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
    pub intent: InputHash,
    pub attempt: InputNat,
    /// A word of `AttemptPhase` if it is valid.
    pub phase: InputText,
    pub problem: Option<InputText>,
    pub code: Option<InputText>,
}

/// The host has stored a snapshot: the document with this hash and size, and all blobs that it
/// names. It is the world after record `at`, the last record of the frame `frame`.
#[derive(Clone, Debug)]
pub struct SnapshotInput {
    pub at: InputNat,
    pub frame: InputHash,
    pub document: InputHash,
    pub size: InputNat,
}

/// An operator's signed command: `action` and the fields of `command_fields` (K-100).
#[derive(Clone, Debug)]
pub struct ControlInput {
    /// A word of `ControlAction` if it is valid.
    pub action: InputText,
    pub principal: InputText,
    pub serial: InputNat,
    pub signature: Rc<[u8]>,
    pub cell: Option<ControlCell>,
    pub intent: Option<InputHash>,
    pub value: Option<InputHash>,
    pub status: Option<InputText>,
    pub payload: Option<Rc<[u8]>>,
    pub why: Option<InputText>,
    pub restamp: bool,
}

/// The cell that a command names.
#[derive(Clone, Debug)]
pub struct ControlCell {
    pub workflow: InputText,
    pub key: Rc<[u8]>,
}

impl ControlInput {
    /// The bytes that the operator signs, with the `serial` of the world.
    pub fn message(&self, world: &Hash, serial: u64) -> Outcome<Vec<u8>> {
        Command {
            serial,
            action: self.action.clone(),
            cell: self.cell.clone(),
            intent: self.intent.clone(),
            value: self.value.clone(),
            status: self.status.clone(),
            payload: self.payload.as_ref().map(|payload| content_hash(payload)),
            why: self.why.clone(),
            restamp: self.restamp,
        }
        .message(world)
    }
}

impl Control {
    /// The bytes that its signature signs.
    pub fn message(&self, world: &Hash) -> Vec<u8> {
        let text = |text: &str| InputText::Unicode(text.into());
        Command {
            serial: self.serial,
            action: text(self.action.word()),
            cell: self
                .cell
                .as_ref()
                .map(|cell| ControlCell { workflow: text(&cell.workflow), key: cell.key.clone() }),
            intent: self.intent.map(InputHash::Hash),
            value: self.value.map(InputHash::Hash),
            status: self.status.map(|status| text(status.word())),
            payload: self.payload.as_ref().map(|payload| payload.hash()),
            why: self.why.as_deref().map(text),
            restamp: self.restamp,
        }
        .message(world)
        .expect("the text of a record is Unicode")
    }
}

/// The fields of a command that an operator signs; `payload` is the payload's content hash.
struct Command {
    serial: u64,
    action: InputText,
    cell: Option<ControlCell>,
    intent: Option<InputHash>,
    value: Option<InputHash>,
    status: Option<InputText>,
    payload: Option<Hash>,
    why: Option<InputText>,
    restamp: bool,
}

impl Command {
    /// The bytes that an operator signs (J-42). A field that the command has and that is absent is
    /// null.
    fn message(&self, world: &Hash) -> Outcome<Vec<u8>> {
        use ControlAction::{End, Remove, Retry, Settle, Skip};
        let mut out = Vec::with_capacity(256);
        let named = match self.action.text().and_then(|action| ControlAction::of(action)) {
            Some(action @ (Settle | End | Remove)) => Some(action),
            Some(action @ (Retry | Skip)) if self.restamp => Some(action),
            _ => None,
        };
        put_array(&mut out, if named.is_some() { 5 } else { 7 });
        put_text(&mut out, if named.is_some() { "aos/control/2" } else { "aos/control/1" });
        put_bytes(&mut out, world);
        put_nat(&mut out, self.serial);
        put_input_text(&mut out, &self.action)?;
        let Some(action) = named else {
            self.put_field(&mut out, "cell")?;
            self.put_field(&mut out, "intent")?;
            self.put_field(&mut out, "value")?;
            return Ok(out);
        };
        let mut names = command_fields(action).to_vec();
        names.sort_unstable_by_key(|name| (name.len(), *name));
        put_map(&mut out, names.len());
        for name in names {
            put_text(&mut out, name);
            self.put_field(&mut out, name)?;
        }
        Ok(out)
    }

    fn put_field(&self, out: &mut Vec<u8>, name: &str) -> Outcome<()> {
        let text = match name {
            "status" => self.status.as_ref(),
            "why" => self.why.as_ref(),
            _ => None,
        };
        match name {
            "cell" => match &self.cell {
                Some(cell) => {
                    put_array(out, 2);
                    put_input_text(out, &cell.workflow)?;
                    put_bytes(out, &cell.key);
                }
                None => put_null(out),
            },
            "intent" => put_option(out, self.intent.as_ref(), put_input_hash),
            "value" => put_option(out, self.value.as_ref(), put_input_hash),
            "payload" => put_option(out, self.payload, |out, hash| put_bytes(out, &hash)),
            "restamp" if self.restamp => put_bool(out, true),
            _ => match option(&text, |text| text.written())? {
                Some(text) => put_text(out, text),
                None => put_null(out),
            },
        }
        Ok(())
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
