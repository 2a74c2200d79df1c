//! Decide the receipts that the core itself owes (spec/kernel.md, K-80 to K-86;
//! `kernel/aos/core/decide/owed.py`).
//!
//! The core answers its own effects (cancel, introspect) and ends intents that an operator canceled
//! or settled, or that may not run again. Each answer is a record of its own, made before the ring
//! continues. It has no signature: replay computes it again.

use std::rc::Rc;

use crate::decide::answers::{Decided, NewBlobs, Rule};
use crate::decide::fits::{completed, key_problem};
use crate::decide::routing::shard_problem;
use crate::decide::settle::{outcome, Settled};
use crate::journal::ports::Blobs;
use crate::journal::records::{CellId, KernelReceipt, Record, Slot};
use crate::journal::vocabulary::{ReceiptStatus, SettledStatus, Word};
use crate::manifest::builtins::{
    is_kernel_effect, EFFECT_CANCEL, INTROSPECT_CELLS, INTROSPECT_HEAD, INTROSPECT_MANIFEST,
    INTROSPECT_STATE, TIMER, TIMER_CANCEL, WORKSPACE, WORKSPACE_RESOLVE,
};
use crate::state::cell::{Cell, OpenIntent, SharedCell};
use crate::state::continuation::Fields;
use crate::state::state::{Debt, Owed, State};
use crate::state::version::workflow_of;
use crate::values::cbor::{encode, Key, Value};
use crate::values::digests::{content_hash, hash_text, parse_hash, Hash};
use crate::values::errors::{quoted, Failure, Outcome, ValueProblem};

pub const CANCELED: &str = "canceled";
pub const ALREADY_SETTLED: &str = "already_settled";
pub const UNKNOWN_OUTCOME: &str = "unknown_outcome";

pub const CELLS_LISTED_MAX: i128 = 1000;
/// Upper bound of the bytes of one listed cell, without its key.
const CELL_BYTES: i128 = 160;

/// Why the core's answer is an error: the fields of a `sys/EffectError@1`; or a blob cannot be read.
enum Wrong {
    Error { code: &'static str, message: String },
    Failure(Failure),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Wrong::Failure(failure)
    }
}

fn wrong<T>(code: &'static str, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Error { code, message: message.into() })
}

fn error_payload(code: &str, message: &str) -> Vec<u8> {
    encode(
        &Fields::from(vec![
            ("code", text(code)),
            ("message", text(message)),
            ("retryable", Value::Bool(false)),
        ])
        .into_value(),
    )
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

fn nat(n: u64) -> Value {
    Value::Int(n as i128)
}

/// Decide the first receipt that the core owes, which must be there: a `KernelReceipt`. Damage if a
/// blob that the answer needs is missing or altered; nothing has changed then.
pub fn decide_owed(state: &State, blobs: &dyn Blobs) -> Outcome<Decided> {
    let owed = state.owed.front();
    let intent = match owed {
        Some(owed) => state.cells.open_intent(&owed.intent)?,
        None => None,
    };
    let (Some(owed), Some(intent)) = (owed, intent) else {
        return Err(Failure::Damage("the core owes no receipt of an open intent".to_string()));
    };
    Answering { state, owed, blobs, new_blobs: NewBlobs::default() }.answer(&intent)
}

/// The decision of one receipt, in progress.
struct Answering<'a> {
    state: &'a State,
    owed: &'a Owed,
    blobs: &'a dyn Blobs,
    new_blobs: NewBlobs,
}

