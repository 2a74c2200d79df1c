//! Small JSON documents, for the bodies of HTTP requests and of their responses.
//!
//! [`json!`](crate::json!) makes a [`Value`], [`Value::text`] writes it, [`parse`] reads one:
//!
//! ```
//! use aos_sdk::prelude::*;
//!
//! # fn main() -> Result<(), Fault> {
//! let (order_id, cents) = (String::from("o-1"), 1250u64);
//! let body = json!({
//!     "order": order_id,
//!     "amount": {"cents": cents, "currency": "EUR"},
//!     "tags": ["web", null, true],
//! });
//! assert_eq!(
//!     body.text(),
//!     r#"{"order":"o-1","amount":{"cents":1250,"currency":"EUR"},"tags":["web",null,true]}"#
//! );
//!
//! let answer = json::parse(br#"{"charge": {"id": "ch_1", "fee": 0.35}}"#)?;
//! assert_eq!(answer["charge"]["id"].as_str(), Some("ch_1"));
//! assert_eq!(answer["charge"]["fee"].as_decimal(), Decimal::parse("0.35"));
//! assert_eq!(answer["charge"]["refund"].as_u64(), None);
//! # Ok(())
//! # }
//! ```
//!
//! There are no floats: a number keeps the decimal text of the document, and an author reads it as
//! `u64`, `i64` or [`Decimal`](crate::Decimal) (`spec/sdk.md` SD-40 to SD-44).

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Index;

use crate::types::Decimal;

mod from;
mod read;
mod write;

pub use read::{LEVELS_MAX, parse};

/// A JSON value. An object keeps the order of its keys.
///
/// `value["key"]` and `value[0]` are `null` where the object or list does not have it, so that a
/// path can be read in one expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

/// The entries of an object; [`Value::entries`] reads them.
///
/// Each key is a text before its value, so that a module has one kind of list, not two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<Value>);

/// A number as its decimal text. Two numbers are equal if their texts are: `1` is not `1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(String);

static NULL: Value = Value::Null;

/// The letter that escapes each control character behind a backslash.
static CONTROLS: [u8; 32] = *b"uuuuuuuubtnufruuuuuuuuuuuuuuuuuu";

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is written without point, exponent and sign, and fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self.whole()? {
            (false, number) => Some(number),
            (true, _) => None,
        }
    }

    /// The number, if it is written without point and exponent, and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.whole()? {
            (true, number) => 0i64.checked_sub_unsigned(number),
            (false, number) => number.try_into().ok(),
        }
    }

    /// Whether there is a minus, and the digits as a number. By hand: the library's function for it
    /// is three times as large.
    #[inline(never)]
    fn whole(&self) -> Option<(bool, u64)> {
        let text = self.number()?;
        let digits = text.strip_prefix('-');
        let mut number = 0u64;
        for byte in digits.unwrap_or(text).bytes() {
            let digit = byte.wrapping_sub(b'0') as u64;
            if digit > 9 || number > u64::MAX.wrapping_sub(digit) / 10 {
                return None;
            }
            number = number.wrapping_mul(10).wrapping_add(digit);
        }
        Some((digits.is_some(), number))
    }

    /// The exact number, if it fits a `dec128`: `1.50` and `15e-1` are both 1.5.
    pub fn as_decimal(&self) -> Option<Decimal> {
        Decimal::parse(self.number()?)
    }

    /// The number as it is written.
    pub fn number(&self) -> Option<&str> {
        match self {
            Value::Number(number) => Some(&number.0),
            _ => None,
        }
    }

    /// The values of a list; none for every other value.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The entries of an object in their order; none for every other value.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        let pairs = match self {
            Value::Object(Object(pairs)) => pairs.as_slice(),
            _ => &[],
        };
        entries(pairs)
    }

    /// The value under a key, if this is an object that has it.
    #[inline(never)]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// Set the value under a key, which replaces an earlier one. Another value than an object
    /// becomes one.
    pub fn set(&mut self, key: impl AsRef<str>, value: impl Into<Value>) {
        self.put(key.as_ref(), value.into());
    }

    #[inline(never)]
    fn put(&mut self, key: &str, value: Value) {
        if !matches!(self, Value::Object(_)) {
            *self = Value::Object(Object::default());
        }
        let Value::Object(Object(pairs)) = self else { return };
        for pair in pairs.chunks_exact_mut(2) {
            match pair {
                [Value::Text(other), before] if other == key => {
                    *before = value;
                    return;
                }
                _ => {}
            }
        }
        Value::push(pairs, Value::from(key));
        Value::push(pairs, value);
    }

    /// Add a value to a list.
    #[doc(hidden)]
    #[inline(never)]
    pub fn push(list: &mut Vec<Value>, value: Value) {
        list.push(value);
    }

    /// The document: UTF-8 without spaces. Control characters, `"` and `\` are escaped.
    pub fn text(&self) -> String {
        // SAFETY: the characters of texts, and ASCII characters between them.
        unsafe { String::from_utf8_unchecked(self.bytes()) }
    }

    #[inline(never)]
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write::value(self, &mut bytes);
        bytes
    }
}

