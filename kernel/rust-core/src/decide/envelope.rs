//! The guest envelopes: the input of a module and its output (spec/kernel.md;
//! `kernel/aos/core/decide/envelope.py`).
//!
//! - input: `{version: 1, state: bytes | null, event: {schema, value, key?}, ctx?: bytes}`
//! - output: `{state: bytes | null, domain_events?, effects?, ann?, status?}` or `{fault: {...}}`
//!
//! This file checks shapes only; `step` checks the contents.

use std::rc::Rc;

use crate::decide::answers::Misfit;
use crate::journal::faults::{clipped, Fault, FaultKind, MESSAGE_BYTES_MAX};
use crate::journal::records::RequestKey;
use crate::journal::vocabulary::{DeclaredStatus, Word};
use crate::values::cbor::{
    decode_ingress, put_bytes, put_map, put_nat, put_null, put_text, Bounds, Key, Value, INGRESS,
};
use crate::values::errors::quoted;

/// Longest idempotency key or issuer reference.
pub const NAME_BYTES_MAX: usize = 256;

pub const DETAIL_BYTES_MAX: usize = 4096;

/// The fields that a requested effect may have in a module's output.
pub const EFFECT_FIELDS: [&str; 6] =
    ["effect", "idempotency_key", "issuer_ref", "kind", "params", "params_cbor"];

const OUTPUT: [&str; 6] = ["ann", "domain_events", "effects", "fault", "state", "status"];
const EVENT: [&str; 3] = ["key", "schema", "value"];
const FAULT: [&str; 3] = ["detail", "kind", "message"];

/// The input of a module. Keys are in canonical order: shorter ones first.
pub fn input_envelope(
    state: Option<&[u8]>,
    schema: &str,
    value: &[u8],
    key: &[u8],
    ctx: Option<&[u8]>,
) -> Vec<u8> {
    let size = state.map_or(0, <[u8]>::len) + value.len() + key.len() + ctx.map_or(0, <[u8]>::len);
    let mut out = Vec::with_capacity(size + schema.len() + 96);
    put_map(&mut out, if ctx.is_none() { 3 } else { 4 });
    if let Some(ctx) = ctx {
        put_text(&mut out, "ctx");
        put_bytes(&mut out, ctx);
    }
    put_text(&mut out, "event");
    put_map(&mut out, if key.is_empty() { 2 } else { 3 });
    if !key.is_empty() {
        put_text(&mut out, "key");
        put_bytes(&mut out, key);
    }
    put_text(&mut out, "value");
    put_bytes(&mut out, value);
    put_text(&mut out, "schema");
    put_text(&mut out, schema);
    put_text(&mut out, "state");
    match state {
        None => put_null(&mut out),
        Some(state) => put_bytes(&mut out, state),
    }
    put_text(&mut out, "version");
    put_nat(&mut out, 1);
    out
}

/// An event that a step emits; `key` overrides that of the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainEvent {
    pub schema: String,
    pub value: Vec<u8>,
    pub key: Option<Vec<u8>>,
}

/// An effect that a step requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRequest {
    pub effect: String,
    pub params: Vec<u8>,
    pub key: Option<RequestKey>,
    pub issuer_ref: Option<Rc<str>>,
}

/// The result of a step that a module returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub state: Option<Vec<u8>>,
    pub events: Vec<DomainEvent>,
    pub effects: Vec<EffectRequest>,
    pub ann: Option<Vec<u8>>,
    pub status: Option<DeclaredStatus>,
}

/// A fault by the output, which breaks a rule.
pub fn misfit<T>(kind: FaultKind, message: impl AsRef<str>) -> Result<T, Misfit> {
    Err(Misfit::Fault(Fault::new(kind, clipped(message.as_ref()))))
}

