//! Read CBOR of other libraries, and bring it into the normal form of a schema
//! (`kernel/aos/values/foreign.py`, spec/agentos.md, AG-20 to AG-23).
//!
//! Two steps: `decode_foreign` reads any well-formed CBOR. It ignores tags, accepts indefinite
//! lengths, uses the last of two equal keys, and reads `undefined` as null. `relaxed` then rewrites
//! the value as the schema's ingress gate expects it, and that gate refuses a value that does not
//! fit.

use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::values::cbor::{encode, Key, Value, INGRESS_DEPTH_MAX, INGRESS_ITEMS_MAX};
use crate::values::errors::ValueProblem;
use crate::values::expressions::{Parts, Scalar, Type, UNIT};
use crate::values::schema::{must_fit, Schema};

const BREAK: u8 = 0xFF;
const INDEFINITE: u8 = 31;

/// Read one item of CBOR, within the limits of the ingress gate. A float is refused.
pub fn decode_foreign(data: &[u8], max_bytes: usize) -> Result<Value, ValueProblem> {
    if data.len() > max_bytes {
        return Err(ValueProblem::malformed(
            format!("too large: expected at most {max_bytes} bytes, found {}", data.len()),
            max_bytes,
        ));
    }
    let mut reader = Reader { data, at: 0, items: INGRESS_ITEMS_MAX };
    let value = reader.item(INGRESS_DEPTH_MAX)?;
    if reader.at != data.len() {
        return Err(reader
            .problem(format!("expected the end, found {} bytes more", data.len() - reader.at)));
    }
    Ok(value)
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    items: usize,
}

impl<'a> Reader<'a> {
    fn item(&mut self, levels: usize) -> Result<Value, ValueProblem> {
        match self.items.checked_sub(1) {
            Some(rest) => self.items = rest,
            None => {
                let most = INGRESS_ITEMS_MAX;
                return Err(self.problem(format!("too many items: expected at most {most}")));
            }
        }
        let initial = self.take(1)?[0];
        let (major, info) = (initial >> 5, initial & 31);
        if major == 7 {
            return self.simple(info);
        }
        if major == 6 {
            self.argument(info)?;
            // A tag counts as a level, which bounds a chain of tags.
            let levels = self.levels_below(levels)?;
            return self.item(levels);
        }
        if info == INDEFINITE && major > 1 {
            return self.indefinite(major, levels);
        }
        let n = self.argument(info)?;
        match major {
            0 => Ok(Value::Int(n as i128)),
            1 => Ok(Value::Int(-1 - n as i128)),
            2 | 3 => {
                let data = self.take(n)?.to_vec();
                self.string(major, data)
            }
            _ => self.container(major, n, levels),
        }
    }

    fn simple(&mut self, info: u8) -> Result<Value, ValueProblem> {
        let float_bytes = match info {
            20 => return Ok(Value::Bool(false)),
            21 => return Ok(Value::Bool(true)),
            22 | 23 => return Ok(Value::Null),
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return Err(self.problem("a simple value that means nothing")),
        };
        self.take(float_bytes)?;
        Err(self.problem("a float: expected null, bool, integer, bytes, text, array or map"))
    }

    fn string(&self, major: u8, data: Vec<u8>) -> Result<Value, ValueProblem> {
        if major == 2 {
            return Ok(Value::Bytes(data));
        }
        String::from_utf8(data)
            .map(Value::Text)
            .map_err(|_| self.problem("text is not valid UTF-8"))
    }

    fn container(&mut self, major: u8, n: u64, levels: usize) -> Result<Value, ValueProblem> {
        if n > (self.data.len() - self.at) as u64 {
            return Err(self.problem(format!("cut short: expected {n} items")));
        }
        let levels = self.levels_below(levels)?;
        if major == 4 {
            return (0..n).map(|_| self.item(levels)).collect::<Result<_, _>>().map(Value::List);
        }
        let mut entries = OrderedMap::default();
        for _ in 0..n {
            let (key, value) = self.entry(levels)?;
            entries.insert(key, value);
        }
        Ok(Value::Map(entries.into_entries()))
    }

