//! The types that `json!` takes as values.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Number, Value};
use crate::number::decimal;
use crate::types::Decimal;

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        whole(false, number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        whole(number < 0, number.unsigned_abs())
    }
}

#[inline(never)]
fn whole(is_negative: bool, number: u64) -> Value {
    let mut text = String::new();
    if is_negative {
        text.push('-');
    }
    decimal(number, &mut text);
    Value::Number(Number(text))
}

macro_rules! widened {
    ($($narrow:ty as $wide:ty,)*) => {
        $(impl From<$narrow> for Value {
            fn from(number: $narrow) -> Value {
                Value::from(number as $wide)
            }
        })*
    };
}

// A literal without a suffix is an i32; the length of a list is a usize.
widened! { i32 as i64, u32 as u64, usize as u64, }

impl From<Decimal> for Value {
    fn from(number: Decimal) -> Value {
        Value::Number(Number(number.text()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<&str> for Value {
    #[inline(never)]
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, T::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Value {
        Value::List(values.into_iter().map(T::into).collect())
    }
}

/// The document as a body.
impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.bytes()
    }
}
