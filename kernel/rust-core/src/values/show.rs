//! Values for people: a few words in errors.

use crate::values::cbor::Value;
use crate::values::errors::quoted;

/// A few words: `nat 5`, `int -5`, `text "x"`, `bytes[12]`, `list[3]`, `null`.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(true) => "bool true".to_string(),
        Value::Bool(false) => "bool false".to_string(),
        Value::Int(n) if *n < 0 => format!("int {n}"),
        Value::Int(n) => format!("nat {n}"),
        Value::Text(text) => format!("text {}", quoted(text)),
        Value::Bytes(data) => format!("bytes[{}]", data.len()),
        Value::List(items) => format!("list[{}]", items.len()),
        Value::Map(entries) => format!("map[{}]", entries.len()),
    }
}
