//! Build the value that the origin cell receives for a settled receipt (spec/kernel.md;
//! `kernel/aos/core/state/continuation.py`).
//!
//! The origin cell is recorded in the intent; `routing.subscriptions` does not affect it.

use std::rc::Rc;

use crate::journal::ports::Blobs;
use crate::journal::records::Stream;
use crate::journal::vocabulary::{ReceiptOutcome, ReceiptStatus, Word};
use crate::manifest::builtin_definitions::builtin_schema;
use crate::manifest::builtins::{legacy_arm, ENVELOPE, ERROR, REJECTED, STREAM};
use crate::manifest::effective::{Effective, Workflow};
use crate::manifest::forms::AGENTOS;
use crate::state::cell::{OpenIntent, Settling};
use crate::values::cbor::{decode_record, Key, Value, RECORD, RECORD_BYTES_MAX};
use crate::values::digests::{content_hash, hash_text};
use crate::values::errors::{Failure, Outcome, ValueProblem};
use crate::values::schema::Schema;

pub const PAYLOAD_INVALID: &str = "receipt_payload_invalid";
pub const NO_ARM: &str = "receipt_status_has_no_arm";

/// The fields of a record, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(key, _)| *key == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// Set a field; a new one is added.
    pub fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    pub fn into_value(self) -> Value {
        let entry = |(name, value): (&str, Value)| (Key::Text(name.to_string()), value);
        Value::Map(self.0.into_iter().map(entry).collect())
    }
}

impl From<Vec<(&'static str, Value)>> for Fields {
    fn from(fields: Vec<(&'static str, Value)>) -> Self {
        Fields(fields)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

fn text_or_null(text: Option<&Rc<str>>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_string()))
}

fn nat(n: u64) -> Value {
    Value::Int(n as i128)
}

/// `sys/EffectError@1`, which every manifest has.
pub fn effect_error() -> Rc<Schema> {
    builtin_schema(ERROR)
}

/// Normalise a payload by the first schema that it fits (K-54), and return the schema's name; or a
/// text with the problem, if it fits none. A module of the AgentOS SDK decodes the receipt's schema
/// only, so no other is tried for it (AG-16).
pub fn read_payload(
    effective: &Effective,
    workflow: &Workflow,
    intent: &OpenIntent,
    status: ReceiptStatus,
    payload: &[u8],
) -> Result<Rc<str>, String> {
    let is_ok = status == ReceiptStatus::Ok;
    let is_theirs = &*workflow.module.abi == AGENTOS && !is_ok;
    let receipt = intent.effect.receipt.clone();
    let schemas = if is_ok || is_theirs { vec![receipt] } else { vec![effect_error(), receipt] };
    let mut problems = Vec::new();
    for schema in schemas {
        match schema.from_ingress(payload, effective.limits.event_bytes as usize) {
            Ok(_) => return Ok(schema.name.clone()),
            Err(problem) => problems.push(format!("{}: {problem}", schema.name)),
        }
    }
    let error = if is_theirs { error_text(payload) } else { None };
    Err(error.unwrap_or_else(|| problems.join("; ")))
}

/// The code and message of a `sys/EffectError@1`; None of another payload.
fn error_text(payload: &[u8]) -> Option<String> {
    let (_, error) = effect_error().from_ingress_value(payload, RECORD_BYTES_MAX).ok()?;
    let part = |name| error.get(name).and_then(Value::as_text);
    Some(format!("{}: {}", part("code")?, part("message")?))
}

/// Whether the workflow accepts events of `schema`.
pub fn takes(workflow: &Workflow, schema: &str) -> bool {
    schema == &*workflow.event.name || workflow.arms.contains_key(schema)
}

/// The continuation schema that `workflow` accepts for this effect, or None.
pub fn settled_arm(
    workflow: &Workflow,
    intent: &OpenIntent,
    status: ReceiptStatus,
) -> Option<&'static str> {
    if takes(workflow, ENVELOPE) {
        return Some(ENVELOPE);
    }
    legacy_arm(&intent.effect.name)
        .filter(|legacy| status == ReceiptStatus::Ok && takes(workflow, legacy))
}

/// A payload in normal form, and the schema that it fits.
struct Payload {
    schema: Rc<str>,
    data: Vec<u8>,
}

/// The payload as it was read when the receipt was admitted. The manifest in force may have changed
/// since, to another bound and without `sys/EffectError@1` (K-101).
fn settled_payload(intent: &OpenIntent, receipt: &Settling, payload: &[u8]) -> Outcome<Payload> {
    let of_effect = &intent.effect.receipt;
    let schema = match receipt.payload_schema() {
        Some(name) if *name == of_effect.name => of_effect.clone(),
        _ => effect_error(),
    };
    let data = schema.from_ingress(payload, RECORD_BYTES_MAX).map_err(as_damage)?;
    Ok(Payload { schema: schema.name.clone(), data: data.into_owned() })
}

/// A value that was checked when it was recorded does not fit now: its bytes were altered.
fn as_damage(problem: ValueProblem) -> Failure {
    Failure::Damage(problem.to_string())
}

