//! Schemas: compiled type expressions, which check and convert values
//! (`kernel/aos/values/schema.py`).
//!
//! `bytes --from_ingress--> canonical bytes`; `bytes --from_record--> value`. A result of one of
//! these is in normal form and is never checked again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::values::cbor::{
    decode_ingress, decode_record, encode, item_count, key_order, Bounds, Key, Value, INGRESS,
    INGRESS_ITEMS_MAX, RECORD, RECORD_BYTES_MAX, RECORD_ITEMS_MAX,
};
use crate::values::codec::{Codec, Room};
use crate::values::containers::build;
use crate::values::errors::{quoted, ValueProblem};
use crate::values::expressions::{read_types, SchemaProblems, Type};
use crate::values::show::describe;

/// How a schema reads values that are not in normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Plain,
    /// `sys/HttpRequestParams@1`: a header that is text is read as `literal`, and secrets are
    /// refused if the manifest has none (M-52; `kernel/aos/manifest/http_params.py`).
    HttpParams {
        has_secrets: bool,
    },
}

/// One compiled schema.
#[derive(Debug)]
pub struct Schema {
    pub name: Rc<str>,
    pub type_: Type,
    codec: Rc<Codec>,
    reading: Reading,
}

impl Schema {
    /// The same schema with another reading.
    pub fn with_reading(&self, reading: Reading) -> Schema {
        Schema {
            name: self.name.clone(),
            type_: self.type_.clone(),
            codec: self.codec.clone(),
            reading,
        }
    }

    /// A value that the ingress gate decoded -> its normal form.
    pub fn normalise(&self, value: Value) -> Result<Value, ValueProblem> {
        match self.reading {
            Reading::Plain => self.codec.normal(value, &mut Room::new()),
            Reading::HttpParams { .. } => {
                let normal = self.codec.normal(with_literals(value), &mut Room::new())?;
                self.must_be_accepted(&normal)?;
                Ok(normal)
            }
        }
    }

