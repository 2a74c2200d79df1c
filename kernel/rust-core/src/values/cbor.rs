//! Canonical CBOR: write a value in its only spelling, and read bytes at two gates.
//!
//! The rules and the texts of errors are those of `kernel/aos/values/cbor.py` (spec/values.md, V-10
//! to V-19).

use std::cmp::Ordering;

use crate::values::errors::{quoted, ValueProblem};

pub const INGRESS_BYTES_MAX: usize = 1 << 20;
pub const INGRESS_ITEMS_MAX: usize = 65_536;
pub const INGRESS_DEPTH_MAX: usize = 64;
pub const RECORD_BYTES_MAX: usize = 1 << 26;
pub const RECORD_ITEMS_MAX: usize = 1 << 22;
pub const RECORD_DEPTH_MAX: usize = 128;

pub const FALSE: u8 = 0xF4;
pub const TRUE: u8 = 0xF5;
pub const NULL: u8 = 0xF6;
/// Tag 55799.
pub const SELF_DESCRIBED: [u8; 3] = [0xD9, 0xD9, 0xF7];

pub const BYTES: u8 = 0x40;
pub const TEXT: u8 = 0x60;
pub const ARRAY: u8 = 0x80;
pub const MAP: u8 = 0xA0;

/// A value of any type. Integers are between -2^64 and 2^64-1. A map keeps the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Key, Value)>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Int(i128),
    Text(String),
}

impl Value {
    /// The entry of a map with a text key; None if this is no map or has no such key.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => entries
                .iter()
                .find(|(key, _)| matches!(key, Key::Text(text) if text == name))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(data) => Some(data),
            _ => None,
        }
    }

    /// A natural number below 2^64.
    pub fn as_nat(&self) -> Option<u64> {
        match self {
            Value::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

// Writing. Each function appends to `out`.

/// The shortest head; `major` is the major type already shifted (0x40 for bytes).
pub fn put_head(out: &mut Vec<u8>, major: u8, n: u64) {
    if n < 24 {
        out.push(major | n as u8);
    } else if n < 0x100 {
        out.extend_from_slice(&[major | 24, n as u8]);
    } else if n < 0x1_0000 {
        out.push(major | 25);
        out.extend_from_slice(&(n as u16).to_be_bytes());
    } else if n < 0x1_0000_0000 {
        out.push(major | 26);
        out.extend_from_slice(&(n as u32).to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend_from_slice(&n.to_be_bytes());
    }
}

pub fn put_nat(out: &mut Vec<u8>, n: u64) {
    put_head(out, 0x00, n);
}

/// An integer between -2^64 and 2^64-1.
pub fn put_integer(out: &mut Vec<u8>, n: i128) {
    if n >= 0 {
        put_head(out, 0x00, n as u64);
    } else {
        put_head(out, 0x20, (-1 - n) as u64);
    }
}

pub fn put_bytes(out: &mut Vec<u8>, data: &[u8]) {
    put_head(out, BYTES, data.len() as u64);
    out.extend_from_slice(data);
}

pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub fn put_array(out: &mut Vec<u8>, items: usize) {
    put_head(out, ARRAY, items as u64);
}

pub fn put_map(out: &mut Vec<u8>, entries: usize) {
    put_head(out, MAP, entries as u64);
}

pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { TRUE } else { FALSE });
}

pub fn put_null(out: &mut Vec<u8>) {
    out.push(NULL);
}

pub fn put_key(out: &mut Vec<u8>, key: &Key) {
    match key {
        Key::Int(n) => put_integer(out, *n),
        Key::Text(text) => put_text(out, text),
    }
}

/// Append the canonical bytes of a value: the entries of its maps are put in their order.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => put_null(out),
        Value::Bool(b) => put_bool(out, *b),
        Value::Int(n) => put_integer(out, *n),
        Value::Bytes(data) => put_bytes(out, data),
        Value::Text(text) => put_text(out, text),
        Value::List(items) => {
            put_array(out, items.len());
            for item in items {
                put_value(out, item);
            }
        }
        Value::Map(entries) => {
            put_map(out, entries.len());
            let is_sorted =
                entries.windows(2).all(|pair| key_order(&pair[0].0, &pair[1].0).is_lt());
            let mut rows: Vec<&(Key, Value)> = entries.iter().collect();
            if !is_sorted {
                rows.sort_by(|a, b| key_order(&a.0, &b.0));
            }
            for (key, item) in rows {
                put_key(out, key);
                put_value(out, item);
            }
        }
    }
}

