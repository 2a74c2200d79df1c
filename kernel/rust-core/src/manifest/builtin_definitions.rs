//! The schemas of the `sys/*` definitions (`kernel/aos/manifest/builtin_definitions.py`, M-50).
//!
//! `builtin_definitions.cbor` is a map of their names to their type expressions, which
//! `tests/fastcore/builtin_definitions.py` writes from the reference.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::values::cbor::{decode_record, Key, Value, RECORD};
use crate::values::schema::{compile_schemas, Schema};

const TYPES: &[u8] = include_bytes!("builtin_definitions.cbor");

thread_local! {
    static SCHEMAS: OrderedMap<Rc<str>, Rc<Schema>> = compiled();
}

fn compiled() -> OrderedMap<Rc<str>, Rc<Schema>> {
    let Ok(Value::Map(types)) = decode_record(TYPES, RECORD) else {
        unreachable!("the file is a map")
    };
    let named: BTreeMap<Rc<str>, &Value> = types
        .iter()
        .filter_map(|(name, type_)| match name {
            Key::Text(name) => Some((Rc::from(name.as_str()), type_)),
            Key::Int(_) => None,
        })
        .collect();
    compile_schemas(&named).expect("built-in definitions are valid")
}

/// The compiled schema of a built-in definition. The name must be one.
pub fn builtin_schema(name: &str) -> Rc<Schema> {
    SCHEMAS.with(|schemas| schemas.get(name).expect("the name of a built-in schema").clone())
}