    fn indefinite(&mut self, major: u8, levels: usize) -> Result<Value, ValueProblem> {
        let levels = self.levels_below(levels)?;
        if major < 4 {
            let mut parts = Vec::new();
            while !self.ends() {
                let initial = self.take(1)?[0];
                if initial >> 5 != major || initial & 31 == INDEFINITE {
                    return Err(self.problem("a chunk of another kind"));
                }
                let n = self.argument(initial & 31)?;
                parts.extend_from_slice(self.take(n)?);
            }
            return self.string(major, parts);
        }
        if major == 4 {
            let mut items = Vec::new();
            while !self.ends() {
                items.push(self.item(levels)?);
            }
            return Ok(Value::List(items));
        }
        let mut entries = OrderedMap::default();
        while !self.ends() {
            let (key, value) = self.entry(levels)?;
            entries.insert(key, value);
        }
        Ok(Value::Map(entries.into_entries()))
    }

    fn entry(&mut self, levels: usize) -> Result<(Key, Value), ValueProblem> {
        let key = match self.item(0)? {
            Value::Int(n) => Key::Int(n),
            Value::Text(text) => Key::Text(text),
            _ => return Err(self.problem("map key: expected text or an integer")),
        };
        Ok((key, self.item(levels)?))
    }

    fn ends(&mut self) -> bool {
        let ends = self.data.get(self.at) == Some(&BREAK);
        self.at += ends as usize;
        ends
    }

    fn argument(&mut self, info: u8) -> Result<u64, ValueProblem> {
        if info < 24 {
            return Ok(info as u64);
        }
        if info > 27 {
            return Err(self.problem("not CBOR: a reserved head"));
        }
        Ok(self.take(1 << (info - 24))?.iter().fold(0, |sum, &byte| sum << 8 | byte as u64))
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], ValueProblem> {
        if n > (self.data.len() - self.at) as u64 {
            return Err(self.problem(format!("cut short: expected {n} bytes")));
        }
        let chunk = &self.data[self.at..self.at + n as usize];
        self.at += n as usize;
        Ok(chunk)
    }

    fn levels_below(&self, levels: usize) -> Result<usize, ValueProblem> {
        levels
            .checked_sub(1)
            .ok_or_else(|| self.problem("nested too deep: expected no container here"))
    }

    fn problem(&self, message: impl AsRef<str>) -> ValueProblem {
        ValueProblem::malformed(message, self.at)
    }
}

type Schemas = OrderedMap<Rc<str>, Rc<Schema>>;

/// Rewrite a value of another program as the ingress gate of `type_` reads it, where its meaning is
/// unambiguous. It checks nothing and keeps unknown parts unchanged.
///
/// `{Arm: v}` and `"Arm"` become variants, `$value` of a unit arm is removed, text and lists of
/// numbers become bytes where bytes are expected, `"true"` becomes a bool, null becomes a record
/// without fields, and anything becomes unit.
fn relaxed<'a>(mut type_: &'a Type, value: Value, schemas: &'a Schemas) -> Value {
    // A chain of aliases may be as long as a manifest.
    while let Type::TypeRef(name) = type_ {
        let Some(schema) = schemas.get(name) else { return value };
        type_ = &schema.type_;
    }
    match (type_, value) {
        (Type::Option(_), Value::Null) => Value::Null,
        (Type::Option(item), value) => relaxed(item, value, schemas),
        (Type::ListOf(item) | Type::SetOf(item), Value::List(items)) => {
            Value::List(items.into_iter().map(|part| relaxed(item, part, schemas)).collect())
        }
        (Type::MapOf(_, item), Value::Map(entries)) => Value::Map(
            entries.into_iter().map(|(key, part)| (key, relaxed(item, part, schemas))).collect(),
        ),
        (Type::Record(fields), Value::Null) if fields.is_empty() => Value::Map(Vec::new()),
        (Type::Record(fields), Value::Map(entries)) => {
            let types: std::collections::BTreeMap<&str, &Type> =
                fields.iter().map(|(name, field)| (&**name, field)).collect();
            let part = |(key, part): (Key, Value)| match &key {
                Key::Text(name) => match types.get(name.as_str()) {
                    Some(field) => (key, relaxed(field, part, schemas)),
                    None => (key, part),
                },
                Key::Int(_) => (key, part),
            };
            Value::Map(entries.into_iter().map(part).collect())
        }
        (Type::Variant(arms), value) => variant(arms, value, schemas),
        (Type::Scalar(scalar), value) => relaxed_scalar(*scalar, value),
        (_, value) => value,
    }
}

