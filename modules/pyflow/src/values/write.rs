//! Nodes of Python -> canonical CBOR of a type.

use aos_sdk::{Decimal, cbor};
use monty_types::unstable::{self, MontyNode, NodeId};
use monty_types::{MontyObject, ObjectRef};

use super::{Unfit, VALUE_BYTES_MAX, Values, is_hash, is_uuid, moment};
use crate::types::Type;

/// So much of a value is shown in a message.
const SHOWN_MAX: usize = 64;

impl Values {
    /// The canonical bytes of a value of this type.
    pub fn write(&self, of: &Type, value: ObjectRef<'_>) -> Result<Vec<u8>, Unfit> {
        let mut writing = Writing { values: self, out: Vec::new(), path: "$".to_owned() };
        writing.value(of, value)?;
        Ok(writing.out)
    }

    /// As [`write`](Values::write), for a value that is an object of its own.
    pub fn write_object(&self, of: &Type, value: &MontyObject) -> Result<Vec<u8>, Unfit> {
        self.write(of, value.as_ref())
    }
}

/// One value that is being written.
pub(super) struct Writing<'a> {
    pub values: &'a Values,
    pub out: Vec<u8>,
    /// Where the value is that is written now.
    pub path: String,
}

impl Writing<'_> {
    fn value(&mut self, of: &Type, value: ObjectRef<'_>) -> Result<(), Unfit> {
        let node = unstable::node(value);
        match (of, node) {
            (Type::Bool, MontyNode::Bool(truth)) => cbor::write_bool(*truth, &mut self.out),
            (Type::Int, MontyNode::Int(number)) => cbor::write_int(*number, &mut self.out),
            (Type::Nat, MontyNode::Int(number)) if *number >= 0 => {
                cbor::write_nat(number.unsigned_abs(), &mut self.out);
            }
            (Type::Nat, MontyNode::BigInt(number)) => match u64::try_from(number) {
                Ok(number) => cbor::write_nat(number, &mut self.out),
                Err(_) => return Err(self.unfit("nat", value)),
            },
            (Type::Bytes, MontyNode::Bytes(bytes)) => cbor::write_bytes(bytes, &mut self.out),
            (Type::Text, MontyNode::String(text)) => cbor::write_text(text, &mut self.out),
            (Type::Hash, MontyNode::String(text)) if is_hash(text) => {
                cbor::write_text(text, &mut self.out);
            }
            (Type::Uuid, MontyNode::String(text)) if is_uuid(text) => {
                cbor::write_text(text, &mut self.out);
            }
            (Type::Dec128, MontyNode::Decimal(text)) => match Decimal::parse(text) {
                Some(number) => cbor::write_text(&number.text(), &mut self.out),
                None => return Err(self.unfit("dec128 of at most 34 digits", value)),
            },
            (Type::Time, MontyNode::DateTime(time)) => match moment::time_ns(time) {
                Some(ns) => cbor::write_int(ns, &mut self.out),
                None => return Err(self.unfit("a datetime with a time zone, 1677 to 2262", value)),
            },
            (Type::Duration, MontyNode::TimeDelta(delta)) => match moment::duration_ns(delta) {
                Some(ns) => cbor::write_int(ns, &mut self.out),
                None => return Err(self.unfit("a timedelta of at most 292 years", value)),
            },
            (Type::Unit, MontyNode::None) => cbor::write_null(&mut self.out),
            (Type::List(of), MontyNode::List(ids) | MontyNode::Tuple(ids)) => {
                cbor::write_list(ids.len(), &mut self.out);
                self.each(value, ids, |writing, element| writing.value(of, element))?;
            }
            (
                Type::Set(of),
                MontyNode::Set(ids) | MontyNode::FrozenSet(ids) | MontyNode::List(ids),
            ) => {
                self.set(of, value, ids)?;
            }
            (Type::Option(of), node) => match node {
                MontyNode::None => cbor::write_null(&mut self.out),
                _ => self.value(of, value)?,
            },
            (Type::Map(key, of), MontyNode::Dict(pairs)) => self.map(key, of, value, pairs)?,
            (Type::Record(fields), MontyNode::Dict(pairs)) => self.record(fields, value, pairs)?,
            (Type::Variant(arms), _) => self.variant(arms, value)?,
            (Type::Ref(name), _) => self.named(name, value)?,
            _ => return Err(self.unfit(of.word(), value)),
        }
        match self.out.len() <= VALUE_BYTES_MAX {
            true => Ok(()),
            false => Err(self.unfit("a value of at most 1 MiB", value)),
        }
    }

    /// Write each element under its index.
    pub fn each(
        &mut self,
        list: ObjectRef<'_>,
        ids: &[NodeId],
        mut write: impl FnMut(&mut Self, ObjectRef<'_>) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        for (index, id) in ids.iter().enumerate() {
            self.below(&format!("[{index}]"), |writing| {
                write(writing, unstable::child(list, *id))
            })?;
        }
        Ok(())
    }

    /// Write what is at a step of the path.
    pub fn below(
        &mut self,
        step: &str,
        write: impl FnOnce(&mut Self) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        let length = self.path.len();
        self.path.push_str(step);
        write(self)?;
        self.path.truncate(length);
        Ok(())
    }

    /// The bytes that `write` writes, which are not yet part of the value.
    pub fn apart(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Unfit>,
    ) -> Result<Vec<u8>, Unfit> {
        let before = std::mem::take(&mut self.out);
        let written = write(self);
        let apart = std::mem::replace(&mut self.out, before);
        written.map(|()| apart)
    }

    fn set(&mut self, of: &Type, value: ObjectRef<'_>, ids: &[NodeId]) -> Result<(), Unfit> {
        let mut elements = Vec::with_capacity(ids.len());
        self.each(value, ids, |writing, element| {
            elements.push(writing.apart(|writing| writing.value(of, element))?);
            Ok(())
        })?;
        elements.sort_unstable();
        elements.dedup();
        cbor::write_list(elements.len(), &mut self.out);
        self.out.extend(elements.into_iter().flatten());
        Ok(())
    }

    fn map(
        &mut self,
        key_type: &Type,
        of: &Type,
        value: ObjectRef<'_>,
        pairs: &[(NodeId, NodeId)],
    ) -> Result<(), Unfit> {
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, entry) in pairs {
            let (key, entry) = (unstable::child(value, *key), unstable::child(value, *entry));
            self.below(&format!("[{}]", shown(key)), |writing| {
                let bytes = writing.apart(|writing| writing.value(key_type, key))?;
                entries.push((bytes, writing.apart(|writing| writing.value(of, entry))?));
                Ok(())
            })?;
        }
        self.sorted_map(entries);
        Ok(())
    }

    /// Write the entries of a map, each with the bytes of its key, in canonical order.
    pub fn sorted_map(&mut self, mut entries: Vec<(Vec<u8>, Vec<u8>)>) {
        entries.sort_unstable();
        cbor::write_map(entries.len(), &mut self.out);
        for (key, entry) in entries {
            self.out.extend(key);
            self.out.extend(entry);
        }
    }

    pub fn record(
        &mut self,
        fields: &[(String, Type)],
        value: ObjectRef<'_>,
        pairs: &[(NodeId, NodeId)],
    ) -> Result<(), Unfit> {
        let name_of = |id: &NodeId| match unstable::node(unstable::child(value, *id)) {
            MontyNode::String(name) => Some(name.as_str()),
            _ => None,
        };
        if let Some((key, _)) = pairs.iter().find(|(key, _)| {
            name_of(key).is_none_or(|name| fields.iter().all(|(field, _)| field != name))
        }) {
            let found = format!("the field {}", shown(unstable::child(value, *key)));
            return Err(self.unfit_for("no field but those of the schema", found));
        }
        cbor::write_map(fields.len(), &mut self.out);
        for (name, of) in fields {
            cbor::write_text(name, &mut self.out);
            let entry = pairs.iter().find(|(key, _)| name_of(key) == Some(name));
            self.below(&format!(".{name}"), |writing| match entry {
                Some((_, entry)) => writing.value(of, unstable::child(value, *entry)),
                None => Err(writing.unfit_for(of.word(), "no such field".to_owned())),
            })?;
        }
        Ok(())
    }

    fn named(&mut self, name: &str, value: ObjectRef<'_>) -> Result<(), Unfit> {
        let Some(of) = self.values.schemas.get(name) else {
            return Err(self.unfit_for("a schema that the program has", name.to_owned()));
        };
        let (Type::Record(fields), Some(class)) = (&*of, self.values.classes.get(name)) else {
            return self.value(&of, value);
        };
        match unstable::node(value) {
            MontyNode::ClassInstance { class_type, attrs, .. }
                if is_class(unstable::child(value, *class_type), class.id) =>
            {
                self.record(fields, value, attrs)
            }
            _ => {
                let expected = format!("{} ({name})", class.name);
                Err(self.unfit(&expected, value))
            }
        }
    }

    /// A str is a unit arm, an instance of an arm's class that arm, and a pair names its arm.
    fn variant(&mut self, arms: &[(String, Type)], value: ObjectRef<'_>) -> Result<(), Unfit> {
        let named = |tag: &str| arms.iter().find(|(name, _)| name == tag);
        match unstable::node(value) {
            MontyNode::String(tag) => {
                if let Some((name, Type::Unit)) = named(tag) {
                    cbor::write_arm(name, false, &mut self.out);
                    return Ok(());
                }
            }
            MontyNode::Tuple(ids) if ids.len() == 2 => {
                let (tag, inner) = (unstable::child(value, ids[0]), unstable::child(value, ids[1]));
                if let MontyNode::String(tag) = unstable::node(tag)
                    && let Some((name, of)) = named(tag)
                    && *of != Type::Unit
                {
                    cbor::write_arm(name, true, &mut self.out);
                    return self.below("[1]", |writing| writing.value(of, inner));
                }
            }
            MontyNode::ClassInstance { class_type, .. } => {
                let class_type = unstable::child(value, *class_type);
                for (name, of) in arms {
                    if let Some(class) = self.values.class_of_arm(arms, of)
                        && is_class(class_type, class.id)
                    {
                        cbor::write_arm(name, true, &mut self.out);
                        return self.value(of, value);
                    }
                }
            }
            _ => {}
        }
        let names: Vec<&str> = arms.iter().map(|(name, _)| name.as_str()).collect();
        Err(self.unfit(&format!("one of {}", names.join(", ")), value))
    }

    pub fn unfit(&self, expected: &str, value: ObjectRef<'_>) -> Unfit {
        self.unfit_for(expected, found(value))
    }

    pub fn unfit_for(&self, expected: &str, found: String) -> Unfit {
        Unfit { path: self.path.clone(), expected: expected.to_owned(), found }
    }
}

/// Whether the node is this class.
fn is_class(class_type: ObjectRef<'_>, id: monty_types::MontyUuid) -> bool {
    matches!(unstable::node(class_type), MontyNode::ClassType(class) if class.id == id)
}

/// The type of a value, and the value itself where it is short: `int -1`.
fn found(value: ObjectRef<'_>) -> String {
    match unstable::node(value) {
        MontyNode::None => "None".to_owned(),
        MontyNode::ClassInstance { class_type, .. } => {
            match unstable::node(unstable::child(value, *class_type)) {
                MontyNode::ClassType(class) => class.name.clone(),
                _ => "an instance".to_owned(),
            }
        }
        MontyNode::Bool(_)
        | MontyNode::Int(_)
        | MontyNode::Float(_)
        | MontyNode::String(_)
        | MontyNode::Bytes(_)
        | MontyNode::Decimal(_) => format!("{} {}", value.type_name(), shown(value)),
        MontyNode::BigInt(number) => format!("int of {} bits", number.bits()),
        _ => value.type_name().to_owned(),
    }
}

/// At most 64 characters of the value's `repr`.
fn shown(value: ObjectRef<'_>) -> String {
    let text = value.py_repr();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
