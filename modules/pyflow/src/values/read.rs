//! Canonical CBOR of a type -> nodes of Python.

use aos_sdk::Decimal;
use aos_sdk::cbor::{Reader, Stop};
use monty_types::unstable::{self, ClassTypeNode, MontyGraph, MontyNode, NodeId};
use monty_types::{MontyObject, MontyUuid};
use num_bigint::BigInt;

use super::{Values, is_hash, is_uuid, moment};
use crate::types::Type;

/// The interpreter makes a new instance of the program's class of a node with this identity.
const NEW: MontyUuid = MontyUuid::from_u128(0);

impl Values {
    /// Read the value that fills `bytes` exactly. The error is `byte 3: expected a nat`.
    pub fn read(&self, of: &Type, bytes: &[u8]) -> Result<MontyObject, String> {
        self.whole(bytes, |reading| reading.value(of))
    }

    /// Read a value whose bytes say what it is ([`Values::write_dynamic`]).
    pub fn read_dynamic(&self, bytes: &[u8]) -> Result<MontyObject, String> {
        self.whole(bytes, |reading| reading.dynamic())
    }

    fn whole(
        &self,
        bytes: &[u8],
        read: impl FnOnce(&mut Reading<'_>) -> Result<NodeId, Stop>,
    ) -> Result<MontyObject, String> {
        let (values, from, graph) = (self, Reader::new(bytes), MontyGraph::new());
        let mut reading = Reading { values, bytes, from, graph };
        match read(&mut reading).and_then(|root| reading.from.end().map(|()| root)) {
            Ok(root) => unstable::object_from_graph(reading.graph, root)
                .map_err(|_| "byte 0: expected a value of Python".to_owned()),
            Err(_) => Err(format!("{:?}", reading.from.misfit())),
        }
    }
}

/// One value that is being read.
pub(super) struct Reading<'a> {
    pub values: &'a Values,
    bytes: &'a [u8],
    pub from: Reader<'a>,
    pub graph: MontyGraph,
}

