//! The AgentOS ABI: the input of its modules, and how their output is read (spec/agentos.md;
//! `kernel/aos/core/decide/dialect/agentos.py`).
//!
//! Rule 1: the journal holds our forms. Everything here is computed from them, again at every
//! replay.
//!
//! Rule 2: a field is written under every name by which some version of the SDK reads it; the other
//! versions ignore unknown names.
//!
//! Rule 3: every hash that the SDK decodes is SHA-256. The hash of one of our blobs is replaced by a
//! given name, and a stored document maps that name to the blob.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use crate::decide::answers::NewBlobs;
use crate::decide::dialect::aos::wrapped;
use crate::journal::ports::Blobs;
use crate::manifest::builtins::{
    is_kernel_effect, BLOB_PUT, ENVELOPE, HTTP, INTROSPECT_CELLS, INTROSPECT_STATE, REJECTED,
    STREAM, WORKSPACE_RESOLVE,
};
use crate::manifest::effective::{Effect, Effective, Workflow};
use crate::state::cell::{Content, Mail, OpenIntent};
use crate::state::continuation::{unwrapped, unwrapped_frame, Fields};
use crate::values::cbor::{encode, Key, Value, SELF_DESCRIBED};
use crate::values::digests::{parse_hash, Hash};
use crate::values::errors::{quoted, Failure, Outcome, ValueProblem};
use crate::values::foreign::from_foreign;
use crate::values::hash_rewrite::HashRewrite;
use crate::values::schema::Schema;
use crate::values::sha256::{given_name, given_text, sha256_text};

/// Older SDKs write a `cap_slot`, which the kernel does not use (AG-4).
pub const EFFECT_FIELDS: [&str; 7] =
    ["cap_slot", "effect", "idempotency_key", "issuer_ref", "kind", "params", "params_cbor"];

/// Number of manifests whose rewriting of hashes is kept.
const REWRITES_KEPT: usize = 8;

// Keys

/// A cell's key as the module sees it; empty for an unkeyed workflow.
pub fn shown_key(key: &[u8]) -> Vec<u8> {
    match key {
        [] => Vec::new(),
        key => [&SELF_DESCRIBED, key].concat(),
    }
}

/// Convert a key that the module names to ours. The module may omit the tag.
pub fn own_key(key: &[u8]) -> &[u8] {
    key.strip_prefix(&SELF_DESCRIBED).unwrap_or(key)
}

fn shown_key_field(key: &Value) -> Value {
    match key {
        Value::Bytes(key) => Value::Bytes(shown_key(key)),
        other => other.clone(),
    }
}

// Its input

/// `fields` is a `sys/WorkflowContext@1`.
pub fn context(mut fields: Fields) -> Vec<u8> {
    fields.set("workflow_op_hash", fields.get("workflow_hash").clone());
    fields.set("manifest_hash", given(fields.get("manifest_hash")));
    fields.set("key", shown_key_field(fields.get("key")));
    encode(&fields.into_value())
}

fn given(hash: &Value) -> Value {
    match hash {
        Value::Text(text) => Value::Text(given_text(text)),
        other => other.clone(),
    }
}

/// The event that the module is called with; see `Dialect::delivered`.
pub fn delivered(
    workflow: &Workflow,
    manifest: &Effective,
    mail: &Mail,
    blobs: &dyn Blobs,
    names: &mut NewBlobs,
) -> Outcome<Vec<u8>> {
    let mut input = StepInput { manifest, rewrite: rewrite_of(manifest), names };
    let (schema, fields, intent) = match &mail.content {
        Content::Event { schema, value } => {
            let data = value.bytes(blobs)?;
            return wrapped(workflow, schema, &input.event(schema, &data)?);
        }
        Content::Stream { intent, frame } => {
            (STREAM, unwrapped_frame(intent, frame, blobs)?, intent)
        }
        Content::Receipt { intent, receipt } => {
            let (schema, fields) = unwrapped(workflow, intent, receipt, blobs)?;
            (schema, fields, intent)
        }
    };
    let params = intent.params.bytes(blobs)?;
    let fields = input.continuation(schema, fields, intent, &params)?;
    wrapped(workflow, schema, &encode(&fields.into_value()))
}

/// The input of one step. `names` are the documents that are stored with its record.
struct StepInput<'a> {
    manifest: &'a Effective,
    rewrite: Rc<HashRewrite>,
    names: &'a mut NewBlobs,
}

