//! Read values: a value that does not fit is a `Fault` that names the field.

use alloc::format;

use crate::cbor::Value;
use crate::envelope::Fault;

/// A record being read. The kernel has checked it against its schema, so a misfit means that the
/// module was built for another schema than the manifest's.
pub struct Record<'a> {
    fields: &'a [(Value, Value)],
}

impl<'a> Record<'a> {
    pub fn new(value: &'a Value) -> Result<Self, Fault> {
        match value {
            Value::Map(fields) => Ok(Record { fields }),
            _ => Err(misfit("a record", "")),
        }
    }

    /// The field `name`; null when it is absent or null.
    pub fn get(&self, name: &str) -> &'a Value {
        let found =
            self.fields.iter().find(|(key, _)| matches!(key, Value::Text(text) if text == name));
        found.map_or(&Value::Null, |(_, value)| value)
    }

    pub fn text(&self, name: &str) -> Result<&'a str, Fault> {
        text(self.get(name)).ok_or_else(|| misfit("text", name))
    }

    pub fn nat(&self, name: &str) -> Result<u64, Fault> {
        nat(self.get(name)).ok_or_else(|| misfit("a nat", name))
    }

    pub fn bytes(&self, name: &str) -> Result<&'a [u8], Fault> {
        match self.get(name) {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(misfit("bytes", name)),
        }
    }

    pub fn list(&self, name: &str) -> Result<&'a [Value], Fault> {
        match self.get(name) {
            Value::List(items) => Ok(items),
            _ => Err(misfit("a list", name)),
        }
    }

    /// An option of text: `None` for null.
    pub fn optional_text(&self, name: &str) -> Option<&'a str> {
        text(self.get(name))
    }

    /// The arm of the variant in `name`.
    pub fn arm(&self, name: &str) -> Result<(&'a str, &'a Value), Fault> {
        arm(self.get(name)).map_err(|_| misfit("a variant", name))
    }
}

/// A variant's tag and value; null is the value of a unit arm.
pub fn arm(value: &Value) -> Result<(&str, &Value), Fault> {
    let record = Record::new(value)?;
    Ok((record.text("$tag")?, record.get("$value")))
}

pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

pub fn nat(value: &Value) -> Option<u64> {
    match value {
        Value::Nat(number) => Some(*number),
        _ => None,
    }
}

fn misfit(expected: &str, field: &str) -> Fault {
    Fault::new(
        "schema_mismatch",
        format!("expected {expected} in field {field}: module and manifest do not belong together"),
    )
}