impl Reading<'_> {
    /// The first byte of the next item.
    pub fn next(&self) -> Option<u8> {
        self.bytes.get(self.from.position()).copied()
    }

    pub fn value(&mut self, of: &Type) -> Result<NodeId, Stop> {
        let node = match of {
            Type::Bool => MontyNode::Bool(self.from.bool()?),
            Type::Int => MontyNode::Int(self.from.int()?),
            Type::Nat => integer(self.from.nat()?),
            Type::Bytes => MontyNode::Bytes(self.from.bytes()?.to_vec()),
            Type::Text => self.text("text", |_| true)?,
            Type::Hash => self.text("a hash before here", is_hash)?,
            Type::Uuid => self.text("a uuid before here", is_uuid)?,
            Type::Dec128 => self.decimal()?,
            Type::Time => MontyNode::DateTime(self.moment(moment::datetime)?),
            Type::Duration => MontyNode::TimeDelta(self.moment(moment::timedelta)?),
            Type::Unit => {
                self.from.null()?;
                MontyNode::None
            }
            Type::List(of) => MontyNode::List(self.elements(of, false)?),
            Type::Set(of) => {
                let elements = self.elements(of, true)?;
                match self.values.is_hashable(of) {
                    true => MontyNode::Set(elements),
                    false => MontyNode::List(elements),
                }
            }
            Type::Option(of) => {
                if !self.from.is_null() {
                    return self.value(of);
                }
                MontyNode::None
            }
            Type::Map(key, value) => self.map(key, value)?,
            Type::Record(fields) => MontyNode::Dict(self.fields(fields)?),
            Type::Variant(arms) => return self.variant(arms),
            Type::Ref(name) => return self.named(name),
        };
        Ok(self.graph.push(node))
    }

    fn text(
        &mut self,
        expected: &'static str,
        is_valid: fn(&str) -> bool,
    ) -> Result<MontyNode, Stop> {
        let text = self.from.text()?;
        match is_valid(text) {
            true => Ok(MontyNode::String(text.to_owned())),
            false => Err(self.from.stop(expected)),
        }
    }

    pub fn decimal(&mut self) -> Result<MontyNode, Stop> {
        let text = self.from.text()?;
        match Decimal::parse(text) {
            Some(number) if number.text() == text => Ok(MontyNode::Decimal(text.to_owned())),
            _ => Err(self.from.stop("a dec128 before here")),
        }
    }

    pub fn moment<T>(&mut self, convert: fn(i64) -> Option<T>) -> Result<T, Stop> {
        let ns = self.from.int()?;
        convert(ns).ok_or_else(|| {
            self.from.stop("whole microseconds before here, since datetime has no nanoseconds")
        })
    }

    fn elements(&mut self, of: &Type, ascending: bool) -> Result<Vec<NodeId>, Stop> {
        let mut elements = Vec::new();
        let mut previous = 0..0;
        for index in 0..self.from.list()? {
            let start = self.from.position();
            elements.push(self.value(of)?);
            let span = start..self.from.position();
            if ascending && index > 0 && self.bytes[span.clone()] <= self.bytes[previous] {
                return Err(self.from.stop("ascending elements before here"));
            }
            previous = span;
        }
        Ok(elements)
    }

    fn map(&mut self, key: &Type, value: &Type) -> Result<MontyNode, Stop> {
        let mut entries = Vec::new();
        let mut previous = 0..0;
        for index in 0..self.from.map()? {
            let start = self.from.position();
            let key = self.value(key)?;
            let span = start..self.from.position();
            if index > 0 && self.bytes[span.clone()] <= self.bytes[previous] {
                return Err(self.from.stop("ascending keys before here"));
            }
            previous = span;
            entries.push((key, self.value(value)?));
        }
        Ok(MontyNode::Dict(entries))
    }

    fn fields(&mut self, fields: &[(String, Type)]) -> Result<Vec<(NodeId, NodeId)>, Stop> {
        self.from.record(fields.len())?;
        let mut attributes = Vec::with_capacity(fields.len());
        for (name, of) in fields {
            if self.from.text()? != name {
                return Err(self.from.stop("the fields of the record before here"));
            }
            let key = self.graph.push(MontyNode::String(name.clone()));
            attributes.push((key, self.value(of)?));
        }
        Ok(attributes)
    }

    pub fn named(&mut self, name: &str) -> Result<NodeId, Stop> {
        let Some(of) = self.values.schemas.get(name) else {
            return Err(self.from.stop("a schema that the program has"));
        };
        let (Type::Record(fields), Some(class)) = (&*of, self.values.classes.get(name)) else {
            return self.value(&of);
        };
        let class_type = self.graph.push(MontyNode::ClassType(Box::new(ClassTypeNode {
            name: class.name.clone(),
            id: class.id,
            host_defined: false,
            is_dataclass: true,
            attrs: Vec::new(),
        })));
        let attrs = self.fields(fields)?;
        Ok(self.graph.push(MontyNode::ClassInstance { class_type, instance_id: NEW, attrs }))
    }

    fn variant(&mut self, arms: &[(String, Type)]) -> Result<NodeId, Stop> {
        let (tag, is_valued) = self.from.arm()?;
        let Some((_, arm)) = arms.iter().find(|(name, _)| name == tag) else {
            return Err(self.from.stop("an arm of the variant before here"));
        };
        if is_valued != (*arm != Type::Unit) {
            return Err(self.from.stop("$value exactly if the arm has one"));
        }
        let tag = MontyNode::String(tag.to_owned());
        if !is_valued {
            return Ok(self.graph.push(tag));
        }
        if self.values.class_of_arm(arms, arm).is_some() {
            return self.value(arm);
        }
        let tag = self.graph.push(tag);
        let value = self.value(arm)?;
        Ok(self.graph.push(MontyNode::Tuple(vec![tag, value])))
    }
}

/// An int of Python: wide ones have a form of their own.
pub(super) fn integer(number: u64) -> MontyNode {
    match i64::try_from(number) {
        Ok(number) => MontyNode::Int(number),
        Err(_) => MontyNode::BigInt(BigInt::from(number)),
    }
}