impl StepInput<'_> {
    /// A domain event of the schema `name`, before it is wrapped.
    fn event<'b>(&mut self, name: &str, data: &'b [u8]) -> Outcome<Cow<'b, [u8]>> {
        let Some(schema) = self.manifest.schemas.get(name).cloned() else {
            return Err(Failure::Damage(format!("mail of schema {name} is not in the manifest")));
        };
        if !self.rewrite.has_hashes(&schema) {
            return Ok(Cow::Borrowed(data));
        }
        let value = schema.from_record(data).map_err(as_damage)?;
        let names = &mut *self.names;
        let rewritten = self.rewrite.rewritten(&schema, value, &mut |text| name_blob(names, text));
        Ok(Cow::Owned(encode(&rewritten)))
    }

    /// `fields` is a continuation of `schema`; `params` are the intent's.
    fn continuation(
        &mut self,
        schema: &str,
        mut fields: Fields,
        intent: &OpenIntent,
        params: &[u8],
    ) -> Outcome<Fields> {
        let effect = &intent.effect;
        fields.set("effect_op", text(&effect.name));
        fields.set("effect_kind", text(&effect.name));
        fields.set("adapter_id", text(&effect.executor));
        if !matches!(schema, ENVELOPE | STREAM | REJECTED) {
            let payload = self.payload(effect, fields.get("receipt").clone());
            fields.set("receipt", payload);
            return Ok(fields);
        }
        fields.set("origin_workflow_op_hash", fields.get("origin_workflow_hash").clone());
        let key = shown_key_field(fields.get("origin_instance_key"));
        fields.set("origin_instance_key", key);
        fields.set("effect_op_hash", fields.get("effect_hash").clone());
        fields.set("params_hash", Value::Text(params_hash(effect, params)?));
        if schema == ENVELOPE {
            let payload = self.envelope_payload(effect, &fields)?;
            fields.set("receipt_payload", payload);
        } else if schema == STREAM {
            if let Value::Text(hash) = fields.get("payload_ref") {
                let named = name_blob(self.names, hash);
                fields.set("payload_ref", Value::Text(named));
            }
        } else {
            fields.set("payload_hash", given(fields.get("payload_hash")));
        }
        Ok(fields)
    }

    fn envelope_payload(&mut self, effect: &Effect, fields: &Fields) -> Outcome<Value> {
        let payload = fields.get("receipt_payload").clone();
        let Value::Bytes(data) = &payload else { return Ok(payload) };
        if fields.get("payload_schema").as_text() != Some(&effect.receipt.name) {
            return Ok(payload); // an error, which holds no hash
        }
        let is_changed = matches!(&*effect.name, HTTP | INTROSPECT_CELLS);
        if !is_changed && !self.rewrite.has_hashes(&effect.receipt) {
            return Ok(payload);
        }
        let value = effect.receipt.from_record(data).map_err(as_damage)?;
        Ok(Value::Bytes(encode(&self.payload(effect, value))))
    }

    fn payload(&mut self, effect: &Effect, value: Value) -> Value {
        // A statement of the core about itself names no blob that a module was given.
        let is_about_itself = is_kernel_effect(&effect.name) && &*effect.name != WORKSPACE_RESOLVE;
        let names = &mut *self.names;
        let mut change = |text: &str| match is_about_itself {
            true => given_text(text),
            false => name_blob(names, text),
        };
        let payload = self.rewrite.rewritten(&effect.receipt, value, &mut change);
        match &*effect.name {
            HTTP => with(payload, "adapter_id", text(&effect.executor)),
            INTROSPECT_CELLS => {
                let cells = payload.get("cells").and_then(Value::as_list).unwrap_or(&[]);
                let shown = |cell: &Value| {
                    let key = cell.get("key").map_or(Value::Null, shown_key_field);
                    with(cell.clone(), "key", key)
                };
                let cells = Value::List(cells.iter().map(shown).collect());
                with(payload, "cells", cells)
            }
            _ => payload,
        }
    }
}