/// (schema, value) of a continuation, before it is wrapped. The receipt must have been admitted as
/// `delivered` or `rejected`, so that its arm exists.
pub fn unwrapped(
    workflow: &Workflow,
    intent: &OpenIntent,
    receipt: &Settling,
    blobs: &dyn Blobs,
) -> Outcome<(&'static str, Fields)> {
    let payload = receipt.payload().bytes(blobs)?;
    if receipt.outcome() == ReceiptOutcome::Rejected {
        return Ok((REJECTED, rejected(intent, receipt, &payload)));
    }
    let Some(arm) = settled_arm(workflow, intent, receipt.status()) else {
        return Err(Failure::Damage(format!(
            "record {} was delivered to {}, which has no arm for it",
            receipt.seq(),
            workflow.name
        )));
    };
    let settled = settled_payload(intent, receipt, &payload)?;
    if arm == ENVELOPE {
        return Ok((arm, envelope(intent, receipt, settled)));
    }
    Ok((arm, legacy(intent, receipt, settled, blobs)?))
}

/// Build the event for a receipt, wrapped in the workflow's arm.
pub fn continuation(
    workflow: &Workflow,
    intent: &OpenIntent,
    receipt: &Settling,
    blobs: &dyn Blobs,
) -> Outcome<Value> {
    let (schema, fields) = unwrapped(workflow, intent, receipt, blobs)?;
    wrapped(workflow, schema, fields)
}

/// Build the event for a stream frame, wrapped in the workflow's arm.
pub fn stream_frame(
    workflow: &Workflow,
    intent: &OpenIntent,
    frame: &Stream,
    blobs: &dyn Blobs,
) -> Outcome<Value> {
    wrapped(workflow, STREAM, unwrapped_frame(intent, frame, blobs)?)
}

fn wrapped(workflow: &Workflow, schema: &str, fields: Fields) -> Outcome<Value> {
    workflow.wrap(schema, fields.into_value()).ok_or_else(|| {
        Failure::Damage(format!("{} takes no {schema}, and has one in its mail", workflow.name))
    })
}

pub fn unwrapped_frame(intent: &OpenIntent, frame: &Stream, blobs: &dyn Blobs) -> Outcome<Fields> {
    let mut fields = identity(intent);
    fields.extend([
        ("emitted_at_seq", nat(intent.seq)),
        ("seq", nat(frame.frame_seq)),
        ("kind", text(&frame.frame_kind)),
        ("payload", Value::Bytes(frame.payload.bytes(blobs)?.to_vec())),
        ("payload_ref", frame.payload_ref.map_or(Value::Null, |hash| text(&hash_text(&hash)))),
        ("signature", Value::Bytes(frame.signature.to_vec())),
    ]);
    Ok(Fields(fields))
}

fn identity(intent: &OpenIntent) -> Vec<(&'static str, Value)> {
    let effect = &intent.effect;
    let key = &intent.cell.key;
    let module_hash = effect.executor_module_hash.as_ref();
    let mut fields = Vec::with_capacity(20);
    fields.extend([
        ("origin_module_id", text(&intent.cell.workflow)),
        ("origin_workflow_hash", text(&hash_text(&intent.workflow_hash))),
        (
            "origin_instance_key",
            if key.is_empty() { Value::Null } else { Value::Bytes(key.to_vec()) },
        ),
        ("intent_id", text(&hash_text(&intent.intent))),
        ("effect", text(&effect.name)),
        ("effect_hash", text(&hash_text(&effect.hash))),
        ("executor_module", text_or_null(effect.executor_module.as_ref())),
        ("executor_module_hash", module_hash.map_or(Value::Null, |hash| text(&hash_text(hash)))),
        ("executor_entrypoint", text_or_null(effect.executor_entrypoint.as_ref())),
        ("params_hash", text(&hash_text(&intent.params_hash))),
        ("issuer_ref", text_or_null(intent.issuer_ref.as_ref())),
    ]);
    fields
}

fn cost_and_signature(receipt: &Settling) -> [(&'static str, Value); 2] {
    [
        ("cost_cents", receipt.cost_cents().map_or(Value::Null, nat)),
        ("signature", Value::Bytes(receipt.signature().to_vec())),
    ]
}

fn envelope(intent: &OpenIntent, receipt: &Settling, payload: Payload) -> Fields {
    let mut fields = identity(intent);
    fields.extend([
        ("receipt_payload", Value::Bytes(payload.data)),
        ("status", text(receipt.status().word())),
        ("emitted_at_seq", nat(intent.seq)),
        ("payload_schema", text(&payload.schema)),
    ]);
    fields.extend(cost_and_signature(receipt));
    Fields(fields)
}

fn rejected(intent: &OpenIntent, receipt: &Settling, payload: &[u8]) -> Fields {
    let error_code = if receipt.payload_schema().is_some() { NO_ARM } else { PAYLOAD_INVALID };
    let mut fields = identity(intent);
    fields.extend([
        ("status", text(receipt.status().word())),
        ("error_code", text(error_code)),
        ("error_message", text(receipt.problem().map_or("", |problem| problem))),
        ("payload_hash", text(&hash_text(&content_hash(payload)))),
        ("payload_size", nat(payload.len() as u64)),
        ("emitted_at_seq", nat(intent.seq)),
    ]);
    Fields(fields)
}

fn legacy(
    intent: &OpenIntent,
    receipt: &Settling,
    payload: Payload,
    blobs: &dyn Blobs,
) -> Outcome<Fields> {
    let params = intent.params.bytes(blobs)?;
    let requested = intent.effect.params.from_record(&params).map_err(as_damage)?;
    let settled = decode_record(&payload.data, RECORD).map_err(as_damage)?;
    let mut fields = vec![
        ("intent_hash", text(&hash_text(&intent.intent))),
        ("workflow", text(&intent.cell.workflow)),
        ("effect", text(&intent.effect.name)),
        ("status", text(receipt.status().word())),
        ("requested", requested),
        ("receipt", settled),
    ];
    fields.extend(cost_and_signature(receipt));
    Ok(Fields(fields))
}
