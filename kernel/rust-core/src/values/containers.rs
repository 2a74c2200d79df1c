//! The codecs of maps, records and variants, and `build`, which makes the codec of a Type
//! (`kernel/aos/values/containers.py`, V-39 to V-46).

use std::rc::Rc;

use crate::collections::{SeededMap, SeededSet};
use crate::values::cbor::{key_order, put_head, put_text, Key, Value, MAP, TEXT};
use crate::values::codec::{mismatch, read_length, Codec, Room};
use crate::values::errors::{quoted, ValueProblem};
use crate::values::expressions::{Scalar, Type, UNIT};
use crate::values::show::describe;

const NAMES_SHOWN_MAX: usize = 8;

/// The codec of a type. `codecs` must have every schema that `type_` refers to.
pub fn build(type_: &Type, codecs: &SeededMap<Rc<str>, Rc<Codec>>) -> Rc<Codec> {
    Rc::new(match type_ {
        Type::TypeRef(name) => return codecs[name].clone(),
        Type::Scalar(scalar) => Codec::Scalar(*scalar),
        Type::Option(item) => Codec::Option(build(item, codecs)),
        Type::ListOf(item) => Codec::List(build(item, codecs)),
        Type::SetOf(item) => Codec::Set(build(item, codecs)),
        Type::MapOf(key, item) => Codec::Map(MapCodec { key: *key, item: build(item, codecs) }),
        Type::Record(fields) => Codec::Record(RecordCodec::new(
            fields.iter().map(|(name, field)| (name.clone(), build(field, codecs))),
        )),
        Type::Variant(arms) => Codec::Variant(VariantCodec::new(
            arms.iter().map(|(tag, arm)| (tag.clone(), (*arm != UNIT).then(|| build(arm, codecs)))),
        )),
    })
}

// Map

#[derive(Debug)]
pub struct MapCodec {
    key: Scalar,
    item: Rc<Codec>,
}

impl MapCodec {
    pub fn normal(&self, value: Value, room: &mut Room) -> Result<Value, ValueProblem> {
        let Value::Map(entries) = value else { return Err(mismatch("map", &value)) };
        // Two spellings of one uuid can meet; the keys of other types have one spelling.
        let mut names: Option<SeededSet<Key>> = (self.key == Scalar::Uuid).then(Default::default);
        let mut out = Vec::with_capacity(entries.len());
        for (key, element) in entries {
            let name = self
                .key
                .normal_key(&key)
                .map_err(|problem| ValueProblem::new(format!("map key: {}", problem.message)))?;
            if names.as_mut().is_some_and(|names| !names.insert(name.clone())) {
                let described = describe(&key_value(&name));
                return Err(ValueProblem::new(format!("map key: duplicate {described}")));
            }
            let part =
                self.item.normal(element, room).map_err(|problem| problem.under_key(&key))?;
            out.push((name, part));
        }
        out.sort_by(|(a, _), (b, _)| key_order(a, b));
        Ok(Value::Map(out))
    }

    pub fn read(&self, data: &[u8], at: usize) -> Option<usize> {
        let (n, mut at) = read_length(data, at, MAP)?;
        let mut last: &[u8] = &[];
        for _ in 0..n {
            let end = self.key.read(data, at)?;
            let encoded = &data[at..end];
            if encoded <= last {
                return None;
            }
            last = encoded;
            at = self.item.read(data, end)?;
        }
        Some(at)
    }
}

fn key_value(key: &Key) -> Value {
    match key {
        Key::Int(n) => Value::Int(*n),
        Key::Text(text) => Value::Text(text.clone()),
    }
}

// Record

#[derive(Debug)]
struct Field {
    name: Rc<str>,
    /// The encoded key of its entry.
    key: Vec<u8>,
    codec: Rc<Codec>,
}

#[derive(Debug)]
pub struct RecordCodec {
    head: Vec<u8>,
    /// In the order of the encoded keys.
    fields: Vec<Field>,
}