fn variant(arms: &Parts, value: Value, schemas: &Schemas) -> Value {
    let Some((tag, has_value)) = arm(&value) else { return value };
    let Some((tag, arm)) = arms.iter().find(|(name, _)| **name == *tag) else { return value };
    let tag_entry = (Key::Text("$tag".to_string()), Value::Text(tag.to_string()));
    if *arm == UNIT {
        return Value::Map(vec![tag_entry]);
    }
    if !has_value && !needs_no_value(arm, schemas) {
        return value;
    }
    let content = match value {
        Value::Map(entries) => {
            let is_content = |key: &Key| !matches!(key, Key::Text(name) if name == "$tag");
            let mut parts = entries.into_iter().filter(|(key, _)| is_content(key));
            parts.next().map_or(Value::Null, |(_, part)| part)
        }
        _ => Value::Null,
    };
    let content = relaxed(arm, content, schemas);
    Value::Map(vec![tag_entry, (Key::Text("$value".to_string()), content)])
}

/// Whether an arm has one value only, so that it may be left out: a unit behind a ref, or a record
/// without fields.
fn needs_no_value<'a>(mut arm: &'a Type, schemas: &'a Schemas) -> bool {
    while let Type::TypeRef(name) = arm {
        match schemas.get(name) {
            Some(schema) => arm = &schema.type_,
            None => return false,
        }
    }
    *arm == UNIT || matches!(arm, Type::Record(fields) if fields.is_empty())
}

/// (arm, whether it has a value). In a map, that value is the entry that is not `$tag`.
fn arm(value: &Value) -> Option<(String, bool)> {
    match value {
        Value::Text(tag) => Some((tag.clone(), false)),
        Value::Map(entries) => match value.get("$tag") {
            Some(Value::Text(tag)) => {
                let is_plain = |key: &Key| matches!(key, Key::Text(name) if name == "$tag" || name == "$value");
                let has_value = value.get("$value").is_some();
                entries.iter().all(|(key, _)| is_plain(key)).then(|| (tag.clone(), has_value))
            }
            Some(_) => None,
            None => match entries.as_slice() {
                [(Key::Text(tag), _)] => Some((tag.clone(), true)),
                _ => None,
            },
        },
        _ => None,
    }
}

fn relaxed_scalar(scalar: Scalar, value: Value) -> Value {
    match (scalar, value) {
        (Scalar::Unit, _) => Value::Null,
        (Scalar::Bytes, Value::Text(text)) => Value::Bytes(text.into_bytes()),
        (Scalar::Bytes, Value::List(items)) => {
            let byte = |item: &Value| match item {
                Value::Int(n) => u8::try_from(*n).ok(),
                _ => None,
            };
            match items.iter().map(byte).collect() {
                Some(data) => Value::Bytes(data),
                None => Value::List(items),
            }
        }
        (Scalar::Bool, Value::Text(text)) => match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Text(text),
        },
        (_, value) => value,
    }
}

/// (canonical bytes, value) in the normal form of `schema`; `schemas` has what it refers to. Refused
/// if it does not fit, or is too large.
pub fn from_foreign(
    schema: &Schema,
    schemas: &Schemas,
    data: &[u8],
    max_bytes: usize,
) -> Result<(Vec<u8>, Value), ValueProblem> {
    let value = relaxed(&schema.type_, decode_foreign(data, max_bytes)?, schemas);
    let normal = schema.normalise(value)?;
    let canonical = encode(&normal);
    must_fit(&canonical, max_bytes)?;
    Ok((canonical, normal))
}