impl Answering<'_> {
    fn answer(self, intent: &OpenIntent) -> Outcome<Decided> {
        let (owed, blobs) = (self.owed, self.blobs);
        if let Some(settlement) = &owed.settlement {
            let payload = settlement.payload.bytes(blobs)?;
            let status = match settlement.status {
                SettledStatus::Ok => ReceiptStatus::Ok,
                SettledStatus::Error => ReceiptStatus::Error,
            };
            return self.receipt(intent, status, &payload, None);
        }
        let problem = owed.problem.as_deref();
        if owed.debt == Debt::Cancel {
            let payload = error_payload(CANCELED, problem.unwrap_or("it was canceled"));
            return self.receipt(intent, ReceiptStatus::Canceled, &payload, None);
        }
        if owed.debt == Debt::Loss {
            let why = problem.unwrap_or("the process that ran it ended before it told");
            let message = format!("it may have run, and may not run again: {why}");
            let payload = error_payload(UNKNOWN_OUTCOME, &message);
            return self.receipt(intent, ReceiptStatus::Error, &payload, None);
        }
        let params = intent.params.bytes(blobs)?;
        let params = intent.effect.params.from_record(&params).map_err(as_damage)?;
        if matches!(&*intent.effect.name, TIMER_CANCEL | EFFECT_CANCEL) {
            return self.cancel(intent, &params);
        }
        let max_bytes = self.state.effective().limits.event_bytes;
        let answer = self.introspection(intent, &params).map(|answer| encode(&answer));
        let answer = match answer {
            Ok(payload) if payload.len() as u64 > max_bytes => wrong(
                "too_large",
                format!("the answer has {} bytes: expected at most {max_bytes}", payload.len()),
            ),
            answer => answer,
        };
        match answer {
            Ok(payload) => self.receipt(intent, ReceiptStatus::Ok, &payload, None),
            Err(wrong) => self.error(intent, wrong),
        }
    }

    fn error(self, intent: &OpenIntent, wrong: Wrong) -> Outcome<Decided> {
        match wrong {
            Wrong::Error { code, message } => {
                let payload = error_payload(code, &message);
                self.receipt(intent, ReceiptStatus::Error, &payload, None)
            }
            Wrong::Failure(failure) => Err(failure),
        }
    }

    fn receipt(
        mut self,
        intent: &OpenIntent,
        status: ReceiptStatus,
        payload: &[u8],
        by: Option<Hash>,
    ) -> Outcome<Decided> {
        let Settled { outcome, schema, problem, abandoned } =
            outcome(self.state, intent, status, payload)?;
        let record = KernelReceipt {
            seq: self.state.next_seq,
            intent: intent.intent,
            cell: intent.cell.clone(),
            effect: intent.effect.name.clone(),
            status,
            payload: self.new_blobs.slot(payload),
            payload_schema: schema,
            root: self.owed.root.seq,
            depth: self.owed.depth,
            by,
            outcome,
            problem,
            abandoned,
        };
        Ok(Decided { record: Record::KernelReceipt(Rc::new(record)), blobs: self.new_blobs })
    }

    // Cancel: first a receipt for each intent that it ends, then its own.

    fn cancel(self, intent: &OpenIntent, params: &Value) -> Outcome<Decided> {
        match self.target(intent, params) {
            Err(wrong) => self.error(intent, wrong),
            Ok(Some(target)) => {
                let message = format!("{} canceled it", intent.cell.workflow);
                let payload = error_payload(CANCELED, &message);
                self.receipt(&target, ReceiptStatus::Canceled, &payload, Some(intent.intent))
            }
            Ok(None) if self.owed.canceled > 0 => {
                let payload = Fields::from(vec![("cancelled", Value::Bool(true))]).into_value();
                self.receipt(intent, ReceiptStatus::Ok, &encode(&payload), None)
            }
            Ok(None) => {
                let message = format!(
                    "nothing is open under {}: it is settled, or never was",
                    target_text(params)
                );
                let payload = error_payload(ALREADY_SETTLED, &message);
                self.receipt(intent, ReceiptStatus::Error, &payload, None)
            }
        }
    }

    /// The first intent of this cell that the cancel has still to end; None if none is left.
    fn target(&self, intent: &OpenIntent, params: &Value) -> Result<Option<Rc<OpenIntent>>, Wrong> {
        let named = params.get("intent").and_then(Value::as_text);
        let reference = params.get("issuer_ref").and_then(Value::as_text);
        let only_timers = &*intent.effect.name == TIMER_CANCEL;
        match (named, reference) {
            (Some(named), None) => self.target_by_hash(intent, named, only_timers),
            (None, Some(reference)) => self.target_by_ref(intent, reference, only_timers),
            _ => wrong("params_invalid", "expected either intent or issuer_ref"),
        }
    }

    fn target_by_hash(
        &self,
        intent: &OpenIntent,
        named: &str,
        only_timers: bool,
    ) -> Result<Option<Rc<OpenIntent>>, Wrong> {
        if !named.starts_with("blake3:") {
            let message = format!("{} is no intent of this world", quoted(named));
            return wrong("params_invalid", message);
        }
        let hash = parse_hash(named).map_err(as_damage)?;
        let target = match self.state.cells.open_intent(&hash)? {
            Some(target) if target.cell == intent.cell => target,
            _ => return Ok(None),
        };
        if is_kernel_effect(&target.effect.name) {
            let message = format!("{} is answered by the kernel itself", target.effect.name);
            return wrong("not_cancelable", message);
        }
        if only_timers && &*target.effect.name != TIMER {
            return wrong("not_a_timer", format!("the intent is of {}", target.effect.name));
        }
        Ok(Some(target))
    }

    fn target_by_ref(
        &self,
        intent: &OpenIntent,
        reference: &str,
        only_timers: bool,
    ) -> Result<Option<Rc<OpenIntent>>, Wrong> {
        let cell = self.state.cells.known(&intent.cell, self.state.next_seq)?;
        let cell = cell.borrow();
        let targets = self.state.cells.intents_of(&cell)?;
        let target = targets
            .into_iter()
            .filter(|target| target.issuer_ref.as_deref() == Some(reference))
            .filter(|target| !is_kernel_effect(&target.effect.name))
            .find(|target| !only_timers || &*target.effect.name == TIMER);
        Ok(target)
    }

    // Introspect: the state of the world at this record.

    fn introspection(&self, intent: &OpenIntent, params: &Value) -> Result<Value, Wrong> {
        match &*intent.effect.name {
            INTROSPECT_MANIFEST => self.manifest(params),
            INTROSPECT_STATE => self.workflow_state(params),
            INTROSPECT_HEAD => Ok(Fields::from(vec![("meta", self.meta())]).into_value()),
            INTROSPECT_CELLS => self.list_cells(params),
            WORKSPACE_RESOLVE => self.resolve_workspace(params),
            name => Err(Failure::Damage(format!("the core does not answer {name}")).into()),
        }
    }

    fn meta(&self) -> Value {
        let snapshot = self.state.snapshot.as_ref();
        let hash = |hash: &Hash| Value::Text(hash_text(hash));
        Fields::from(vec![
            ("journal_height", nat(self.state.next_seq)),
            ("snapshot_hash", snapshot.map_or(Value::Null, |mark| hash(&mark.document))),
            ("manifest_hash", hash(&self.state.effective().manifest_hash)),
        ])
        .into_value()
    }

    fn manifest(&self, params: &Value) -> Result<Value, Wrong> {
        check_consistency(params)?;
        let document = Value::Bytes(self.state.effective().document.to_vec());
        Ok(Fields::from(vec![("manifest", document), ("meta", self.meta())]).into_value())
    }

    fn workflow_state(&self, params: &Value) -> Result<Value, Wrong> {
        check_consistency(params)?;
        let workflow = self.workflow(params)?;
        let key = params.get("key").and_then(Value::as_bytes).unwrap_or(&[]);
        let state = match self.cell_here(&CellId::new(workflow, key))? {
            Some(cell) => self.state_of(&cell.borrow())?,
            None => None,
        };
        let state = state.map_or(Value::Null, Value::Bytes);
        Ok(Fields::from(vec![("state", state), ("meta", self.meta())]).into_value())
    }

    /// The cell with this id; an error if another shard has it (K-85a). A key that does not fit the
    /// workflow has no cell in any shard.
    fn cell_here(&self, id: &CellId) -> Result<Option<SharedCell>, Wrong> {
        let effective = self.state.effective();
        if let Some(workflow) = effective.workflows.get(&id.workflow) {
            if key_problem(workflow, &id.key).is_none() {
                if let Some(problem) = shard_problem(effective, std::slice::from_ref(id))? {
                    return wrong(Rule::KeyOfAnotherShard.word(), problem);
                }
            }
        }
        Ok(self.state.cells.get(id)?)
    }

    /// A cell's state as its module would get it (K-71d).
    fn state_of(&self, cell: &Cell) -> Outcome<Option<Vec<u8>>> {
        let Some(state) = &cell.state else { return Ok(None) };
        let data = state.bytes(self.blobs)?;
        Ok(Some(match workflow_of(self.state, cell)? {
            Some(workflow) if !workflow.has_opaque_state() => {
                completed(&workflow.state, &data).into_owned()
            }
            _ => data.to_vec(),
        }))
    }

    /// The name of the workflow that the params ask about.
    fn workflow<'b>(&self, params: &'b Value) -> Result<&'b str, Wrong> {
        let name = params.get("workflow").and_then(Value::as_text).unwrap_or("");
        if self.state.effective().workflows.contains_key(name) {
            return Ok(name);
        }
        wrong("workflow_unknown", format!("{} is no workflow of this world", quoted(name)))
    }

    /// A page of cells with a state, in the order of their key hashes, from behind `after_key`.
    fn list_cells(&self, params: &Value) -> Result<Value, Wrong> {
        check_consistency(params)?;
        let workflow = self.workflow(params)?;
        let cells_max = match params.get("limit") {
            Some(Value::Int(limit)) => (*limit).max(1).min(CELLS_LISTED_MAX),
            _ => CELLS_LISTED_MAX,
        } as usize;
        let after = params.get("after").and_then(Value::as_bytes).map(content_hash);
        let mut first = Vec::new();
        for cell in self.state.cells.of(workflow, after) {
            let cell = cell?;
            if cell.borrow().state.is_some() {
                first.push(cell);
                if first.len() > cells_max {
                    break;
                }
            }
        }
        let mut room = self.state.effective().limits.event_bytes as i128 - 1024;
        let mut infos = Vec::new();
        let mut last = None;
        for cell in first.iter().take(cells_max) {
            let cell = cell.borrow();
            let (key, Some(state)) = (&cell.id.key, &cell.state) else { continue };
            room -= CELL_BYTES + key.len() as i128;
            if room < 0 {
                break;
            }
            infos.push(info(&cell, state));
            last = Some(key.to_vec());
        }
        let next = last.filter(|_| infos.len() < first.len());
        Ok(Fields::from(vec![
            ("cells", Value::List(infos)),
            ("next", next.map_or(Value::Null, Value::Bytes)),
            ("meta", self.meta()),
        ])
        .into_value())
    }

    /// The head and one version of a workspace, as its cell has them (AG-57).
    fn resolve_workspace(&self, params: &Value) -> Result<Value, Wrong> {
        let key = encode(params.get("workspace").unwrap_or(&Value::Null));
        let mut head = Value::Null;
        let mut resolved = Value::Null;
        let mut root_hash = Value::Null;
        if let Some(cell) = self.cell_here(&CellId::new(WORKSPACE, key))? {
            let cell = cell.borrow();
            let data = self.state_of(&cell)?;
            if let (Some(workflow), Some(data)) = (workflow_of(self.state, &cell)?, data) {
                let history = workflow.state.from_record(&data).map_err(as_damage)?;
                head = history.get("latest").cloned().unwrap_or(Value::Null);
                let version = match params.get("version") {
                    None | Some(Value::Null) => head.clone(),
                    Some(version) => version.clone(),
                };
                if let Some(commit) = history.get("versions").and_then(|all| at(all, &version)) {
                    root_hash = commit.get("root_hash").cloned().unwrap_or(Value::Null);
                    resolved = version;
                }
            }
        }
        Ok(Fields::from(vec![
            ("exists", Value::Bool(resolved != Value::Null)),
            ("resolved_version", resolved),
            ("head", head),
            ("root_hash", root_hash),
        ])
        .into_value())
    }
}