fn entries(pairs: &[Value]) -> impl ExactSizeIterator<Item = (&str, &Value)> {
    pairs.chunks_exact(2).map(|pair| match pair {
        [Value::Text(key), value] => (key.as_str(), value),
        _ => ("", &NULL),
    })
}

impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, index: usize) -> &Value {
        self.items().get(index).unwrap_or(&NULL)
    }
}

/// A [`json::Value`](crate::json::Value) in the syntax of JSON, with expressions as values.
///
/// ```
/// use aos_sdk::prelude::*;
///
/// let skus = vec!["tea", "cup"];
/// let key = "sku";
/// let note: Option<String> = None;
/// let body = json!({"items": skus, "note": note, (key): -1, "empty": [{}, []]});
///
/// assert_eq!(body.text(), r#"{"items":["tea","cup"],"note":null,"sku":-1,"empty":[{},[]]}"#);
/// ```
///
/// An expression is anything that `json::Value::from` takes: bools, whole numbers, `Decimal`,
/// text, an `Option` or a `Vec` of these, and other values. A key is a literal, or an expression in
/// parentheses.
#[macro_export]
macro_rules! json {
    (@list $list:ident) => {};
    (@list $list:ident null $(, $($rest:tt)*)?) => {
        $crate::json::Value::push(&mut $list, $crate::json::Value::Null);
        $crate::json!(@list $list $($($rest)*)?);
    };
    (@list $list:ident {$($inside:tt)*} $(, $($rest:tt)*)?) => {
        $crate::json::Value::push(&mut $list, $crate::json!({$($inside)*}));
        $crate::json!(@list $list $($($rest)*)?);
    };
    (@list $list:ident [$($inside:tt)*] $(, $($rest:tt)*)?) => {
        $crate::json::Value::push(&mut $list, $crate::json!([$($inside)*]));
        $crate::json!(@list $list $($($rest)*)?);
    };
    (@list $list:ident $value:expr $(, $($rest:tt)*)?) => {
        $crate::json::Value::push(&mut $list, $crate::json::Value::from($value));
        $crate::json!(@list $list $($($rest)*)?);
    };
    (@object $object:ident) => {};
    (@object $object:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $object.set($key, $crate::json::Value::Null);
        $crate::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : {$($inside:tt)*} $(, $($rest:tt)*)?) => {
        $object.set($key, $crate::json!({$($inside)*}));
        $crate::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : [$($inside:tt)*] $(, $($rest:tt)*)?) => {
        $object.set($key, $crate::json!([$($inside)*]));
        $crate::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $object.set($key, $value);
        $crate::json!(@object $object $($($rest)*)?);
    };
    (null) => {
        $crate::json::Value::Null
    };
    ([]) => {
        $crate::json::Value::List($crate::alloc::vec::Vec::new())
    };
    ([$($inside:tt)+]) => {{
        let mut list = $crate::alloc::vec::Vec::new();
        $crate::json!(@list list $($inside)+);
        $crate::json::Value::List(list)
    }};
    ({}) => {
        $crate::json::Value::Object($crate::json::Object::default())
    };
    ({$($inside:tt)+}) => {{
        let mut object = $crate::json!({});
        $crate::json!(@object object $($inside)+);
        object
    }};
    ($value:expr) => {
        $crate::json::Value::from($value)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(document: &str) -> String {
        match parse(document.as_bytes()) {
            Ok(value) => panic!("{document} was read as {value:?}"),
            Err(misfit) => format!("{misfit:?}"),
        }
    }

    #[test]
    fn every_number_of_64_bits_is_read_as_it_was_written() {
        for number in [0, 1, 9, 10, u64::MAX] {
            let value = Value::from(number);
            assert_eq!(parse(value.text().as_bytes()).unwrap().as_u64(), Some(number));
        }
        for number in [0, -1, i64::MIN, i64::MAX] {
            let value = Value::from(number);
            assert_eq!(parse(value.text().as_bytes()).unwrap().as_i64(), Some(number));
        }
        assert_eq!(Value::from(Decimal::parse("-0.50").unwrap()).text(), "-0.5");
    }

    #[test]
    fn a_number_is_read_as_no_type_that_it_does_not_fit() {
        let read = |text: &str| parse(text.as_bytes()).unwrap();

        for text in ["1.0", "1e2", "18446744073709551616", "-9223372036854775809"] {
            assert_eq!((read(text).as_u64(), read(text).as_i64()), (None, None), "{text}");
        }
        assert_eq!((read("-0").as_u64(), read("-0").as_i64()), (None, Some(0)));
        assert_eq!(read("1e2").as_decimal(), Some(Decimal::from(100u64)));
        assert_eq!(read("1e100").as_decimal(), None);
        assert_eq!(read("\"1\"").as_u64(), None);
    }

    #[test]
    fn a_document_may_nest_64_levels_and_no_more() {
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);

        assert_eq!(parse(nested(64).as_bytes()).unwrap().text(), nested(64));
        assert_eq!(refusal(&nested(65)), "byte 64: expected at most 64 levels");
        assert_eq!(refusal(&"{\"a\":".repeat(100_000)), "byte 320: expected at most 64 levels");
    }

    #[test]
    fn an_object_of_many_keys_has_each_once() {
        let entries = |last: u64| {
            let keys = (0..20_000).map(|key| (key * 7919) % 20_011).chain([last]);
            let entries: Vec<String> = keys.map(|key: u64| format!("\"{key}\":{key}")).collect();
            format!("{{{}}}", entries.join(","))
        };

        assert_eq!(parse(entries(20_011).as_bytes()).unwrap().text(), entries(20_011));
        assert!(refusal(&entries(7919)).ends_with(": expected each key once"));
    }

    #[test]
    fn a_key_that_is_written_twice_has_its_later_value() {
        assert_eq!(json!({"a": 1, "b": 2, "a": [3]}).text(), r#"{"a":[3],"b":2}"#);
    }

    #[test]
    fn a_path_that_does_not_exist_is_null() {
        let value = json!({"a": [1, {"b": true}]});

        assert_eq!(value["a"][1]["b"].as_bool(), Some(true));
        for missing in [&value["b"], &value["a"][2], &value["a"]["b"], &value["a"][0]["b"][7]] {
            assert!(missing.is_null());
        }
        assert_eq!(value.get("b"), None);
    }

    #[test]
    fn expressions_are_values_of_a_document() {
        let items = [("tea", 2u64), ("cup", 1)];
        let lines: Vec<Value> =
            items.iter().map(|(sku, count)| json!({"sku": *sku, "count": *count})).collect();

        let value = json!({
            "lines": lines,
            "total": items.iter().map(|item| item.1).sum::<u64>(),
            "first": [items[0].0, items.len() == 2,],
        });

        assert_eq!(
            value.text(),
            r#"{"lines":[{"sku":"tea","count":2},{"sku":"cup","count":1}],"total":3,"first":["tea",true]}"#
        );
    }
}
