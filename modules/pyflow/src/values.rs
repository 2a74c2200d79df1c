//! Values of schemas as values of Python, exact both ways (PY-30 to PY-38).
//!
//! `Values` reads canonical CBOR into the nodes of a graph that the interpreter imports, and writes
//! the nodes that it exports. Both follow the type: nothing is guessed from a value.

mod dynamic;
mod moment;
mod read;
mod write;

use std::collections::HashMap;
use std::fmt;

use monty_types::MontyUuid;

use crate::types::{Schemas, Type};

/// The most bytes that one value may have: what the kernel accepts (`spec/values.md`, V-16).
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The schemas of a program, and the classes that its code has registered for them.
#[derive(Debug, Default)]
pub struct Values {
    pub schemas: Schemas,
    classes: HashMap<String, Class>,
    by_id: HashMap<MontyUuid, String>,
}

/// A class of the program, as the interpreter names it at its border.
#[derive(Clone, Debug)]
struct Class {
    name: String,
    id: MontyUuid,
}

/// A value of Python that is not of its type: `$.cents: expected nat, found int -1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub path: String,
    pub expected: String,
    pub found: String,
}

impl Values {
    pub fn new(schemas: Schemas) -> Values {
        Values { schemas, ..Values::default() }
    }

    /// From now on, values of this schema are instances of the class.
    pub fn register(&mut self, schema: &str, name: &str, id: MontyUuid) {
        self.classes.insert(schema.to_owned(), Class { name: name.to_owned(), id });
        self.by_id.insert(id, schema.to_owned());
    }

    /// The schema of a class.
    pub fn schema_of(&self, class: &MontyUuid) -> Option<&str> {
        self.by_id.get(class).map(String::as_str)
    }

    /// The class of a type that is a ref to a record.
    fn class_of(&self, of: &Type) -> Option<&Class> {
        match of {
            Type::Ref(name) => self.classes.get(name),
            _ => None,
        }
    }

    /// The class whose instances are an arm of a variant without its name: no other arm has
    /// the same schema.
    fn class_of_arm(&self, arms: &[(String, Type)], arm: &Type) -> Option<&Class> {
        let class = self.class_of(arm)?;
        (arms.iter().filter(|(_, other)| other == arm).count() == 1).then_some(class)
    }

    /// Whether Python can hash a value of this type, so that it can be an element of a set.
    fn is_hashable(&self, of: &Type) -> bool {
        match of {
            Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Record(_) => false,
            Type::Option(of) => self.is_hashable(of),
            Type::Variant(arms) => arms.iter().all(|(_, arm)| *arm == Type::Unit),
            Type::Ref(name) => self.schemas.get(name).is_some_and(|of| self.is_hashable(&of)),
            _ => true,
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: expected {}, found {}", self.path, self.expected, self.found)
    }
}

/// Whether the text is a lower-case hash or uuid as `spec/values.md` V-37 and V-38 have it.
fn is_hash(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "blake3" | "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    digits.len() == length && digits.bytes().all(is_digit)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => is_digit(byte),
        })
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