/// The entry of a map whose key is this value.
fn at<'a>(map: &'a Value, key: &Value) -> Option<&'a Value> {
    let Value::Map(entries) = map else { return None };
    let is_it = |(name, _): &&(Key, Value)| match (name, key) {
        (Key::Int(one), Value::Int(other)) => one == other,
        (Key::Text(one), Value::Text(other)) => one == other,
        _ => false,
    };
    entries.iter().find(is_it).map(|(_, value)| value)
}

fn target_text(params: &Value) -> String {
    let part = |name| params.get(name).and_then(Value::as_text);
    match part("issuer_ref") {
        None => format!("intent {}", part("intent").unwrap_or("None")),
        Some(reference) => format!("issuer_ref {}", quoted(reference)),
    }
}

fn check_consistency(params: &Value) -> Result<(), Wrong> {
    match params.get("consistency").and_then(Value::as_text) {
        None | Some("head") => Ok(()),
        Some(other) => wrong(
            "consistency_unsupported",
            format!("consistency: expected \"head\", found {}", quoted(other)),
        ),
    }
}

fn info(cell: &Cell, state: &Slot) -> Value {
    let size = match state {
        Slot::Bytes(data) => data.len() as u64,
        Slot::Ref(reference) => reference.size,
    };
    Fields::from(vec![
        ("key", Value::Bytes(cell.id.key.to_vec())),
        ("state_hash", Value::Text(hash_text(&state.hash()))),
        ("size", nat(size)),
        ("last_active_ns", nat(cell.last_active_ns)),
    ])
    .into_value()
}

/// A value that was checked when it was recorded does not fit now: its bytes were altered.
fn as_damage(problem: ValueProblem) -> Failure {
    Failure::Damage(problem.to_string())
}
