//! Text as a value, strictly: RFC 8259 and nothing beyond it, each key of an object once.
//!
//! No rule returns early, which keeps a module small: a reader that has stopped is at the end of
//! its text, so that every loop ends, and `parse` drops the value that it made until then.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{CONTROLS, Number, Object, Value};
use crate::cbor::Misfit;

/// How deep lists and objects may nest.
pub const LEVELS_MAX: u32 = 64;

/// Read one document. Bytes that are not exactly one are a [`Misfit`], which says where the reader
/// stopped and what it expected there; `?` makes it the fault `sdk_payload`.
pub fn parse(bytes: &[u8]) -> Result<Value, Misfit> {
    let text = core::str::from_utf8(bytes)
        .map_err(|invalid| Misfit { at: invalid.valid_up_to(), expected: b"UTF-8" })?;
    let mut reader = Reader { text, at: 0, expected: "" };
    let value = reader.value(LEVELS_MAX);
    if reader.at < reader.text.len() {
        reader.stop("the end");
    }
    match reader.expected {
        "" => Ok(value),
        expected => Err(Misfit { at: reader.at, expected: expected.as_bytes() }),
    }
}

struct Reader<'a> {
    /// Empty once the reader has stopped.
    text: &'a str,
    at: usize,
    /// Why it has stopped at `at`.
    expected: &'static str,
}

impl<'a> Reader<'a> {
    /// Only the first stop counts.
    #[inline(never)]
    fn stop(&mut self, expected: &'static str) {
        if self.expected.is_empty() {
            self.expected = expected;
            self.text = "";
        }
    }

    /// The next byte. 0 at the end: no document has it, so no rule takes it.
    #[inline(never)]
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    #[inline(never)]
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = byte != 0 && self.peek() == byte;
        self.at = self.at.wrapping_add(is_next as usize);
        is_next
    }

    #[inline(never)]
    fn need(&mut self, byte: u8, expected: &'static str) {
        if !self.skip(byte) {
            self.stop(expected);
        }
    }

    #[inline(never)]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.skip(self.peek());
        }
    }

    #[inline(never)]
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// A value and the space around it, with so many levels left for lists and objects.
    fn value(&mut self, levels: u32) -> Value {
        self.space();
        let value = match self.peek() {
            b'{' => Value::Object(Object(self.inside(b'}', levels))),
            b'[' => Value::List(self.inside(b']', levels)),
            b'"' => Value::Text(self.string("")),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        };
        self.space();
        value
    }

    fn word(&mut self, word: &'static str, value: Value) -> Value {
        for byte in word.bytes() {
            self.need(byte, word);
        }
        value
    }

    /// The values of a list or object, in an object each behind its key.
    fn inside(&mut self, close: u8, levels: u32) -> Vec<Value> {
        if levels == 0 {
            self.stop("at most 64 levels");
        }
        let is_object = close == b'}';
        let mut values = Vec::new();
        self.skip(self.peek());
        self.space();
        let mut has_more = self.peek() != close;
        while has_more {
            if is_object {
                self.space();
                Value::push(&mut values, Value::Text(self.string("a key")));
                self.space();
                self.need(b':', "a colon");
            }
            Value::push(&mut values, self.value(levels.wrapping_sub(1)));
            has_more = self.skip(b',');
        }
        if is_object && self.peek() == close && has_repeated_key(&values) {
            self.stop("each key once");
        }
        self.need(close, if is_object { "a comma or }" } else { "a comma or ]" });
        values
    }

    #[inline(never)]
    fn string(&mut self, expected: &'static str) -> String {
        let mut words = String::new();
        self.need(b'"', expected);
        loop {
            let start = self.at;
            while !matches!(self.peek(), b'"' | b'\\' | 0..=0x1f) {
                self.at = self.at.wrapping_add(1);
            }
            words.push_str(self.since(start));
            if self.skip(b'"') {
                return words;
            }
            self.need(b'\\', "a character or a quote");
            if !self.expected.is_empty() {
                return words;
            }
            words.push(self.escaped());
        }
    }

    /// Behind a backslash.
    fn escaped(&mut self) -> char {
        let letter = self.peek();
        let character = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'u' => return self.code_point(),
            _ => match CONTROLS.iter().position(|control| *control == letter) {
                Some(character) => character as u8,
                None => {
                    self.stop("an escape");
                    0
                }
            },
        };
        self.skip(letter);
        character as char
    }

    /// `u` and four digits, or two halves of a surrogate pair.
    fn code_point(&mut self) -> char {
        let mut code = self.four_digits();
        if code >> 10 == 0xd800 >> 10 && self.skip(b'\\') && self.peek() == b'u' {
            let low = self.four_digits();
            if low >> 10 == 0xdc00 >> 10 {
                code = 0x1_0000 + ((code & 0x3ff) << 10 | low & 0x3ff);
            }
        }
        char::from_u32(code).unwrap_or_else(|| {
            self.stop("a whole surrogate pair");
            '\0'
        })
    }

    /// Behind `u`.
    #[inline(never)]
    fn four_digits(&mut self) -> u32 {
        let mut code = 0;
        self.skip(b'u');
        for _ in 0..4 {
            match (self.peek() as char).to_digit(16) {
                Some(digit) => code = code << 4 | digit,
                None => self.stop("four hex digits"),
            }
            self.skip(self.peek());
        }
        code
    }

    fn number(&mut self) -> Value {
        let start = self.at;
        if !self.skip(b'-') && !self.peek().is_ascii_digit() {
            self.stop("a value");
        }
        if !self.skip(b'0') {
            self.digits();
        }
        if self.skip(b'.') {
            self.digits();
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'+') || self.skip(b'-');
            self.digits();
        }
        Value::Number(Number(self.since(start).into()))
    }

    #[inline(never)]
    fn digits(&mut self) {
        if !self.peek().is_ascii_digit() {
            self.stop("a digit");
        }
        while self.peek().is_ascii_digit() {
            self.skip(self.peek());
        }
    }
}

/// Whether two entries of an object have one key. The keys are sorted for it: comparing each with
/// each would let a document of many keys use up the fuel of the step.
fn has_repeated_key(pairs: &[Value]) -> bool {
    // `collect` would be larger than the sort.
    let mut keys = Vec::new();
    for pair in pairs.chunks_exact(2) {
        keys.push(pair[0].as_str().unwrap_or_default());
    }
    !is_sorted_without_equals(&mut keys)
}

/// Sort the keys, and stop at two equal ones. A shell sort with the gaps 1, 4, 13, …: at most about
/// n^1.5 comparisons, and smaller than every sort of the library.
#[inline(never)]
fn is_sorted_without_equals(keys: &mut [&str]) -> bool {
    let mut gap = 1;
    while gap < keys.len() {
        gap = gap.wrapping_mul(3).wrapping_add(1);
    }
    while gap > 1 {
        gap /= 3;
        for end in gap..keys.len() {
            let mut to = end;
            while let Some((before, behind)) = keys.split_at_mut_checked(to) {
                let from = to.wrapping_sub(gap);
                let (Some(one), Some(two)) = (before.get_mut(from), behind.first_mut()) else {
                    break;
                };
                // Equal keys meet at the latest when the gap is 1.
                match one.cmp(&two) {
                    Ordering::Less => break,
                    Ordering::Equal => return false,
                    Ordering::Greater => core::mem::swap(one, two),
                }
                to = from;
            }
        }
    }
    true
}