/// The order of the encoded keys.
pub fn key_order(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Key::Int(a), Key::Int(b)) => (*a < 0, a.unsigned_abs()).cmp(&(*b < 0, b.unsigned_abs())),
        (Key::Int(_), Key::Text(_)) => Ordering::Less,
        (Key::Text(_), Key::Int(_)) => Ordering::Greater,
        (Key::Text(a), Key::Text(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
    }
}

/// The canonical bytes of a value.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_value(&mut out, value);
    out
}

// Reading

/// The bounds of one reading.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub bytes: usize,
    pub items: usize,
    pub depth: usize,
}

pub const RECORD: Bounds =
    Bounds { bytes: RECORD_BYTES_MAX, items: RECORD_ITEMS_MAX, depth: RECORD_DEPTH_MAX };
pub const INGRESS: Bounds =
    Bounds { bytes: INGRESS_BYTES_MAX, items: INGRESS_ITEMS_MAX, depth: INGRESS_DEPTH_MAX };

/// Read the bytes of `encode`. One byte that is not canonical is a problem.
pub fn decode_record(data: &[u8], bounds: Bounds) -> Result<Value, ValueProblem> {
    Gate::new(data, true, bounds)?.read(0, bounds.depth)
}

/// Read another program's bytes: any key order and integer width, one leading tag 55799.
pub fn decode_ingress(data: &[u8], bounds: Bounds) -> Result<Value, ValueProblem> {
    let start = if data.starts_with(&SELF_DESCRIBED) { SELF_DESCRIBED.len() } else { 0 };
    Gate::new(data, false, bounds)?.read(start, bounds.depth)
}

/// (major type, argument, position after the head) of an item of canonical bytes. Major 7 has no
/// argument.
fn head_at(data: &[u8], at: usize) -> Option<(u8, u64, usize)> {
    let &initial = data.get(at)?;
    let info = initial & 31;
    if info < 24 || initial >= FALSE {
        return Some((initial >> 5, info as u64, at + 1));
    }
    let end = at + 1 + (1 << (info - 24));
    let bytes = data.get(at + 1..end)?;
    Some((initial >> 5, bytes.iter().fold(0, |sum, &byte| sum << 8 | byte as u64), end))
}

/// The position after an item of canonical bytes, which were read before.
pub fn item_end(data: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    let mut items = 1u64;
    while items > 0 {
        let (major, n, start) = head_at(data, at)?;
        items -= 1;
        at = start;
        match major {
            2 | 3 => at = start.checked_add(usize::try_from(n).ok()?)?,
            4 => items = items.checked_add(n)?,
            5 => items = items.checked_add(n.checked_mul(2)?)?,
            _ => {}
        }
    }
    Some(at)
}

/// The position of the value that a map of canonical bytes has at a text key; None if it has no such
/// key, or there is no map at `at`.
pub fn entry_at(data: &[u8], at: usize, name: &str) -> Option<usize> {
    let (5, entries, mut at) = head_at(data, at)? else { return None };
    for _ in 0..entries {
        let (major, n, start) = head_at(data, at)?;
        let end = item_end(data, at)?;
        if major == 3 && n == name.len() as u64 && data.get(start..end)? == name.as_bytes() {
            return Some(end);
        }
        at = item_end(data, end)?;
    }
    None
}

/// How many items canonical bytes have: everything with a head counts, also a key. The bytes must
/// have been read before.
pub fn item_count(data: &[u8]) -> usize {
    let mut at = 0;
    let mut items = 0;
    while let Some((major, n, start)) = head_at(data, at) {
        items += 1;
        at = match major {
            2 | 3 => start.saturating_add(n as usize),
            _ => start,
        };
    }
    items
}

struct Gate<'a> {
    data: &'a [u8],
    canonical: bool,
    items_max: usize,
    items: usize,
}