/// Read the output of a module; `effect_fields` are those that a requested effect may have, sorted.
/// It is a misfit if it is no output envelope, or is the module's own fault.
pub fn read_output(
    data: &[u8],
    max_bytes: usize,
    effect_fields: &[&str],
) -> Result<Output, Misfit> {
    let value = match decode_ingress(data, Bounds { bytes: max_bytes, ..INGRESS }) {
        Ok(value) => value,
        Err(problem) => {
            let message = format!("the output is not CBOR: {problem}");
            return misfit(FaultKind::OutputMalformed, message);
        }
    };
    let mut fields = record(value, "$", &OUTPUT)?;
    if !matches!(fields.look("fault"), None | Some(Value::Null)) {
        return guest_fault(fields);
    }
    if fields.look("state").is_none() {
        return malformed("$.state", "bytes or null", "nothing");
    }
    let status = fields.optional_text("status", "$")?;
    let status = match &status {
        None => None,
        Some(text) => match DeclaredStatus::of(text) {
            Some(status) => Some(status),
            None => return malformed("$.status", &words::<DeclaredStatus>(), &quoted(text)),
        },
    };
    let state = fields.optional_bytes("state", "$")?;
    let mut events = Vec::new();
    for (index, item) in fields.list("domain_events")?.into_iter().enumerate() {
        events.push(event(item, &format!("$.domain_events[{index}]"))?);
    }
    let mut effects = Vec::new();
    for (index, item) in fields.list("effects")?.into_iter().enumerate() {
        effects.push(effect(item, &format!("$.effects[{index}]"), effect_fields)?);
    }
    let ann = fields.optional_bytes("ann", "$")?;
    Ok(Output { state, events, effects, ann, status })
}

/// The words of a closed set, for a text: `running or completed or failed`.
pub fn words<W: Word>() -> String {
    W::WORDS.iter().map(|word| word.word()).collect::<Vec<_>>().join(" or ")
}

fn event(value: Value, path: &str) -> Result<DomainEvent, Misfit> {
    let mut fields = record(value, path, &EVENT)?;
    Ok(DomainEvent {
        schema: fields.required_text("schema", path)?,
        value: fields.required_bytes("value", path)?,
        key: fields.optional_bytes("key", path)?,
    })
}

fn effect(value: Value, path: &str, names: &[&str]) -> Result<EffectRequest, Misfit> {
    let mut fields = record(value, path, names)?;
    for (name, alias) in [("effect", "kind"), ("params", "params_cbor")] {
        if fields.look(name).is_some() && fields.look(alias).is_some() {
            return malformed(path, &format!("{name} or its alias {alias}"), "both");
        }
    }
    let key = match fields.take("idempotency_key") {
        None | Some(Value::Null) => None,
        Some(Value::Text(text)) => Some(RequestKey::Text(text.into())),
        Some(Value::Bytes(data)) => Some(RequestKey::Bytes(data.into())),
        Some(other) => {
            let path = format!("{path}.idempotency_key");
            return malformed(&path, "text or bytes", kind(Some(&other)));
        }
    };
    let issuer_ref = fields.optional_text("issuer_ref", path)?;
    let key_size = match &key {
        None => 0,
        Some(RequestKey::Text(text)) => text.len(),
        Some(RequestKey::Bytes(data)) => data.len(),
    };
    let ref_size = issuer_ref.as_ref().map_or(0, String::len);
    for (name, size) in [("idempotency_key", key_size), ("issuer_ref", ref_size)] {
        if size > NAME_BYTES_MAX {
            let expected = format!("at most {NAME_BYTES_MAX} bytes");
            return malformed(&format!("{path}.{name}"), &expected, &size.to_string());
        }
    }
    let name = if fields.look("effect").is_some() { "effect" } else { "kind" };
    let params = if fields.look("params").is_some() { "params" } else { "params_cbor" };
    Ok(EffectRequest {
        effect: fields.required_text(name, path)?,
        params: fields.required_bytes(params, path)?,
        key,
        issuer_ref: issuer_ref.map(Into::into),
    })
}

fn guest_fault(mut fields: Fields) -> Result<Output, Misfit> {
    let fault = fields.take("fault").unwrap_or(Value::Null);
    let mut others: Vec<String> = fields.0.iter().map(|(key, _)| plain(key)).collect();
    others.sort_unstable();
    if !others.is_empty() {
        let actual = format!("fault beside {}", others.join(", "));
        return malformed("$", "fault alone", &actual);
    }
    let mut fault = record(fault, "$.fault", &FAULT)?;
    let kind = fault.required_text("kind", "$.fault")?;
    let message = fault.required_text("message", "$.fault")?;
    let detail = fault.optional_bytes("detail", "$.fault")?;
    let text = format!("{kind}: {message}");
    if text.len() > MESSAGE_BYTES_MAX {
        let expected = format!("at most {MESSAGE_BYTES_MAX} bytes with the kind");
        return malformed("$.fault.message", &expected, "more");
    }
    if let Some(size) = detail.as_ref().map(Vec::len).filter(|size| *size > DETAIL_BYTES_MAX) {
        let expected = format!("at most {DETAIL_BYTES_MAX} bytes");
        return malformed("$.fault.detail", &expected, &size.to_string());
    }
    Err(Misfit::Fault(Fault {
        kind: FaultKind::Guest,
        message: text.into(),
        detail: detail.map(Into::into),
    }))
}

