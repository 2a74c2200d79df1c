//! A value as text.

use alloc::vec::Vec;

use super::{CONTROLS, Object, Value};
use crate::number::HEX;

pub fn value(this: &Value, out: &mut Vec<u8>) {
    let word = match this {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) => &number.0,
        Value::Text(words) => return text(words, out),
        Value::List(items) => return inside(b"[,,]", items, out),
        Value::Object(Object(pairs)) => return inside(b"{:,}", pairs, out),
    };
    out.extend_from_slice(word.as_bytes());
}

/// The values of a list, or the keys and values of an object. `marks` are the bytes before them,
/// behind the first of two, behind the second, and at the end.
fn inside(marks: &[u8; 4], values: &[Value], out: &mut Vec<u8>) {
    byte(marks[0], out);
    for (at, each) in values.iter().enumerate() {
        value(each, out);
        byte(marks[1 + at % 2], out);
    }
    if !values.is_empty() {
        out.pop();
    }
    byte(marks[3], out);
}

#[inline(never)]
fn text(words: &str, out: &mut Vec<u8>) {
    byte(b'"', out);
    for character in words.bytes() {
        let letter = match CONTROLS.get(character as usize) {
            Some(letter) => *letter,
            None if matches!(character, b'"' | b'\\') => character,
            None => 0,
        };
        if letter == 0 {
            byte(character, out);
            continue;
        }
        byte(b'\\', out);
        byte(letter, out);
        if letter == b'u' {
            for shift in [12, 8, 4, 0] {
                byte(HEX[(character as usize >> shift) & 15], out);
            }
        }
    }
    byte(b'"', out);
}

/// `push`, which would be copied into each of its callers.
#[inline(never)]
pub fn byte(byte: u8, out: &mut Vec<u8>) {
    out.push(byte);
}