impl<'a> Gate<'a> {
    fn new(data: &'a [u8], canonical: bool, bounds: Bounds) -> Result<Self, ValueProblem> {
        if data.len() > bounds.bytes {
            return Err(ValueProblem::malformed(
                format!("too large: expected at most {} bytes, found {}", bounds.bytes, data.len()),
                bounds.bytes,
            ));
        }
        Ok(Gate { data, canonical, items_max: bounds.items, items: bounds.items - 1 })
    }

    fn read(&mut self, start: usize, levels: usize) -> Result<Value, ValueProblem> {
        let (value, end) = self.item(start, levels)?;
        if end != self.data.len() {
            return Err(ValueProblem::malformed(
                format!("expected the end, found {} bytes more", self.data.len() - end),
                end,
            ));
        }
        Ok(value)
    }

    fn item(&mut self, at: usize, levels: usize) -> Result<(Value, usize), ValueProblem> {
        let Some(&initial) = self.data.get(at) else {
            return Err(ValueProblem::malformed("cut short: expected a value, found the end", at));
        };
        match initial {
            NULL => return Ok((Value::Null, at + 1)),
            TRUE => return Ok((Value::Bool(true), at + 1)),
            FALSE => return Ok((Value::Bool(false), at + 1)),
            0xC0.. => return Err(self.unwanted(at)),
            _ => {}
        }
        let (n, start) = self.argument(at)?;
        match initial >> 5 {
            0 => Ok((Value::Int(n as i128), start)),
            1 => Ok((Value::Int(-1 - n as i128), start)),
            2 => self.slice(at, start, n).map(|(data, end)| (Value::Bytes(data.to_vec()), end)),
            3 => {
                let (data, end) = self.slice(at, start, n)?;
                Ok((Value::Text(text(data, start)?), end))
            }
            4 => self.array(start, n, levels),
            _ => self.map(start, n, levels),
        }
    }

    fn slice(&self, at: usize, start: usize, n: u64) -> Result<(&'a [u8], usize), ValueProblem> {
        let left = self.data.len() - start;
        if n > left as u64 {
            return Err(ValueProblem::malformed(
                format!("cut short: expected {n} bytes, found {left} to the end"),
                at,
            ));
        }
        let end = start + n as usize;
        Ok((&self.data[start..end], end))
    }

    /// (argument, position after the head) of any major type but 7.
    fn argument(&self, at: usize) -> Result<(u64, usize), ValueProblem> {
        let initial = self.data[at];
        let info = initial & 31;
        if info < 24 {
            return Ok((info as u64, at + 1));
        }
        if info > 27 {
            return Err(if info == 31 && (0x40..0xC0).contains(&initial) {
                ValueProblem::malformed("indefinite length: expected a definite one", at)
            } else {
                ValueProblem::malformed(
                    format!("not CBOR: reserved initial byte 0x{initial:02x}"),
                    at,
                )
            });
        }
        let end = at + 1 + (1 << (info - 24));
        let Some(bytes) = self.data.get(at + 1..end) else {
            return Err(ValueProblem::malformed(
                "cut short: expected the rest of a head, found the end",
                at,
            ));
        };
        let n = bytes.iter().fold(0u64, |sum, &b| sum << 8 | b as u64);
        const LEAST: [u64; 4] = [24, 0x100, 0x1_0000, 0x1_0000_0000];
        if self.canonical && n < LEAST[(info - 24) as usize] {
            return Err(ValueProblem::malformed("not canonical: expected the shortest head", at));
        }
        Ok((n, end))
    }

    /// Enter a container of so many items whose first would be at `at`; -> levels left inside.
    fn open(&mut self, at: usize, items: u128, levels: usize) -> Result<usize, ValueProblem> {
        let left = self.data.len() - at;
        if items > left as u128 {
            return Err(ValueProblem::malformed(
                format!("cut short: expected {items} items, found {left} bytes to the end"),
                at,
            ));
        }
        match self.items.checked_sub(items as usize) {
            Some(rest) => self.items = rest,
            None => {
                return Err(ValueProblem::malformed(
                    format!("too many items: expected at most {}", self.items_max),
                    at,
                ))
            }
        }
        levels.checked_sub(1).ok_or_else(|| {
            ValueProblem::malformed("nested too deep: expected no container here", at)
        })
    }

