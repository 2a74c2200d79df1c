//! The base of codecs, which check and convert the values of one type
//! (`kernel/aos/values/codec.py`, V-30 ff.).
//!
//! `read` is the fast path: it checks canonical bytes of a normal value in place and makes no value.
//! It never explains: the slow path, `decode_ingress` or `decode_record` and then `normal`, finds
//! the problem.

use std::rc::Rc;

use crate::values::cbor::{encode, Value, ARRAY, BYTES, NULL, TEXT};
use crate::values::containers::{MapCodec, RecordCodec, VariantCodec};
use crate::values::errors::ValueProblem;
use crate::values::expressions::Scalar;
use crate::values::show::describe;

/// Maximum number of absent option fields in one value: it bounds how large a short input can
/// become.
pub const FILLED_FIELDS_MAX: usize = 65_536;

/// Counts how many absent fields may still be filled in, in one value.
pub struct Room {
    fields: usize,
    /// Whether a record drops null fields that its type does not have (V-46b).
    pub leaves_out: bool,
}

impl Room {
    pub fn new() -> Self {
        Room { fields: FILLED_FIELDS_MAX, leaves_out: false }
    }

    pub fn leaving_out() -> Self {
        Room { leaves_out: true, ..Room::new() }
    }

    pub fn take(&mut self, fields: usize) -> Result<(), ValueProblem> {
        match self.fields.checked_sub(fields) {
            Some(rest) => {
                self.fields = rest;
                Ok(())
            }
            None => Err(ValueProblem::new(format!(
                "too many absent fields: expected at most {FILLED_FIELDS_MAX}"
            ))),
        }
    }
}

impl Default for Room {
    fn default() -> Self {
        Room::new()
    }
}

/// The operations on values of one type.
#[derive(Debug)]
pub enum Codec {
    Scalar(Scalar),
    Option(Rc<Codec>),
    List(Rc<Codec>),
    Set(Rc<Codec>),
    Map(MapCodec),
    Record(RecordCodec),
    Variant(VariantCodec),
}

impl Codec {
    /// The type's name in error messages.
    pub fn type_name(&self) -> String {
        match self {
            Codec::Scalar(scalar) => scalar.type_name().to_string(),
            Codec::Option(item) => format!("{} or null", item.type_name()),
            Codec::List(_) => "list".to_string(),
            Codec::Set(_) => "set".to_string(),
            Codec::Map(_) => "map".to_string(),
            Codec::Record(_) => "record".to_string(),
            Codec::Variant(_) => "variant".to_string(),
        }
    }

    /// Whether a record may omit a field of this type.
    pub fn may_be_absent(&self) -> bool {
        matches!(self, Codec::Option(_))
    }

    /// Value from the ingress gate -> normal form.
    pub fn normal(&self, value: Value, room: &mut Room) -> Result<Value, ValueProblem> {
        match self {
            Codec::Scalar(scalar) => scalar.normal(value),
            Codec::Option(_) if value == Value::Null => Ok(value),
            Codec::Option(item) => item.normal(value, room),
            Codec::List(item) => Ok(Value::List(walk_list("list", value, item, room)?)),
            Codec::Set(item) => Ok(Value::List(sorted(walk_list("set", value, item, room)?))),
            Codec::Map(map) => map.normal(value, room),
            Codec::Record(record) => record.normal(value, room),
            Codec::Variant(variant) => variant.normal(value, room),
        }
    }

    /// The position after the canonical bytes of a normal value at `at`; None if there are none.
    pub fn read(&self, data: &[u8], at: usize) -> Option<usize> {
        match self {
            Codec::Scalar(scalar) => scalar.read(data, at),
            Codec::Option(item) => match data.get(at)? {
                &NULL => Some(at + 1),
                _ => item.read(data, at),
            },
            Codec::List(item) => {
                let (n, mut at) = read_length(data, at, ARRAY)?;
                for _ in 0..n {
                    at = item.read(data, at)?;
                }
                Some(at)
            }
            Codec::Set(item) => {
                let (n, mut at) = read_length(data, at, ARRAY)?;
                let mut last: &[u8] = &[];
                for _ in 0..n {
                    let end = item.read(data, at)?;
                    let encoded = &data[at..end];
                    if encoded <= last {
                        return None;
                    }
                    last = encoded;
                    at = end;
                }
                Some(at)
            }
            Codec::Map(map) => map.read(data, at),
            Codec::Record(record) => record.read(data, at),
            Codec::Variant(variant) => variant.read(data, at),
        }
    }
}

fn walk_list(
    expected: &str,
    value: Value,
    item: &Codec,
    room: &mut Room,
) -> Result<Vec<Value>, ValueProblem> {
    let Value::List(elements) = value else { return Err(mismatch(expected, &value)) };
    let mut out = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        out.push(item.normal(element, room).map_err(|problem| problem.under_index(index))?);
    }
    Ok(out)
}

/// The elements of a set, which ascend by their encoded bytes.
fn sorted(elements: Vec<Value>) -> Vec<Value> {
    let by_bytes: std::collections::BTreeMap<Vec<u8>, Value> =
        elements.into_iter().map(|element| (encode(&element), element)).collect();
    by_bytes.into_values().collect()
}

pub fn mismatch(expected: &str, value: &Value) -> ValueProblem {
    ValueProblem::new(format!("expected {expected}, found {}", describe(value)))
}

// Heads for `read`: only the shortest form is accepted. Each returns (…, position after it).

pub fn read_argument(data: &[u8], at: usize) -> Option<(u64, usize)> {
    let info = data.get(at)? & 31;
    if info < 24 {
        return Some((info as u64, at + 1));
    }
    if info > 27 {
        return None;
    }
    let end = at + 1 + (1 << (info - 24));
    let n = data.get(at + 1..end)?.iter().fold(0u64, |sum, &byte| sum << 8 | byte as u64);
    const LEAST: [u64; 4] = [24, 0x100, 0x1_0000, 0x1_0000_0000];
    (n >= LEAST[(info - 24) as usize]).then_some((n, end))
}

pub fn read_length(data: &[u8], at: usize, major: u8) -> Option<(u64, usize)> {
    if data.get(at)? & 0xE0 != major {
        return None;
    }
    read_argument(data, at)
}

/// A natural number below 2^64.
pub fn read_nat(data: &[u8], at: usize) -> Option<(u64, usize)> {
    read_length(data, at, 0x00)
}

pub fn read_text(data: &[u8], at: usize) -> Option<(&str, usize)> {
    let (bytes, end) = read_string(data, at, TEXT)?;
    Some((std::str::from_utf8(bytes).ok()?, end))
}

pub fn read_bytes(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    read_string(data, at, BYTES)
}

fn read_string(data: &[u8], at: usize, major: u8) -> Option<(&[u8], usize)> {
    let (n, start) = read_length(data, at, major)?;
    let end = start.checked_add(usize::try_from(n).ok()?)?;
    Some((data.get(start..end)?, end))
}
