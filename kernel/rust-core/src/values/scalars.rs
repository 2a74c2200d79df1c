//! The codecs of the scalar types (`kernel/aos/values/scalars.py`, V-31 to V-38).

use crate::values::cbor::{Key, Value, FALSE, NULL, TRUE};
use crate::values::codec::{mismatch, read_argument, read_bytes, read_nat, read_text};
use crate::values::errors::ValueProblem;
use crate::values::expressions::Scalar;
use crate::values::spelling::{is_hash, is_normal_uuid, normal_decimal, normal_uuid};

impl Scalar {
    pub fn type_name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::Int => "int",
            Scalar::Nat => "nat",
            Scalar::Dec128 => "dec128",
            Scalar::Bytes => "bytes",
            Scalar::Text => "text",
            Scalar::Time => "time",
            Scalar::Duration => "duration",
            Scalar::Hash => "hash",
            Scalar::Uuid => "uuid",
            Scalar::Unit => "unit (null)",
        }
    }

    pub fn normal(self, value: Value) -> Result<Value, ValueProblem> {
        match (self, value) {
            (Scalar::Bool, value @ Value::Bool(_))
            | (Scalar::Unit, value @ Value::Null)
            | (Scalar::Text, value @ Value::Text(_))
            | (Scalar::Bytes, value @ Value::Bytes(_)) => Ok(value),
            (Scalar::Nat, Value::Int(n)) => {
                if u64::try_from(n).is_ok() {
                    return Ok(Value::Int(n));
                }
                Err(mismatch("nat (0 to 2^64-1)", &Value::Int(n)))
            }
            (Scalar::Int | Scalar::Time | Scalar::Duration, Value::Int(n)) => {
                if i64::try_from(n).is_ok() {
                    return Ok(Value::Int(n));
                }
                let limits = format!("{} (-2^63 to 2^63-1)", self.type_name());
                Err(mismatch(&limits, &Value::Int(n)))
            }
            (Scalar::Dec128, Value::Text(text)) => self.formatted(
                normal_decimal(&text),
                text,
                "decimal such as \"12.5\", at most 34 digits",
            ),
            (Scalar::Hash, Value::Text(text)) => {
                let normal = is_hash(&text).then(|| text.clone());
                self.formatted(normal, text, "blake3:<64 lower-case hex digits>")
            }
            (Scalar::Uuid, Value::Text(text)) => {
                self.formatted(normal_uuid(&text), text, "hex digits as 8-4-4-4-12")
            }
            (_, value) => Err(mismatch(self.type_name(), &value)),
        }
    }

    fn formatted(
        self,
        normal: Option<String>,
        text: String,
        form: &str,
    ) -> Result<Value, ValueProblem> {
        normal
            .map(Value::Text)
            .ok_or_else(|| mismatch(&format!("{} ({form})", self.type_name()), &Value::Text(text)))
    }

    /// A map's key -> its normal form.
    pub fn normal_key(self, key: &Key) -> Result<Key, ValueProblem> {
        let value = match key {
            Key::Int(n) => Value::Int(*n),
            Key::Text(text) => Value::Text(text.clone()),
        };
        match self.normal(value)? {
            Value::Int(n) => Ok(Key::Int(n)),
            Value::Text(text) => Ok(Key::Text(text)),
            other => Err(mismatch(self.type_name(), &other)),
        }
    }

    pub fn read(self, data: &[u8], at: usize) -> Option<usize> {
        match self {
            Scalar::Bool => matches!(*data.get(at)?, TRUE | FALSE).then_some(at + 1),
            Scalar::Unit => (*data.get(at)? == NULL).then_some(at + 1),
            Scalar::Nat => read_nat(data, at).map(|(_, end)| end),
            Scalar::Int | Scalar::Time | Scalar::Duration => {
                if *data.get(at)? >= 0x40 {
                    return None;
                }
                // Of a negative number, n is -1 minus it.
                let (n, end) = read_argument(data, at)?;
                (n <= i64::MAX as u64).then_some(end)
            }
            Scalar::Bytes => read_bytes(data, at).map(|(_, end)| end),
            Scalar::Text => read_text(data, at).map(|(_, end)| end),
            Scalar::Dec128 => formatted(data, at, |text| {
                normal_decimal(text).is_some_and(|normal| normal == text)
            }),
            Scalar::Hash => formatted(data, at, is_hash),
            Scalar::Uuid => formatted(data, at, is_normal_uuid),
        }
    }
}

fn formatted(data: &[u8], at: usize, is_normal: impl Fn(&str) -> bool) -> Option<usize> {
    let (text, end) = read_text(data, at)?;
    is_normal(text).then_some(end)
}