    fn array(&mut self, at: usize, n: u64, levels: usize) -> Result<(Value, usize), ValueProblem> {
        let levels = self.open(at, n as u128, levels)?;
        let mut at = at;
        let mut out = Vec::with_capacity(n as usize);
        for index in 0..n as usize {
            let (value, end) = self.item(at, levels).map_err(|e| e.under_index(index))?;
            out.push(value);
            at = end;
        }
        Ok((Value::List(out), at))
    }

    fn map(&mut self, at: usize, n: u64, levels: usize) -> Result<(Value, usize), ValueProblem> {
        let levels = self.open(at, 2 * n as u128, levels)?;
        let mut at = at;
        let mut out: Vec<(Key, Value)> = Vec::with_capacity(n as usize);
        let mut names = Names::new(n as usize);
        let mut last: &[u8] = &[];
        for _ in 0..n {
            let start = at;
            let (key, end) = self.key(at)?;
            at = end;
            if self.canonical {
                let encoded = &self.data[start..at];
                if encoded <= last {
                    let reason =
                        if encoded == last { "duplicate" } else { "not canonical: out of order" };
                    return Err(ValueProblem::malformed(
                        format!("map key {}: {reason}", key_text(&key)),
                        start,
                    ));
                }
                last = encoded;
            } else if !names.add(&key, &out) {
                return Err(ValueProblem::malformed(
                    format!("map key {}: duplicate", key_text(&key)),
                    start,
                ));
            }
            match self.item(at, levels) {
                Ok((value, end)) => {
                    out.push((key, value));
                    at = end;
                }
                Err(e) => return Err(e.under_key(&key)),
            }
        }
        Ok((Value::Map(out), at))
    }

    fn key(&mut self, at: usize) -> Result<(Key, usize), ValueProblem> {
        let Some(&initial) = self.data.get(at) else {
            return Err(ValueProblem::malformed(
                "cut short: expected a map key, found the end",
                at,
            ));
        };
        if initial < 0x40 || (0x60..0x80).contains(&initial) {
            return match self.item(at, 0)? {
                (Value::Int(n), end) => Ok((Key::Int(n), end)),
                (Value::Text(text), end) => Ok((Key::Text(text), end)),
                _ => unreachable!("an integer or a text begins with these bytes"),
            };
        }
        Err(ValueProblem::malformed("map key: expected text or an integer", at))
    }

    /// Why a tag, float or simple value is refused.
    fn unwanted(&self, at: usize) -> ValueProblem {
        let initial = self.data[at];
        if initial < 0xE0 {
            return match self.argument(at) {
                Ok((tag, _)) => {
                    ValueProblem::malformed(format!("tag {tag}: expected a value without tags"), at)
                }
                Err(e) => e,
            };
        }
        let kind = match initial {
            0xF7 => "undefined".to_string(),
            0xF9 => "16-bit float".to_string(),
            0xFA => "32-bit float".to_string(),
            0xFB => "64-bit float".to_string(),
            0xFF => "break without an indefinite length".to_string(),
            _ => format!("simple value or reserved byte 0x{initial:02x}"),
        };
        ValueProblem::malformed(
            format!("{kind}: expected null, bool, integer, bytes, text, array or map"),
            at,
        )
    }
}

/// The names of a map that is being read, so that a duplicate is seen in any order of keys.
struct Names {
    many: Option<std::collections::BTreeSet<Vec<u8>>>,
}

impl Names {
    const FEW: usize = 16;

    fn new(entries: usize) -> Self {
        Names { many: (entries > Self::FEW).then(Default::default) }
    }

    /// False if `key` is among those of `entries`.
    fn add(&mut self, key: &Key, entries: &[(Key, Value)]) -> bool {
        match &mut self.many {
            None => entries.iter().all(|(other, _)| other != key),
            Some(names) => {
                let mut encoded = Vec::new();
                put_key(&mut encoded, key);
                names.insert(encoded)
            }
        }
    }
}

fn text(data: &[u8], start: usize) -> Result<String, ValueProblem> {
    match std::str::from_utf8(data) {
        Ok(text) => Ok(text.to_string()),
        Err(error) => {
            Err(ValueProblem::malformed("text is not valid UTF-8", start + error.valid_up_to()))
        }
    }
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Int(n) => n.to_string(),
        Key::Text(text) => quoted(text),
    }
}