    /// Bytes of another program -> the canonical bytes of the normal form: `data` itself if it is
    /// that already. `max_bytes` holds for both.
    pub fn from_ingress<'a>(
        &self,
        data: &'a [u8],
        max_bytes: usize,
    ) -> Result<Cow<'a, [u8]>, ValueProblem> {
        if data.len() <= max_bytes && self.is_exactly(data, INGRESS_ITEMS_MAX) {
            if self.reading != Reading::Plain {
                self.must_be_accepted(&self.value_of(data)?)?;
            }
            return Ok(Cow::Borrowed(data));
        }
        Ok(Cow::Owned(self.converted(data, max_bytes)?.0))
    }

    /// As `from_ingress`, with the value too.
    pub fn from_ingress_value<'a>(
        &self,
        data: &'a [u8],
        max_bytes: usize,
    ) -> Result<(Cow<'a, [u8]>, Value), ValueProblem> {
        if data.len() <= max_bytes && self.is_exactly(data, INGRESS_ITEMS_MAX) {
            let value = self.value_of(data)?;
            self.must_be_accepted(&value)?;
            return Ok((Cow::Borrowed(data), value));
        }
        let (canonical, value) = self.converted(data, max_bytes)?;
        Ok((Cow::Owned(canonical), value))
    }

    /// The slow path of `from_ingress`, which explains what does not fit.
    fn converted(&self, data: &[u8], max_bytes: usize) -> Result<(Vec<u8>, Value), ValueProblem> {
        let bounds = Bounds { bytes: max_bytes, ..INGRESS };
        let value = self.normalise(decode_ingress(data, bounds)?)?;
        let canonical = encode(&value);
        must_fit(&canonical, max_bytes)?;
        Ok((canonical, value))
    }

    /// Bytes of `encode` -> the value. Refused unless canonical and normal.
    pub fn from_record(&self, data: &[u8]) -> Result<Value, ValueProblem> {
        if self.is_normal(data) {
            return self.value_of(data);
        }
        // Damaged: the slow path finds the place.
        let value = decode_record(data, RECORD)?;
        let normal = self.normalise(value.clone())?;
        if normal != value {
            return Err(difference(&normal, &value));
        }
        Ok(value)
    }

    /// As `from_record`, but makes no value.
    pub fn check_record(&self, data: &[u8]) -> Result<(), ValueProblem> {
        if self.is_normal(data) {
            return Ok(());
        }
        self.from_record(data).map(|_| ())
    }

    /// Bytes that an earlier form of this schema encoded -> the canonical bytes of this one (V-46a):
    /// null in each record for every absent field of type option. `data` itself if none is absent.
    /// Refused if they differ from the normal form in any other way, or lack more fields than one
    /// value may (V-42).
    pub fn completed<'a>(&self, data: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueProblem> {
        self.refitted(data, Room::new())
    }

    /// As `from_record` of `completed`.
    pub fn completed_value(&self, data: &[u8]) -> Result<Value, ValueProblem> {
        self.from_record(&self.completed(data)?)
    }

    /// Bytes that an earlier or later form of this schema encoded -> the canonical bytes of this one
    /// (V-46b): as `completed`, and without the null fields that this form does not have.
    pub fn fitted<'a>(&self, data: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueProblem> {
        self.refitted(data, Room::leaving_out())
    }

    fn refitted<'a>(&self, data: &'a [u8], mut room: Room) -> Result<Cow<'a, [u8]>, ValueProblem> {
        if self.is_normal(data) {
            return Ok(Cow::Borrowed(data));
        }
        let value = decode_record(data, RECORD)?;
        let normal = self.codec.normal(value.clone(), &mut room)?;
        if !differs_in_nulls_alone(&normal, &value) {
            return Err(difference(&normal, &value));
        }
        Ok(Cow::Owned(encode(&normal)))
    }

    /// Canonical bytes of a value, which must be in normal form: it is not checked.
    pub fn encode(&self, value: &Value) -> Vec<u8> {
        encode(value)
    }

    /// Whether these are the canonical bytes of a value in normal form.
    pub fn is_normal(&self, data: &[u8]) -> bool {
        data.len() <= RECORD_BYTES_MAX && self.is_exactly(data, RECORD_ITEMS_MAX)
    }

    /// Whether `data` is the canonical bytes of a value in normal form, with at most so many items.
    fn is_exactly(&self, data: &[u8], items: usize) -> bool {
        // An item has at least one byte, so few bytes need no counting. The type bounds the depth.
        self.codec.read(data, 0) == Some(data.len())
            && (data.len() <= items || item_count(data) <= items)
    }

    /// The value of bytes that `is_exactly` accepted.
    fn value_of(&self, data: &[u8]) -> Result<Value, ValueProblem> {
        decode_record(data, RECORD)
    }

    fn must_be_accepted(&self, normal: &Value) -> Result<(), ValueProblem> {
        if self.reading != (Reading::HttpParams { has_secrets: false }) {
            return Ok(());
        }
        let Some(Value::Map(headers)) = normal.get("headers") else { return Ok(()) };
        for (name, header) in headers {
            if header.get("$tag").and_then(Value::as_text) != Some("literal") {
                // Part of a hashed fault: journals have these words (M-52).
                let message = "secrets are not supported by this version: expected text";
                return Err(ValueProblem::new(message).under_key(name).under_name("headers"));
            }
        }
        Ok(())
    }
}

/// Refuse canonical bytes that are longer than a value may be.
pub fn must_fit(canonical: &[u8], max_bytes: usize) -> Result<(), ValueProblem> {
    if canonical.len() <= max_bytes {
        return Ok(());
    }
    Err(ValueProblem::new(format!(
        "too large: expected at most {max_bytes} bytes in canonical form, found {}",
        canonical.len()
    )))
}

