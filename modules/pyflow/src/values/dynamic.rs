//! Values whose bytes say what they are, for what only the program itself reads: the values of
//! branches, scopes and locals, and the states of loops (PY-36).
//!
//! | Python | bytes |
//! |---|---|
//! | `None`, `bool`, `str`, `bytes`, `list`, and `int` of 64 bits | the value itself |
//! | `dict` with text keys, none of which begins with `$` | a map |
//! | an instance of a schema's class | `{"$shop/Order@1": record}` |
//! | `Decimal`, `datetime`, `timedelta` | `{"$decimal": text}`, `{"$time": ns}`, `{"$duration": ns}` |
//! | `tuple`, `set`, other `dict`s, other `int`s | `{"$tuple": […]}`, `{"$set": […]}`, `{"$dict": [[key, value], …]}`, `{"$int": text}` |

use aos_sdk::cbor::{self, Stop};
use monty_types::ObjectRef;
use monty_types::unstable::{self, MontyNode, NodeId};
use num_bigint::BigInt;

use super::read::{Reading, integer};
use super::write::Writing;
use super::{Unfit, VALUE_BYTES_MAX, Values, moment};
use crate::types::Type;

/// Lists and dicts may nest this deep, which the canonical form allows with room for the marks.
const LEVELS_MAX: usize = 32;

const STORABLE: &str = "a value that a history can store";

impl Values {
    /// Bytes from which [`Values::read_dynamic`] makes the same value.
    pub fn write_dynamic(&self, value: ObjectRef<'_>) -> Result<Vec<u8>, Unfit> {
        let mut writing = Writing { values: self, out: Vec::new(), path: "$".to_owned() };
        writing.dynamic(value, 0)?;
        Ok(writing.out)
    }
}

impl Writing<'_> {
    fn dynamic(&mut self, value: ObjectRef<'_>, level: usize) -> Result<(), Unfit> {
        if level > LEVELS_MAX {
            return Err(self.unfit("at most 32 levels", value));
        }
        match unstable::node(value) {
            MontyNode::None => cbor::write_null(&mut self.out),
            MontyNode::Bool(truth) => cbor::write_bool(*truth, &mut self.out),
            MontyNode::Int(number) => cbor::write_int(*number, &mut self.out),
            MontyNode::BigInt(number) => match u64::try_from(number) {
                Ok(number) => cbor::write_nat(number, &mut self.out),
                Err(_) => {
                    self.mark("$int");
                    cbor::write_text(&number.to_string(), &mut self.out);
                }
            },
            MontyNode::String(text) => cbor::write_text(text, &mut self.out),
            MontyNode::Bytes(bytes) => cbor::write_bytes(bytes, &mut self.out),
            MontyNode::Decimal(text) => {
                self.mark("$decimal");
                cbor::write_text(text, &mut self.out);
            }
            MontyNode::DateTime(time) => {
                self.mark("$time");
                match moment::time_ns(time) {
                    Some(ns) => cbor::write_int(ns, &mut self.out),
                    None => {
                        return Err(self.unfit("a datetime with a time zone, 1677 to 2262", value));
                    }
                }
            }
            MontyNode::TimeDelta(delta) => {
                self.mark("$duration");
                match moment::duration_ns(delta) {
                    Some(ns) => cbor::write_int(ns, &mut self.out),
                    None => return Err(self.unfit("a timedelta of at most 292 years", value)),
                }
            }
            MontyNode::List(ids) => self.dynamic_list(value, ids, level)?,
            MontyNode::Tuple(ids) => {
                self.mark("$tuple");
                self.dynamic_list(value, ids, level)?;
            }
            MontyNode::Set(ids) => self.dynamic_set(value, ids, level)?,
            MontyNode::Dict(pairs) => self.dynamic_dict(value, pairs, level)?,
            MontyNode::ClassInstance { class_type, attrs, .. } => {
                let class = unstable::node(unstable::child(value, *class_type));
                let schema = match class {
                    MontyNode::ClassType(class) => self.values.schema_of(&class.id),
                    _ => None,
                };
                let of = schema.and_then(|name| self.values.schemas.get(name));
                match (schema, of.as_deref()) {
                    (Some(name), Some(Type::Record(fields))) => {
                        self.mark(&format!("${name}"));
                        self.record(fields, value, attrs)?;
                    }
                    _ => return Err(self.unfit(STORABLE, value)),
                }
            }
            _ => return Err(self.unfit(STORABLE, value)),
        }
        match self.out.len() <= VALUE_BYTES_MAX {
            true => Ok(()),
            false => Err(self.unfit("a value of at most 1 MiB", value)),
        }
    }

    /// The head of a map whose only key says what its value is.
    fn mark(&mut self, word: &str) {
        cbor::write_map(1, &mut self.out);
        cbor::write_text(word, &mut self.out);
    }

    fn dynamic_list(
        &mut self,
        value: ObjectRef<'_>,
        ids: &[NodeId],
        level: usize,
    ) -> Result<(), Unfit> {
        cbor::write_list(ids.len(), &mut self.out);
        self.each(value, ids, |writing, element| writing.dynamic(element, level + 1))
    }

    fn dynamic_set(
        &mut self,
        value: ObjectRef<'_>,
        ids: &[NodeId],
        level: usize,
    ) -> Result<(), Unfit> {
        let mut elements = Vec::with_capacity(ids.len());
        self.each(value, ids, |writing, element| {
            elements.push(writing.apart(|writing| writing.dynamic(element, level + 1))?);
            Ok(())
        })?;
        elements.sort_unstable();
        self.mark("$set");
        cbor::write_list(elements.len(), &mut self.out);
        self.out.extend(elements.into_iter().flatten());
        Ok(())
    }

    fn dynamic_dict(
        &mut self,
        value: ObjectRef<'_>,
        pairs: &[(NodeId, NodeId)],
        level: usize,
    ) -> Result<(), Unfit> {
        let is_plain = pairs.iter().all(|(key, _)| {
            matches!(unstable::node(unstable::child(value, *key)),
                MontyNode::String(name) if !name.starts_with('$'))
        });
        let mut entries = Vec::with_capacity(pairs.len());
        for (index, (key, entry)) in pairs.iter().enumerate() {
            let (key, entry) = (unstable::child(value, *key), unstable::child(value, *entry));
            self.below(&format!("[{index}]"), |writing| {
                let bytes = writing.apart(|writing| writing.dynamic(key, level + 1))?;
                entries.push((bytes, writing.apart(|writing| writing.dynamic(entry, level + 1))?));
                Ok(())
            })?;
        }
        if is_plain {
            self.sorted_map(entries);
            return Ok(());
        }
        entries.sort_unstable();
        self.mark("$dict");
        cbor::write_list(entries.len(), &mut self.out);
        for (key, entry) in entries {
            cbor::write_list(2, &mut self.out);
            self.out.extend(key);
            self.out.extend(entry);
        }
        Ok(())
    }
}

