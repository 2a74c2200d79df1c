//! Bytes to `Value` and back: canonical CBOR (RFC 8949 §4.2.1) without floats and tags.
//!
//! Decoding accepts exactly what encoding writes: shortest heads, definite lengths, map keys
//! that are text or integers and ascend strictly by their encoded bytes, valid UTF-8. For any
//! input it takes time and memory in proportion to the number of bytes, and returns `Malformed`
//! instead of a panic.

use alloc::string::String;
use alloc::vec::Vec;

use aos_sdk::cbor::write_head;

/// Arrays and maps may nest this deep.
pub const DEPTH_MAX: usize = 64;
/// At most this much room is reserved for the number that a head declares, so that nested heads
/// cannot add up.
const SET_ASIDE_MAX: usize = 64;
/// One document may hold this many items, each key and each value counted.
pub const ITEMS_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    /// An integer that is not negative.
    Nat(u64),
    /// The integer `-1 - n`.
    Negative(u64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    /// In any order; no key twice. Encoding sorts it.
    Map(Vec<(Value, Value)>),
}

/// Why the bytes are not one canonical document, and at which offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub offset: usize,
    pub reason: &'static str,
}

const NAT: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

impl Value {
    /// A record: every field named once, in any order.
    pub fn record<const N: usize>(fields: [(&str, Value); N]) -> Value {
        Value::Map(fields.into_iter().map(|(name, value)| (Value::from(name), value)).collect())
    }

