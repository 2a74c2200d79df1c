//! The step envelope: bytes of the kernel -> `Input`, and `Output` or `Fault` -> bytes for the
//! kernel.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{decode, encode, Malformed, Value};
use crate::read::Record;

/// One step: the cell's state, if it has one, and the event that the step handles.
pub struct Input {
    pub state: Option<Value>,
    pub event: Event,
    /// `sys/WorkflowContext@1`, when the workflow declares it.
    pub context: Option<Value>,
}

pub struct Event {
    /// The workflow's own event schema.
    pub schema: String,
    /// The value, wrapped in its arm when that schema is a variant.
    pub value: Value,
    /// The cell's key, when the workflow is keyed.
    pub key: Option<Value>,
}

/// The decision of a step. A `state` of `None` deletes the cell.
#[derive(Default)]
pub struct Output {
    pub state: Option<Value>,
    /// (schema, value) of each domain event, in order.
    pub events: Vec<(&'static str, Value)>,
    pub effects: Vec<Effect>,
    pub annotation: Option<Value>,
    pub status: Option<Status>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Running,
    Completed,
    Failed,
}

pub struct Effect {
    pub effect: &'static str,
    pub params: Value,
    pub idempotency_key: Option<String>,
    /// The receipt repeats it, so that the workflow recognizes the answer.
    pub issuer_ref: Option<String>,
}

/// The step cannot be done. The kernel keeps the state as it was and fails the instance.
#[derive(Debug)]
pub struct Fault {
    pub kind: &'static str,
    pub message: String,
}

impl Fault {
    pub fn new(kind: &'static str, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into() }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::new("malformed_cbor", format!("{} at byte {}", malformed.reason, malformed.offset))
    }
}

impl Input {
    pub fn read(bytes: &[u8]) -> Result<Input, Fault> {
        let envelope = decode(bytes)?;
        let envelope = Record::new(&envelope)?;
        if envelope.nat("version")? != 1 {
            return Err(Fault::new(
                "unknown_version",
                "this module reads input envelopes of version 1",
            ));
        }
        let event = Record::new(envelope.get("event"))?;
        Ok(Input {
            state: embedded(&envelope, "state")?,
            event: Event {
                schema: String::from(event.text("schema")?),
                value: decode(event.bytes("value")?)?,
                key: embedded(&event, "key")?,
            },
            context: embedded(&envelope, "ctx")?,
        })
    }
}

fn embedded(record: &Record, field: &str) -> Result<Option<Value>, Fault> {
    match record.get(field) {
        Value::Null => Ok(None),
        _ => Ok(Some(decode(record.bytes(field)?)?)),
    }
}

/// Read the input, run the step, write its output or its fault.
pub fn run(input: &[u8], step: impl FnOnce(Input) -> Result<Output, Fault>) -> Vec<u8> {
    encode(&match Input::read(input).and_then(step) {
        Ok(output) => output.into(),
        Err(fault) => fault.into(),
    })
}

impl From<Output> for Value {
    fn from(output: Output) -> Value {
        let mut fields = Vec::with_capacity(5);
        let mut add = |name: &str, value: Value| fields.push((Value::from(name), value));
        add("state", output.state.map_or(Value::Null, |state| Value::Bytes(encode(&state))));
        if !output.events.is_empty() {
            add("domain_events", Value::List(output.events.into_iter().map(event).collect()));
        }
        if !output.effects.is_empty() {
            add("effects", Value::List(output.effects.into_iter().map(effect).collect()));
        }
        if let Some(annotation) = output.annotation {
            add("ann", Value::Bytes(encode(&annotation)));
        }
        if let Some(status) = output.status {
            add("status", Value::from(status.name()));
        }
        Value::Map(fields)
    }
}

impl From<Fault> for Value {
    fn from(fault: Fault) -> Value {
        let fault = Value::record([
            ("kind", Value::from(fault.kind)),
            ("message", Value::Text(fault.message)),
        ]);
        Value::record([("fault", fault)])
    }
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
        }
    }
}

fn event((schema, value): (&'static str, Value)) -> Value {
    Value::record([("schema", Value::from(schema)), ("value", Value::Bytes(encode(&value)))])
}

fn effect(effect: Effect) -> Value {
    let mut fields = Vec::with_capacity(4);
    fields.push((Value::from("effect"), Value::from(effect.effect)));
    fields.push((Value::from("params"), Value::Bytes(encode(&effect.params))));
    for (name, text) in
        [("idempotency_key", effect.idempotency_key), ("issuer_ref", effect.issuer_ref)]
    {
        if let Some(text) = text {
            fields.push((Value::from(name), Value::Text(text)));
        }
    }
    Value::Map(fields)
}