impl Reading<'_> {
    pub fn dynamic(&mut self) -> Result<NodeId, Stop> {
        let node = match self.next() {
            Some(0xf6) => {
                self.from.null()?;
                MontyNode::None
            }
            Some(0xf4 | 0xf5) => MontyNode::Bool(self.from.bool()?),
            Some(0x00..=0x1f) => integer(self.from.nat()?),
            Some(0x20..=0x3f) => MontyNode::Int(self.from.int()?),
            Some(0x40..=0x5f) => MontyNode::Bytes(self.from.bytes()?.to_vec()),
            Some(0x60..=0x7f) => MontyNode::String(self.from.text()?.to_owned()),
            Some(0x80..=0x9f) => MontyNode::List(self.dynamic_elements()?),
            _ => return self.dynamic_map(),
        };
        Ok(self.graph.push(node))
    }

    fn dynamic_elements(&mut self) -> Result<Vec<NodeId>, Stop> {
        (0..self.from.list()?).map(|_| self.dynamic()).collect()
    }

    fn dynamic_map(&mut self) -> Result<NodeId, Stop> {
        let count = self.from.map()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let key = self.from.text()?;
            if let Some(mark) = key.strip_prefix('$') {
                return match count {
                    1 => self.marked(mark),
                    _ => Err(self.from.stop("a single mark")),
                };
            }
            let key = self.graph.push(MontyNode::String(key.to_owned()));
            pairs.push((key, self.dynamic()?));
        }
        Ok(self.graph.push(MontyNode::Dict(pairs)))
    }

    fn marked(&mut self, mark: &str) -> Result<NodeId, Stop> {
        let node = match mark {
            "int" => match self.from.text()?.parse::<BigInt>() {
                Ok(number) => MontyNode::BigInt(number),
                Err(_) => return Err(self.from.stop("an int before here")),
            },
            "decimal" => MontyNode::Decimal(self.from.text()?.to_owned()),
            "time" => MontyNode::DateTime(self.moment(moment::datetime)?),
            "duration" => MontyNode::TimeDelta(self.moment(moment::timedelta)?),
            "tuple" => MontyNode::Tuple(self.dynamic_elements()?),
            "set" => MontyNode::Set(self.dynamic_elements()?),
            "dict" => {
                let mut pairs = Vec::new();
                for _ in 0..self.from.list()? {
                    if self.from.list()? != 2 {
                        return Err(self.from.stop("a key and a value"));
                    }
                    pairs.push((self.dynamic()?, self.dynamic()?));
                }
                MontyNode::Dict(pairs)
            }
            schema => return self.named(schema),
        };
        Ok(self.graph.push(node))
    }
}