/// The given name of a blob of this world; a hash of another algorithm stays.
fn name_blob(names: &mut NewBlobs, text: &str) -> String {
    let Ok(blob) = parse_hash(text) else { return text.to_string() };
    let name = given_name(blob);
    names.add(name.hash(), name.to_bytes());
    given_text(text)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

/// A record with another value of one field.
fn with(record: Value, name: &str, value: Value) -> Value {
    let Value::Map(mut entries) = record else { return record };
    let at = entries.iter().position(|(key, _)| matches!(key, Key::Text(text) if text == name));
    match at {
        Some(at) => entries[at].1 = value,
        None => entries.push((Key::Text(name.to_string()), value)),
    }
    Value::Map(entries)
}

/// A value that was checked when it was recorded does not fit now: its bytes were altered.
fn as_damage(problem: ValueProblem) -> Failure {
    Failure::Damage(problem.to_string())
}

thread_local! {
    /// The one that was used last comes last.
    static REWRITES: RefCell<Vec<(Hash, Rc<HashRewrite>)>> = const { RefCell::new(Vec::new()) };
}

fn rewrite_of(manifest: &Effective) -> Rc<HashRewrite> {
    REWRITES.with_borrow_mut(|kept| {
        let at = kept.iter().position(|(hash, _)| *hash == manifest.hash);
        let pair = match at {
            Some(at) => kept.remove(at),
            None => (manifest.hash, Rc::new(HashRewrite::new(&manifest.schemas))),
        };
        if kept.len() == REWRITES_KEPT {
            kept.remove(0);
        }
        let rewrite = pair.1.clone();
        kept.push(pair);
        rewrite
    })
}

/// SHA-256 over the params of an intent as its SDK spells them.
fn params_hash(effect: &Effect, params: &[u8]) -> Outcome<String> {
    let tagged = |params: &[u8]| sha256_text(&[&SELF_DESCRIBED, params].concat());
    if !matches!(&*effect.name, HTTP | INTROSPECT_CELLS | INTROSPECT_STATE) {
        return Ok(tagged(params));
    }
    let value = effect.params.from_record(params).map_err(as_damage)?;
    Ok(tagged(&encode(&as_asked(&effect.name, value))))
}

fn as_asked(effect: &str, params: Value) -> Value {
    // Our options that params in AgentOS do not have.
    let not_theirs: &[&str] = match effect {
        HTTP => &["body"],
        INTROSPECT_CELLS => &["after", "limit", "consistency"],
        _ => &[],
    };
    let Value::Map(entries) = params else { return params };
    let is_theirs = |(key, value): &(Key, Value)| {
        let is_ours = matches!(key, Key::Text(name) if not_theirs.contains(&name.as_str()));
        !(is_ours && *value == Value::Null)
    };
    let mut params = Value::Map(entries.into_iter().filter(is_theirs).collect());
    if effect == HTTP {
        if let Some(Value::Map(headers)) = params.get("headers") {
            let plain = headers.iter().map(|(name, value)| (name.clone(), header(value)));
            let headers = Value::Map(plain.collect());
            params = with(params, "headers", headers);
        }
    } else if effect == INTROSPECT_STATE {
        if let Some(key) = params.get("key").map(shown_key_field) {
            params = with(params, "key", key);
        }
    }
    params
}

fn header(value: &Value) -> Value {
    match (value.get("$tag").and_then(Value::as_text), value.get("$value")) {
        (Some("literal"), Some(literal)) => literal.clone(),
        _ => value.clone(),
    }
}

// Its output

/// Convert a value that the module emitted to the canonical bytes of its normal form. Refused if it
/// does not fit `schema`.
pub fn read_foreign<'a>(
    manifest: &Effective,
    schema: &Schema,
    data: &'a [u8],
    max_bytes: usize,
) -> Result<Cow<'a, [u8]>, ValueProblem> {
    // Most values fit as they are, and the ingress gate is faster. It takes no value otherwise.
    if let Ok(normal) = schema.from_ingress(data, max_bytes) {
        return Ok(normal);
    }
    Ok(Cow::Owned(from_foreign(schema, &manifest.schemas, data, max_bytes)?.0))
}

/// Complete params in normal form: add the name that a blob will have, and convert keys to ours.
/// Refused if the name is another blob's, or if with it they are longer than `max_bytes` bytes.
pub fn completed<'a>(
    effect: &Effect,
    params: Cow<'a, [u8]>,
    max_bytes: usize,
) -> Result<Cow<'a, [u8]>, ValueProblem> {
    if &*effect.name == BLOB_PUT {
        let completed = encode(&named_put(effect.params.from_record(&params)?)?);
        if completed.len() > max_bytes {
            return Err(ValueProblem::new(format!(
                "too large: expected at most {max_bytes} bytes with blob_ref, found {}",
                completed.len()
            )));
        }
        return Ok(Cow::Owned(completed));
    }
    let field = match &*effect.name {
        INTROSPECT_STATE => "key",
        INTROSPECT_CELLS => "after",
        _ => return Ok(params),
    };
    let value = effect.params.from_record(&params)?;
    match value.get(field) {
        Some(Value::Bytes(key)) => {
            let key = Value::Bytes(own_key(key).to_vec());
            Ok(Cow::Owned(encode(&with(value, field, key))))
        }
        _ => Ok(params),
    }
}

fn named_put(value: Value) -> Result<Value, ValueProblem> {
    let name = sha256_text(value.get("bytes").and_then(Value::as_bytes).unwrap_or(&[]));
    if let Some(Value::Text(blob_ref)) = value.get("blob_ref") {
        if *blob_ref != name {
            return Err(ValueProblem {
                message: format!(
                    "expected {name}, the SHA-256 of bytes, found {}",
                    quoted(blob_ref)
                ),
                path: "$.blob_ref".to_string(),
            });
        }
    }
    let value = with(value, "blob_ref", Value::Text(name));
    match value.get("refs") {
        Some(Value::Null) | None => Ok(with(value, "refs", Value::List(Vec::new()))),
        Some(_) => Ok(value),
    }
}