impl RecordCodec {
    fn new(fields: impl Iterator<Item = (Rc<str>, Rc<Codec>)>) -> Self {
        let mut fields: Vec<Field> =
            fields.map(|(name, codec)| Field { key: text_bytes(&name), name, codec }).collect();
        fields.sort_by(|a, b| a.key.cmp(&b.key));
        let mut head = Vec::new();
        put_head(&mut head, MAP, fields.len() as u64);
        RecordCodec { head, fields }
    }

    pub fn normal(&self, value: Value, room: &mut Room) -> Result<Value, ValueProblem> {
        let Value::Map(entries) = value else { return Err(mismatch("record", &value)) };
        // If there are as many keys as fields, and each field is among them, no other key is left.
        let is_whole = entries.len() == self.fields.len() && !room.leaves_out;
        let mut parts: Vec<Option<Value>> = self.fields.iter().map(|_| None).collect();
        let mut unknown = None;
        for (place, (key, part)) in entries.into_iter().enumerate() {
            match self.index_of(&key, place) {
                Some(index) => parts[index] = Some(part),
                None if room.leaves_out && part == Value::Null => {}
                None if unknown.is_none() => unknown = Some(key),
                None => {}
            }
        }
        if !is_whole {
            self.complete(unknown.as_ref(), &parts, room)?;
        }
        let mut out = Vec::with_capacity(self.fields.len());
        for (field, part) in self.fields.iter().zip(parts) {
            if let (true, None, Some(key)) = (is_whole, &part, &unknown) {
                return Err(self.unknown_field(key, room));
            }
            let part = field
                .codec
                .normal(part.unwrap_or(Value::Null), room)
                .map_err(|problem| problem.under_name(&field.name))?;
            out.push((Key::Text(field.name.to_string()), part));
        }
        Ok(Value::Map(out))
    }

    /// The index of the field with this name, which is likely at `place`.
    fn index_of(&self, key: &Key, place: usize) -> Option<usize> {
        let Key::Text(name) = key else { return None };
        let order = |field: &Field| {
            field.name.len().cmp(&name.len()).then_with(|| (*field.name).cmp(name.as_str()))
        };
        match self.fields.get(place) {
            Some(field) if order(field).is_eq() => Some(place),
            _ => self.fields.binary_search_by(order).ok(),
        }
    }

    /// Take room for the absent options; refuse a field that is not known, or that is missing.
    fn complete(
        &self,
        unknown: Option<&Key>,
        parts: &[Option<Value>],
        room: &mut Room,
    ) -> Result<(), ValueProblem> {
        if let Some(key) = unknown {
            return Err(self.unknown_field(key, room));
        }
        let mut absent = 0;
        for (field, part) in self.fields.iter().zip(parts) {
            if part.is_none() {
                if !field.codec.may_be_absent() {
                    return Err(missing(&field.codec).under_name(&field.name));
                }
                absent += 1;
            }
        }
        room.take(absent)
    }

    fn unknown_field(&self, key: &Key, room: &Room) -> ValueProblem {
        let but = if room.leaves_out { " that is not null" } else { "" };
        let names: Vec<&str> = self.fields.iter().map(|field| &*field.name).collect();
        ValueProblem::new(format!("unknown field{but} (known: {})", names_text(&names)))
            .under_key(key)
    }

    pub fn read(&self, data: &[u8], at: usize) -> Option<usize> {
        let mut at = after(data, at, &self.head)?;
        for field in &self.fields {
            at = field.codec.read(data, after(data, at, &field.key)?)?;
        }
        Some(at)
    }
}

fn missing(codec: &Codec) -> ValueProblem {
    ValueProblem::new(format!("missing: expected {}", codec.type_name()))
}

/// The position after `expected`, if `data` has these bytes at `at`.
fn after(data: &[u8], at: usize, expected: &[u8]) -> Option<usize> {
    data.get(at..)?.starts_with(expected).then_some(at + expected.len())
}

// Variant