    /// An arm of a variant that carries a value.
    pub fn arm(tag: &str, value: Value) -> Value {
        Value::record([("$tag", Value::from(tag)), ("$value", value)])
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(String::from(text))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Nat(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Nat(number) => write_head(NAT, *number, out),
        Value::Negative(number) => write_head(NEGATIVE, *number, out),
        Value::Bytes(bytes) => {
            write_head(BYTES, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Text(text) => {
            write_head(TEXT, text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::List(items) => {
            write_head(LIST, items.len() as u64, out);
            items.iter().for_each(|item| write(item, out));
        }
        Value::Map(pairs) => {
            write_head(MAP, pairs.len() as u64, out);
            let mut keyed: Vec<(Vec<u8>, &Value)> =
                pairs.iter().map(|(key, value)| (encode(key), value)).collect();
            sort(&mut keyed);
            for (key, value) in keyed {
                out.extend_from_slice(&key);
                write(value, out);
            }
        }
    }
}

/// Insertion sort: records have a dozen fields, and it costs a twentieth of the code of the
/// library's sort. A map that was decoded arrives sorted, which takes it one pass.
fn sort(pairs: &mut [(Vec<u8>, &Value)]) {
    for end in 1..pairs.len() {
        let mut at = end;
        while at > 0 && pairs[at - 1].0 > pairs[at].0 {
            pairs.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Read one document that fills `bytes` exactly.
pub fn decode(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader { bytes, at: 0, items: 0 };
    let value = reader.value(0)?;
    if reader.at != bytes.len() {
        return reader.fail("bytes follow the document");
    }
    Ok(value)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    items: usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.at, reason })
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        if count > self.left() as u64 {
            return self.fail("the document ends early");
        }
        let start = self.at;
        self.at += count as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn head(&mut self) -> Result<(u8, u64), Malformed> {
        let first = self.take(1)?[0];
        let (width, least) = match first & 31 {
            small @ 0..=23 => return Ok((first >> 5, small as u64)),
            24 => (1, 24),
            25 => (2, 0x100),
            26 => (4, 0x1_0000),
            27 => (8, 0x1_0000_0000),
            _ => return self.fail("an indefinite or reserved length"),
        };
        let argument = self.take(width)?.iter().fold(0, |number, byte| number << 8 | *byte as u64);
        if argument < least {
            return self.fail("a head that is not the shortest");
        }
        Ok((first >> 5, argument))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Malformed> {
        self.items += 1;
        if self.items > ITEMS_MAX {
            return self.fail("too many items");
        }
        match self.bytes.get(self.at) {
            Some(&NULL) => return self.simple(Value::Null),
            Some(&FALSE) => return self.simple(Value::Bool(false)),
            Some(&TRUE) => return self.simple(Value::Bool(true)),
            Some(first) if first >> 5 > MAP => {
                return self.fail("a tag, float or unknown simple value")
            }
            _ => {}
        }
        let (major, argument) = self.head()?;
        match major {
            NAT => Ok(Value::Nat(argument)),
            NEGATIVE => Ok(Value::Negative(argument)),
            BYTES => Ok(Value::Bytes(self.take(argument)?.to_vec())),
            TEXT => self.text(argument),
            _ if depth == DEPTH_MAX => self.fail("nested too deep"),
            LIST => self.list(argument, depth),
            _ => self.map(argument, depth),
        }
    }

    fn simple(&mut self, value: Value) -> Result<Value, Malformed> {
        self.at += 1;
        Ok(value)
    }

    fn text(&mut self, length: u64) -> Result<Value, Malformed> {
        match core::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Value::from(text)),
            Err(_) => self.fail("text that is not UTF-8"),
        }
    }

    /// Refuse a count that the bytes left cannot hold, before anything is set aside for it.
    fn room(&self, count: u64, bytes_each: usize) -> Result<usize, Malformed> {
        if count > (self.left() / bytes_each) as u64 {
            return self.fail("the document ends early");
        }
        Ok(count as usize)
    }

    fn list(&mut self, count: u64, depth: usize) -> Result<Value, Malformed> {
        let mut items = Vec::with_capacity(self.room(count, 1)?.min(SET_ASIDE_MAX));
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, count: u64, depth: usize) -> Result<Value, Malformed> {
        let mut pairs = Vec::with_capacity(self.room(count, 2)?.min(SET_ASIDE_MAX));
        let mut previous: &[u8] = &[];
        for _ in 0..count {
            let start = self.at;
            let key = self.value(depth + 1)?;
            if !matches!(key, Value::Nat(_) | Value::Negative(_) | Value::Text(_)) {
                return self.fail("a map key that is neither text nor integer");
            }
            let encoded = &self.bytes[start..self.at];
            if encoded <= previous {
                return self.fail("map keys that do not ascend");
            }
            previous = encoded;
            pairs.push((key, self.value(depth + 1)?));
        }
        Ok(Value::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn nested(depth: usize) -> Vec<u8> {
        let mut bytes = vec![0x81; depth];
        bytes.push(NULL);
        bytes
    }

    #[test]
    fn every_kind_of_value_comes_back() {
        let value = Value::record([
            ("null", Value::Null),
            ("yes", Value::from(true)),
            ("big", Value::Nat(u64::MAX)),
            ("least", Value::Negative(u64::MAX)),
            ("bytes", Value::Bytes(vec![0; 300])),
            ("text", Value::from("日本")),
            ("list", Value::List(vec![Value::Nat(23), Value::Nat(24), Value::Nat(65_536)])),
        ]);
        let decoded = decode(&encode(&value)).unwrap();
        assert_eq!(encode(&decoded), encode(&value));
    }

    #[test]
    fn keys_are_sorted_by_their_encoded_bytes() {
        let keys = [
            Value::from("a"),
            Value::Negative(0),
            Value::Nat(256),
            Value::Nat(10),
            Value::from(""),
        ];
        let map = Value::Map(keys.into_iter().map(|key| (key, Value::Null)).collect());
        let expected =
            [0xa5, 0x0a, 0xf6, 0x19, 1, 0, 0xf6, 0x20, 0xf6, 0x60, 0xf6, 0x61, b'a', 0xf6];
        assert_eq!(encode(&map), expected);
    }

    #[test]
    fn what_is_not_canonical_is_refused() {
        let cases: [(&[u8], &str); 17] = [
            (&[], "the document ends early"),
            (&[0x18, 23], "a head that is not the shortest"),
            (&[0x1b, 0, 0, 0, 0, 255, 255, 255, 255], "a head that is not the shortest"),
            (&[0x5f, 0xff], "an indefinite or reserved length"),
            (&[0x1c], "an indefinite or reserved length"),
            (&[0xc0, 0x60], "a tag, float or unknown simple value"),
            (&[0xf9, 0, 0], "a tag, float or unknown simple value"),
            (&[0xf7], "a tag, float or unknown simple value"),
            (&[0xff], "a tag, float or unknown simple value"),
            (&[0x61, 0xff], "text that is not UTF-8"),
            (&[0x63, 0xed, 0xa0, 0x80], "text that is not UTF-8"),
            (&[0xa1, 0x41, 0x61, 0], "a map key that is neither text nor integer"),
            (&[0xa2, 1, 0, 1, 0], "map keys that do not ascend"),
            (&[0xa2, 2, 0, 1, 0], "map keys that do not ascend"),
            (&[0x9b, 255, 255, 255, 255, 255, 255, 255, 255], "the document ends early"),
            (&[0x5b, 255, 255, 255, 255, 255, 255, 255, 255], "the document ends early"),
            (&[0, 0], "bytes follow the document"),
        ];
        for (bytes, reason) in cases {
            assert_eq!(decode(bytes).unwrap_err().reason, reason, "{bytes:?}");
        }
    }

    #[test]
    fn the_deepest_document_is_read_and_one_deeper_is_not() {
        assert!(decode(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(decode(&nested(DEPTH_MAX + 1)).unwrap_err().reason, "nested too deep");
    }

    #[test]
    fn every_prefix_of_a_document_is_refused() {
        let bytes =
            encode(&Value::arm("Tag", Value::List(vec![Value::from("text"), Value::Nat(70_000)])));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err());
        }
    }
}