/// Compile all schemas of a manifest together, by name. In the result a schema follows all that it
/// refers to.
pub fn compile_schemas(
    types: &BTreeMap<Rc<str>, &Value>,
) -> Result<OrderedMap<Rc<str>, Rc<Schema>>, SchemaProblems> {
    let mut codecs = SeededMap::default();
    let mut schemas = OrderedMap::default();
    for (name, type_) in read_types(types)? {
        let codec = build(&type_, &codecs);
        codecs.insert(name.clone(), codec.clone());
        let schema = Schema { name: name.clone(), type_, codec, reading: Reading::Plain };
        schemas.insert(name, Rc::new(schema));
    }
    Ok(schemas)
}

/// The part of `value` that a key_field names: "order_id", "a.b", "$value.note_id".
pub fn value_at<'a>(value: &'a Value, dotted: &str) -> Result<&'a Value, ValueProblem> {
    let mut part = value;
    let mut path = "$".to_string();
    for name in dotted.split('.') {
        let Value::Map(_) = part else {
            let message = format!(
                "expected a record with the field {}, found {}",
                quoted(name),
                describe(part)
            );
            return Err(ValueProblem { message, path });
        };
        let Some(inner) = part.get(name) else {
            let message = format!("expected the field {}, found none", quoted(name));
            return Err(ValueProblem { message, path });
        };
        part = inner;
        path = format!("{path}.{name}");
    }
    Ok(part)
}

/// Params of HTTP in which each header that is text has the arm `literal`.
fn with_literals(value: Value) -> Value {
    let Value::Map(entries) = value else { return value };
    let tagged = |header: Value| match header {
        Value::Text(_) => Value::Map(vec![
            (Key::Text("$tag".to_string()), Value::Text("literal".to_string())),
            (Key::Text("$value".to_string()), header),
        ]),
        other => other,
    };
    let part = |(key, part): (Key, Value)| match (&key, part) {
        (Key::Text(name), Value::Map(headers)) if name == "headers" => {
            let headers =
                headers.into_iter().map(|(name, header)| (name, tagged(header))).collect();
            (key, Value::Map(headers))
        }
        (_, part) => (key, part),
    };
    Value::Map(entries.into_iter().map(part).collect())
}

/// The part with this key of a map in canonical order.
fn part_of<'a>(entries: &'a [(Key, Value)], key: &Key) -> Option<&'a Value> {
    let index = entries.binary_search_by(|(other, _)| key_order(other, key)).ok()?;
    Some(&entries[index].1)
}

/// Whether a value is its normal form except for fields that one of both has, as null. The maps of
/// both are in canonical order.
fn differs_in_nulls_alone(normal: &Value, actual: &Value) -> bool {
    match (normal, actual) {
        (Value::Map(normal), Value::Map(actual)) => {
            normal.iter().all(|(key, part)| match part_of(actual, key) {
                Some(actual_part) => differs_in_nulls_alone(part, actual_part),
                None => *part == Value::Null,
            }) && actual
                .iter()
                .all(|(key, part)| *part == Value::Null || part_of(normal, key).is_some())
        }
        (Value::List(normal), Value::List(actual)) => {
            normal.len() == actual.len()
                && normal.iter().zip(actual).all(|(a, b)| differs_in_nulls_alone(a, b))
        }
        _ => normal == actual,
    }
}

/// Describe the first place where a canonical value differs from its normal form.
fn difference(normal: &Value, actual: &Value) -> ValueProblem {
    match (normal, actual) {
        (Value::Map(normal), Value::Map(actual)) => {
            for (key, part) in normal {
                match part_of(actual, key) {
                    None => {
                        let message = "not in normal form: expected null, found no such field";
                        return ValueProblem::new(message).under_key(key);
                    }
                    Some(actual_part) if actual_part != part => {
                        return difference(part, actual_part).under_key(key);
                    }
                    Some(_) => {}
                }
            }
        }
        (Value::List(normal), Value::List(actual)) if normal.len() == actual.len() => {
            for (index, (part, actual_part)) in normal.iter().zip(actual).enumerate() {
                if part != actual_part {
                    return difference(part, actual_part).under_index(index);
                }
            }
        }
        _ => {}
    }
    let (expected, found) = (describe(normal), describe(actual));
    ValueProblem::new(format!("not in normal form: expected {expected}, found {found}"))
}