const TAG: &[u8] = b"\x64$tag";
const VALUE: &[u8] = b"\x66$value";

/// An arm of a variant; its codec is None for unit.
#[derive(Debug)]
struct Arm {
    tag: Rc<str>,
    codec: Option<Rc<Codec>>,
}

impl Arm {
    /// Whether its value may be left out at ingress: also behind a ref.
    fn is_unit(&self) -> bool {
        self.codec.as_ref().map_or(true, |codec| matches!(**codec, Codec::Scalar(Scalar::Unit)))
    }
}

#[derive(Debug)]
pub struct VariantCodec {
    /// In the order of the tags.
    arms: Vec<Arm>,
}

impl VariantCodec {
    fn new(arms: impl Iterator<Item = (Rc<str>, Option<Rc<Codec>>)>) -> Self {
        let mut arms: Vec<Arm> = arms.map(|(tag, codec)| Arm { tag, codec }).collect();
        arms.sort_by(|a, b| a.tag.cmp(&b.tag));
        VariantCodec { arms }
    }

    fn arm_at(&self, tag: &[u8]) -> Option<&Arm> {
        let index = self.arms.binary_search_by(|arm| arm.tag.as_bytes().cmp(tag)).ok()?;
        Some(&self.arms[index])
    }

    fn arm(&self, tag: &Value) -> Result<&Arm, ValueProblem> {
        let Value::Text(tag) = tag else { return Err(mismatch("an arm name", tag)) };
        self.arm_at(tag.as_bytes()).ok_or_else(|| {
            let names: Vec<&str> = self.arms.iter().map(|arm| &*arm.tag).collect();
            let known = names_text(&names);
            ValueProblem::new(format!("unknown arm {} (known: {known})", quoted(tag)))
        })
    }

    pub fn normal(&self, value: Value, room: &mut Room) -> Result<Value, ValueProblem> {
        let Some(tag) = value.get("$tag") else {
            return Err(mismatch("variant {\"$tag\", \"$value\"}", &value));
        };
        let arm = self.arm(tag).map_err(|problem| problem.under_name("$tag"))?;
        let Value::Map(entries) = value else { return Err(mismatch("variant", &value)) };
        let mut inner = None;
        for (key, part) in entries {
            match &key {
                Key::Text(name) if name == "$tag" => {}
                Key::Text(name) if name == "$value" => inner = Some(part),
                _ => {
                    let message = "unknown field of a variant (known: $tag, $value)";
                    return Err(ValueProblem::new(message).under_key(&key));
                }
            }
        }
        let tag = (Key::Text("$tag".to_string()), Value::Text(arm.tag.to_string()));
        let Some(codec) = &arm.codec else {
            return match inner {
                None => Ok(Value::Map(vec![tag])),
                Some(_) => {
                    Err(ValueProblem::new("expected no $value in a unit arm").under_name("$value"))
                }
            };
        };
        if inner.is_none() && !arm.is_unit() {
            return Err(missing(codec).under_name("$value"));
        }
        let part = codec
            .normal(inner.unwrap_or(Value::Null), room)
            .map_err(|problem| problem.under_name("$value"))?;
        Ok(Value::Map(vec![tag, (Key::Text("$value".to_string()), part)]))
    }

    pub fn read(&self, data: &[u8], at: usize) -> Option<usize> {
        let &head = data.get(at)?;
        let start = after(data, at + 1, TAG)?;
        let (n, start) = read_length(data, start, TEXT)?;
        let end = start.checked_add(usize::try_from(n).ok()?)?;
        let arm = self.arm_at(data.get(start..end)?)?;
        match &arm.codec {
            None => (head == MAP | 1).then_some(end),
            Some(codec) if head == MAP | 2 => codec.read(data, after(data, end, VALUE)?),
            Some(_) => None,
        }
    }
}

fn text_bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, text);
    out
}

fn names_text(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_string();
    }
    let shown = names[..names.len().min(NAMES_SHOWN_MAX)].join(", ");
    let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    format!("{shown}{more}")
}