/// The fields of a record, from which a reader takes one after the other.
struct Fields(Vec<(Key, Value)>);

impl Fields {
    fn at(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(key, _)| matches!(key, Key::Text(text) if text == name))
    }

    fn look(&self, name: &str) -> Option<&Value> {
        self.at(name).map(|at| &self.0[at].1)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.at(name).map(|at| self.0.swap_remove(at).1)
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, Misfit> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::List(items)) => Ok(items),
            Some(other) => malformed(&format!("$.{name}"), "an array", kind(Some(&other))),
        }
    }

    fn required_text(&mut self, name: &str, path: &str) -> Result<String, Misfit> {
        match self.take(name) {
            Some(Value::Text(text)) => Ok(text),
            other => malformed(&format!("{path}.{name}"), "text", kind(other.as_ref())),
        }
    }

    fn required_bytes(&mut self, name: &str, path: &str) -> Result<Vec<u8>, Misfit> {
        match self.take(name) {
            Some(Value::Bytes(data)) => Ok(data),
            other => malformed(&format!("{path}.{name}"), "bytes", kind(other.as_ref())),
        }
    }

    fn optional_text(&mut self, name: &str, path: &str) -> Result<Option<String>, Misfit> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            other => malformed(&format!("{path}.{name}"), "text", kind(other.as_ref())),
        }
    }

    fn optional_bytes(&mut self, name: &str, path: &str) -> Result<Option<Vec<u8>>, Misfit> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bytes(data)) => Ok(Some(data)),
            other => malformed(&format!("{path}.{name}"), "bytes", kind(other.as_ref())),
        }
    }
}

/// The fields of a map, which must be among `names`; these are sorted.
fn record(value: Value, path: &str, names: &[&str]) -> Result<Fields, Misfit> {
    let Value::Map(entries) = value else {
        return malformed(path, "a map", kind(Some(&value)));
    };
    let is_odd = |key: &Key| !matches!(key, Key::Text(text) if names.contains(&text.as_str()));
    if let Some((unknown, _)) = entries.iter().find(|(key, _)| is_odd(key)) {
        let actual = match unknown {
            Key::Text(name) => quoted(name),
            Key::Int(n) => n.to_string(),
        };
        return malformed(path, &format!("only {}", names.join(", ")), &actual);
    }
    Ok(Fields(entries))
}

fn plain(key: &Key) -> String {
    match key {
        Key::Text(name) => name.clone(),
        Key::Int(n) => n.to_string(),
    }
}

fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None | Some(Value::Null) => "nothing",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Int(_)) => "integer",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::Text(_)) => "text",
        Some(Value::List(_)) => "array",
        Some(Value::Map(_)) => "map",
    }
}

fn malformed<T>(path: &str, expected: &str, actual: &str) -> Result<T, Misfit> {
    let message = format!("{path}: expected {expected}, found {actual}");
    misfit(FaultKind::OutputMalformed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::cbor::encode;

    fn map(entries: &[(&str, Value)]) -> Value {
        let entry = |(name, value): &(&str, Value)| (Key::Text(name.to_string()), value.clone());
        Value::Map(entries.iter().map(entry).collect())
    }

    fn message(output: Value) -> String {
        match read_output(&encode(&output), 1 << 20, &EFFECT_FIELDS) {
            Err(Misfit::Fault(fault)) => fault.message.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_output_that_is_no_envelope_is_named_in_the_words_of_the_reference() {
        let text = |text: &str| Value::Text(text.to_string());
        let bytes = Value::Bytes(vec![1]);
        assert_eq!(message(Value::Int(1)), "$: expected a map, found integer");
        assert_eq!(message(map(&[])), "$.state: expected bytes or null, found nothing");
        assert_eq!(
            message(map(&[("state", Value::Null), ("stat", Value::Null)])),
            "$: expected only ann, domain_events, effects, fault, state, status, found \"stat\""
        );
        let fault = map(&[("kind", text("k")), ("message", text("m"))]);
        assert_eq!(message(map(&[("fault", fault.clone())])), "k: m");
        assert_eq!(
            message(map(&[("fault", fault), ("state", bytes.clone())])),
            "$: expected fault alone, found fault beside state"
        );
        let effect = map(&[("effect", text("e")), ("kind", text("e")), ("params", bytes)]);
        let effects = Value::List(vec![effect]);
        assert_eq!(
            message(map(&[("state", Value::Null), ("effects", effects)])),
            "$.effects[0]: expected effect or its alias kind, found both"
        );
    }
}
