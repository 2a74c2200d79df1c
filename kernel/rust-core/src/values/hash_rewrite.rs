//! Replace the hashes in the fields of type `hash` of a value (`kernel/aos/values/hash_rewrite.py`).
//!
//! Only the type decides what is a hash. A value of a schema without such a field is returned
//! unchanged.

use std::cell::RefCell;
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap};
use crate::values::cbor::{Key, Value};
use crate::values::expressions::{Parts, Scalar, Type};
use crate::values::schema::Schema;

/// How to rewrite the values of a type. Parts of another shape are kept: they may belong to another
/// version of the schema.
enum Write {
    Hash,
    Option(Rc<Write>),
    List(Rc<Write>),
    Map { key: bool, item: Option<Rc<Write>> },
    Record(SeededMap<Rc<str>, Rc<Write>>),
    Variant(SeededMap<Rc<str>, Rc<Write>>),
}

/// Rewrites values. `schemas` has the schemas that the values' schemas refer to; those that it lacks
/// are assumed to have no hashes.
pub struct HashRewrite {
    schemas: SeededMap<Rc<str>, Rc<Schema>>,
    writes: RefCell<SeededMap<Rc<str>, Option<Rc<Write>>>>,
}

impl HashRewrite {
    pub fn new(schemas: &OrderedMap<Rc<str>, Rc<Schema>>) -> Self {
        let schemas = schemas.iter().map(|(name, schema)| (name.clone(), schema.clone()));
        HashRewrite { schemas: schemas.collect(), writes: RefCell::default() }
    }

    pub fn has_hashes(&self, schema: &Schema) -> bool {
        self.of(schema).is_some()
    }

    /// The value of `schema` with each hash in it changed. Sets keep their order.
    pub fn rewritten(
        &self,
        schema: &Schema,
        value: Value,
        change: &mut dyn FnMut(&str) -> String,
    ) -> Value {
        match self.of(schema) {
            None => value,
            Some(write) => write.apply(value, change),
        }
    }

    fn of(&self, schema: &Schema) -> Option<Rc<Write>> {
        match self.schemas.contains_key(&schema.name) {
            true => self.schema_write(&schema.name),
            false => self.write(&schema.type_),
        }
    }

    fn schema_write(&self, name: &Rc<str>) -> Option<Rc<Write>> {
        // References have no cycles (V-25). A chain of aliases may be as long as a manifest.
        let mut names = vec![name.clone()];
        let write = loop {
            let name = &names[names.len() - 1];
            if let Some(write) = self.writes.borrow().get(name) {
                break write.clone();
            }
            match self.schemas.get(name).map(|schema| &schema.type_) {
                None => break None,
                Some(Type::TypeRef(next)) => names.push(next.clone()),
                Some(type_) => break self.write(type_),
            }
        };
        let mut writes = self.writes.borrow_mut();
        writes.extend(names.into_iter().map(|name| (name, write.clone())));
        write
    }

    fn write(&self, type_: &Type) -> Option<Rc<Write>> {
        let write = match type_ {
            Type::Scalar(Scalar::Hash) => Write::Hash,
            Type::Scalar(_) => return None,
            Type::TypeRef(name) => return self.schema_write(name),
            Type::Option(item) => Write::Option(self.write(item)?),
            Type::ListOf(item) | Type::SetOf(item) => Write::List(self.write(item)?),
            Type::MapOf(key, item) => {
                let (key, item) = (*key == Scalar::Hash, self.write(item));
                if !key && item.is_none() {
                    return None;
                }
                Write::Map { key, item }
            }
            Type::Record(fields) => Write::Record(self.writes_of(fields)?),
            Type::Variant(arms) => Write::Variant(self.writes_of(arms)?),
        };
        Some(Rc::new(write))
    }

    fn writes_of(&self, parts: &Parts) -> Option<SeededMap<Rc<str>, Rc<Write>>> {
        let writes: SeededMap<_, _> = parts
            .iter()
            .filter_map(|(name, part)| Some((name.clone(), self.write(part)?)))
            .collect();
        (!writes.is_empty()).then_some(writes)
    }
}

type Change<'a> = &'a mut dyn FnMut(&str) -> String;

impl Write {
    fn apply(&self, value: Value, change: Change) -> Value {
        match (self, value) {
            (Write::Hash, Value::Text(text)) => Value::Text(change(&text)),
            (Write::Option(_), Value::Null) => Value::Null,
            (Write::Option(item), value) => item.apply(value, change),
            (Write::List(item), Value::List(items)) => {
                Value::List(items.into_iter().map(|part| item.apply(part, change)).collect())
            }
            (Write::Map { key, item }, Value::Map(entries)) => {
                let mut changed: OrderedMap<Key, Value> = OrderedMap::default();
                for (name, part) in entries {
                    let name = match name {
                        Key::Text(text) if *key => Key::Text(change(&text)),
                        name => name,
                    };
                    let part = match item {
                        Some(item) => item.apply(part, change),
                        None => part,
                    };
                    changed.insert(name, part);
                }
                Value::Map(changed.into_entries())
            }
            (Write::Record(fields), Value::Map(entries)) => {
                let part = |(key, part): (Key, Value)| match &key {
                    Key::Text(name) => match fields.get(name.as_str()) {
                        Some(field) => (key, field.apply(part, change)),
                        None => (key, part),
                    },
                    Key::Int(_) => (key, part),
                };
                Value::Map(entries.into_iter().map(part).collect())
            }
            (Write::Variant(arms), value @ Value::Map(_)) => {
                let arm = value.get("$tag").and_then(Value::as_text).and_then(|tag| arms.get(tag));
                match (arm, value) {
                    (Some(arm), Value::Map(entries)) => {
                        let part = |(key, part): (Key, Value)| match &key {
                            Key::Text(name) if name == "$value" => (key, arm.apply(part, change)),
                            _ => (key, part),
                        };
                        Value::Map(entries.into_iter().map(part).collect())
                    }
                    (_, value) => value,
                }
            }
            (_, value) => value,
        }
    }
}
