//! CBOR as a library writes it that keeps the order of struct fields and does not care for canonical
//! form; and a reader of whatever it wrote, or the kernel did.

use alloc::string::String;
use alloc::vec::Vec;

const BREAK: u8 = 0xff;

#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Nat(u64),
    /// The integer below zero with this number in CBOR: 0 is -1.
    Below(u64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// The value of a field; null where there is none, or where this is no map.
    pub fn get(&self, name: &str) -> &Value {
        if let Value::Map(entries) = self {
            for (key, value) in entries {
                if matches!(key, Value::Text(found) if found == name) {
                    return value;
                }
            }
        }
        &Value::Null
    }

    pub fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            _ => panic!("expected text"),
        }
    }

    pub fn nat(&self) -> u64 {
        match self {
            Value::Nat(nat) => *nat,
            _ => panic!("expected a nat"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => panic!("expected bytes"),
        }
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        match self {
            Value::Map(entries) => entries,
            _ => panic!("expected a map"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

/// A struct: its fields in the order in which they are declared.
pub fn record<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

pub fn unit_arm(tag: &str) -> Value {
    record([("$tag", tag.into())])
}

/// How lengths are written.
#[derive(Clone, Copy, PartialEq)]
pub enum Lengths {
    Definite,
    /// Maps have no length: a library that does not know how many fields come writes them so.
    Open,
}

pub fn encode(value: &Value, lengths: Lengths) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value, lengths);
    out
}

fn write(out: &mut Vec<u8>, value: &Value, lengths: Lengths) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(bool) => out.push(0xf4 + u8::from(*bool)),
        Value::Nat(nat) => head(out, 0, *nat),
        Value::Below(nat) => head(out, 1, *nat),
        Value::Bytes(bytes) => {
            head(out, 2, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Value::Text(text) => {
            head(out, 3, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        Value::List(items) => {
            head(out, 4, items.len() as u64);
            for item in items {
                write(out, item, lengths);
            }
        }
        Value::Map(entries) => {
            if lengths == Lengths::Open {
                out.push(0xbf);
            } else {
                head(out, 5, entries.len() as u64);
            }
            for (key, item) in entries {
                write(out, key, lengths);
                write(out, item, lengths);
            }
            if lengths == Lengths::Open {
                out.push(BREAK);
            }
        }
    }
}

fn head(out: &mut Vec<u8>, major: u8, n: u64) {
    let major = major << 5;
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

/// The bytes that AgentOS hashes: tag 55799, then the value with its keys in canonical order.
pub fn described(value: &Value) -> Vec<u8> {
    let mut out = Vec::from([0xd9, 0xd9, 0xf7]);
    write(&mut out, &sorted(value), Lengths::Definite);
    out
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(sorted).collect()),
        Value::Map(entries) => {
            let mut found: Vec<(Value, Value)> =
                entries.iter().map(|(key, item)| (key.clone(), sorted(item))).collect();
            found.sort_by_key(|(key, _)| encode(key, Lengths::Definite));
            Value::Map(found)
        }
        other => other.clone(),
    }
}

/// Panics, and so traps, where the bytes are not CBOR of this kind.
pub fn decode(bytes: &[u8]) -> Value {
    let mut at = 0;
    read(bytes, &mut at)
}

fn read(bytes: &[u8], at: &mut usize) -> Value {
    let initial = bytes[*at];
    *at += 1;
    match (initial >> 5, initial & 31) {
        (7, 20 | 21) => Value::Bool(initial & 1 == 1),
        (7, 22) => Value::Null,
        (6, info) => {
            argument(bytes, at, info);
            read(bytes, at)
        }
        (5, 31) => {
            let mut entries = Vec::new();
            while bytes[*at] != BREAK {
                entries.push((read(bytes, at), read(bytes, at)));
            }
            *at += 1;
            Value::Map(entries)
        }
        (major, info) => {
            let n = argument(bytes, at, info);
            match major {
                0 => Value::Nat(n),
                1 => Value::Below(n),
                2 => Value::Bytes(take(bytes, at, n).into()),
                3 => Value::Text(String::from_utf8(take(bytes, at, n).into()).expect("UTF-8")),
                4 => Value::List((0..n).map(|_| read(bytes, at)).collect()),
                5 => Value::Map((0..n).map(|_| (read(bytes, at), read(bytes, at))).collect()),
                _ => panic!("expected another kind of value"),
            }
        }
    }
}

fn argument(bytes: &[u8], at: &mut usize, info: u8) -> u64 {
    if info < 24 {
        return info.into();
    }
    let mut n = 0;
    for byte in take(bytes, at, 1 << (info - 24)) {
        n = n << 8 | u64::from(*byte);
    }
    n
}

fn take<'a>(bytes: &'a [u8], at: &mut usize, n: u64) -> &'a [u8] {
    let start = *at;
    *at += n as usize;
    &bytes[start..*at]
}
