//! Records <-> their canonical bytes, which are hashed (spec/journal.md, J-10 to J-19;
//! `kernel/aos/core/journal/record_codec.py`).
//!
//! Reading is the record gate: an unknown field, a missing one or another type is damage. Each type
//! of a field has three functions: `write` encodes; `quick` takes only the bytes that `write` writes,
//! and None says that it does not know; `read` then takes the decoded value and describes its
//! problem.

use std::rc::Rc;

use crate::journal::faults::{Fault, FaultKind};
use crate::journal::records::*;
use crate::journal::vocabulary::{
    ApplyMode, AttemptPhase, CellStatus, ControlAction, ControlStatus, GovernanceAction, OpenWork,
    ReceiptOutcome, ReceiptStatus, Word,
};
use crate::values::cbor::{
    decode_record, put_array, put_bytes, put_map, put_nat, put_text, put_value, Bounds, Key, Value,
    RECORD, RECORD_ITEMS_MAX, TRUE,
};
use crate::values::digests::{Hash, HASH_BYTES};
use crate::values::errors::{quoted, Failure, Outcome};
use crate::values::show::describe;

/// Largest record that a reader accepts: four times the largest output of a step.
pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The canonical bytes of a record, which are hashed.
pub fn to_bytes(record: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    match record {
        Record::Genesis(record) => record.put(&mut out),
        Record::Start(record) => record.put(&mut out),
        Record::Manifest(record) => record.put(&mut out),
        Record::Event(record) => record.put(&mut out),
        Record::Step(record) => record.put(&mut out),
        Record::Faulted(record) => record.put(&mut out),
        Record::Receipt(record) => record.put(&mut out),
        Record::KernelReceipt(record) => record.put(&mut out),
        Record::Stream(record) => record.put(&mut out),
        Record::Attempt(record) => record.put(&mut out),
        Record::Snapshot(record) => record.put(&mut out),
        Record::Control(record) => record.put(&mut out),
        Record::Fork(record) => record.put(&mut out),
        Record::Governance(record) => record.put(&mut out),
    }
    // Stop before storing a record that no reader accepts.
    assert!(
        out.len() <= RECORD_BYTES_MAX,
        "record {} is too large: {} bytes",
        record.seq(),
        out.len()
    );
    out
}

/// Read a record at the record gate. Damage: the bytes are not what `to_bytes` writes.
pub fn from_bytes(data: &[u8]) -> Outcome<Record> {
    // Everything with a head is an item, so that this many bytes cannot hold too many.
    if data.len() <= RECORD_ITEMS_MAX {
        if let Some(record) = quickly(data) {
            return Ok(record);
        }
    }
    let value = decode_record(data, Bounds { bytes: RECORD_BYTES_MAX, ..RECORD })
        .map_err(|e| Failure::Damage(format!("a record is not canonical CBOR: {e}")))?;
    let mut fields = Fields::of(value)?;
    let kind = fields.take("kind").unwrap_or(Value::Null);
    let name = match &kind {
        Value::Text(name) => name.as_str(),
        _ => "",
    };
    Ok(match name {
        Genesis::KIND => Record::Genesis(Genesis::of(fields)?),
        Start::KIND => Record::Start(Start::of(fields)?),
        Manifest::KIND => Record::Manifest(Manifest::of(fields)?),
        Event::KIND => Record::Event(Event::of(fields)?),
        Step::KIND => Record::Step(Step::of(fields)?),
        Faulted::KIND => Record::Faulted(Faulted::of(fields)?),
        Receipt::KIND => Record::Receipt(Rc::new(Receipt::of(fields)?)),
        KernelReceipt::KIND => Record::KernelReceipt(Rc::new(KernelReceipt::of(fields)?)),
        Stream::KIND => Record::Stream(Rc::new(Stream::of(fields)?)),
        Attempt::KIND => Record::Attempt(Attempt::of(fields)?),
        Snapshot::KIND => Record::Snapshot(Snapshot::of(fields)?),
        Control::KIND => Record::Control(Control::of(fields)?),
        Fork::KIND => Record::Fork(Fork::of(fields)?),
        Governance::KIND => Record::Governance(Governance::of(fields)?),
        _ => {
            let name = match &kind {
                Value::Text(name) => quoted(name),
                other => describe(other),
            };
            return Err(damage(format!(
                "record kind {name} is unknown: a newer release wrote this journal, or it is damaged"
            )));
        }
    })
}

fn quickly(data: &[u8]) -> Option<Record> {
    let place = data.windows(KIND_KEY.len()).position(|each| each == KIND_KEY)?;
    let kind = Quick { data, at: place + KIND_KEY.len() }.text()?;
    let mut from = Quick { data, at: 0 };
    let record = match kind {
        Step::KIND => Record::Step(Step::quick(&mut from)?),
        Event::KIND => Record::Event(Event::quick(&mut from)?),
        Receipt::KIND => Record::Receipt(Rc::new(Receipt::quick(&mut from)?)),
        KernelReceipt::KIND => Record::KernelReceipt(Rc::new(KernelReceipt::quick(&mut from)?)),
        Stream::KIND => Record::Stream(Rc::new(Stream::quick(&mut from)?)),
        Attempt::KIND => Record::Attempt(Attempt::quick(&mut from)?),
        Faulted::KIND => Record::Faulted(Faulted::quick(&mut from)?),
        Snapshot::KIND => Record::Snapshot(Snapshot::quick(&mut from)?),
        Control::KIND => Record::Control(Control::quick(&mut from)?),
        Governance::KIND => Record::Governance(Governance::quick(&mut from)?),
        Manifest::KIND => Record::Manifest(Manifest::quick(&mut from)?),
        Genesis::KIND => Record::Genesis(Genesis::quick(&mut from)?),
        Fork::KIND => Record::Fork(Fork::quick(&mut from)?),
        Start::KIND => Record::Start(Start::quick(&mut from)?),
        _ => return None,
    };
    (from.at == data.len()).then_some(record)
}

const KIND_KEY: &[u8; 5] = b"\x64kind";

fn damage(text: impl Into<String>) -> Failure {
    Failure::Damage(text.into())
}

/// A place in bytes that are read without an explanation: None for what is not canonical, is cut
/// short, or is too rare.
pub(crate) struct Quick<'a> {
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Quick<'a> {
    fn byte(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    /// Go over `expected`, or stay and return false. Its size is known, so that it is compared as a
    /// few numbers.
    #[inline]
    fn skip<const N: usize>(&mut self, expected: &[u8; N]) -> bool {
        let is_next = self.data[self.at..].first_chunk() == Some(expected);
        if is_next {
            self.at += N;
        }
        is_next
    }

    #[inline]
    pub fn expect<const N: usize>(&mut self, expected: &[u8; N]) -> Option<()> {
        self.skip(expected).then_some(())
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(size)?;
        let taken = self.data.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// The argument of a head of this major type.
    pub fn argument(&mut self, major: u8) -> Option<u64> {
        let info = self.byte()?.wrapping_sub(major);
        self.at += 1;
        let (n, least) = match info {
            0..=23 => return Some(info as u64),
            24 => (self.take(1)?[0] as u64, 24),
            25 => (u16::from_be_bytes(self.take(2)?.try_into().ok()?) as u64, 0x100),
            26 => (u32::from_be_bytes(self.take(4)?.try_into().ok()?) as u64, 0x1_0000),
            27 => (u64::from_be_bytes(self.take(8)?.try_into().ok()?), 0x1_0000_0000),
            _ => return None,
        };
        (n >= least).then_some(n)
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = self.argument(0x40)?;
        self.take(usize::try_from(size).ok()?)
    }

    fn text(&mut self) -> Option<&'a str> {
        let size = self.argument(0x60)?;
        std::str::from_utf8(self.take(usize::try_from(size).ok()?)?).ok()
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes()?.try_into().ok()
    }
}

/// How the values of one type of field are written and read.
trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn quick(from: &mut Quick) -> Option<Self>;
    fn read(value: Value) -> Outcome<Self>;
}

/// A field that is left out when it is absent or empty.
trait Optional: Sized {
    fn absent() -> Self;
    fn is_absent(&self) -> bool;
    fn put(&self, out: &mut Vec<u8>);
    fn quick(from: &mut Quick) -> Option<Self>;
    fn read(value: Value) -> Outcome<Self>;
}

impl<T: Field> Optional for Option<T> {
    fn absent() -> Self {
        None
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        T::quick(from).map(Some)
    }
    fn read(value: Value) -> Outcome<Self> {
        T::read(value).map(Some)
    }
}

impl<T: Field> Optional for Vec<T> {
    fn absent() -> Self {
        Vec::new()
    }
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn put(&self, out: &mut Vec<u8>) {
        Field::put(self, out);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        Field::quick(from)
    }
    fn read(value: Value) -> Outcome<Self> {
        Field::read(value)
    }
}

/// True, or left out.
impl Optional for bool {
    fn absent() -> Self {
        false
    }
    fn is_absent(&self) -> bool {
        !self
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.push(TRUE);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.expect(&[TRUE]).map(|()| true)
    }
    fn read(value: Value) -> Outcome<Self> {
        match value {
            Value::Bool(true) => Ok(true),
            other => Err(damage(format!(
                "a record holds {} where true belongs, or nothing",
                describe(&other)
            ))),
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_array(out, self.len());
        for item in self {
            item.put(out);
        }
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        let count = usize::try_from(from.argument(0x80)?).ok()?;
        if count > from.data.len() - from.at {
            return None;
        }
        let mut items = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            items.push(T::quick(from)?);
        }
        Some(items)
    }
    fn read(value: Value) -> Outcome<Self> {
        match value {
            Value::List(items) => items.into_iter().map(T::read).collect(),
            other => Err(damage(format!(
                "a record holds {} where an array of items belongs",
                describe(&other)
            ))),
        }
    }
}

impl Field for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_nat(out, *self);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.argument(0x00)
    }
    fn read(value: Value) -> Outcome<Self> {
        value.as_nat().ok_or_else(|| {
            damage(format!("a record holds {} where a natural number belongs", describe(&value)))
        })
    }
}

impl Field for Rc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.text().map(Rc::from)
    }
    fn read(value: Value) -> Outcome<Self> {
        match value {
            Value::Text(text) => Ok(text.into()),
            other => Err(damage(format!("a record holds {} where text belongs", describe(&other)))),
        }
    }
}

impl Field for Rc<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.bytes().map(Rc::from)
    }
    fn read(value: Value) -> Outcome<Self> {
        match value {
            Value::Bytes(data) => Ok(data.into()),
            other => Err(damage(format!(
                "a record holds {} where a byte string belongs",
                describe(&other)
            ))),
        }
    }
}

impl Field for Hash {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.array()
    }
    fn read(value: Value) -> Outcome<Self> {
        value.as_bytes().and_then(|data| data.try_into().ok()).ok_or_else(|| {
            damage(format!(
                "a record holds {} where a hash of {HASH_BYTES} bytes belongs",
                describe(&value)
            ))
        })
    }
}

impl Field for Ref {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\xa2\x64hash");
        put_bytes(out, &self.hash);
        out.extend_from_slice(b"\x64size");
        put_nat(out, self.size);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.expect(b"\xa2\x64hash")?;
        let hash = from.array()?;
        from.expect(b"\x64size")?;
        Some(Ref { hash, size: from.argument(0x00)? })
    }
    fn read(value: Value) -> Outcome<Self> {
        match Slot::read(value)? {
            Slot::Ref(reference) => Ok(reference),
            Slot::Bytes(_) => Err(damage("a record holds bytes where a reference belongs")),
        }
    }
}

impl Field for Slot {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Slot::Bytes(data) => put_bytes(out, data),
            Slot::Ref(reference) => reference.put(out),
        }
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        if from.byte()? < 0x60 {
            return from.bytes().map(|data| Slot::Bytes(data.into()));
        }
        Ref::quick(from).map(Slot::Ref)
    }
    fn read(value: Value) -> Outcome<Self> {
        if let Value::Bytes(data) = value {
            return Ok(Slot::Bytes(data.into()));
        }
        let mut fields = Fields::of(value)?;
        match (fields.take("hash"), fields.take("size")) {
            (Some(hash), Some(size)) if fields.0.is_empty() => {
                Ok(Slot::Ref(Ref { hash: Hash::read(hash)?, size: u64::read(size)? }))
            }
            _ => Err(damage("a record holds a reference that is not {hash, size}")),
        }
    }
}

impl Field for Stamp {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\xa2\x62ns");
        put_nat(out, self.ns);
        out.extend_from_slice(b"\x67entropy");
        put_bytes(out, &self.entropy);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.expect(b"\xa2\x62ns")?;
        let ns = from.argument(0x00)?;
        from.expect(b"\x67entropy")?;
        Some(Stamp { ns, entropy: from.array()? })
    }
    fn read(value: Value) -> Outcome<Self> {
        let mut fields = Fields::of(value)?;
        let entropy = fields.take("entropy").and_then(|value| value.as_bytes()?.try_into().ok());
        match (entropy, fields.take("ns")) {
            (Some(entropy), Some(ns)) if fields.0.is_empty() => {
                Ok(Stamp { ns: u64::read(ns)?, entropy })
            }
            _ => Err(damage("a record holds a stamp that is not {ns, 64 bytes of entropy}")),
        }
    }
}

impl Field for CellId {
    fn put(&self, out: &mut Vec<u8>) {
        put_array(out, 2);
        put_text(out, &self.workflow);
        put_bytes(out, &self.key);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.expect(&[0x82])?;
        Some(CellId { workflow: from.text()?.into(), key: from.bytes()?.into() })
    }
    fn read(value: Value) -> Outcome<Self> {
        match <[Value; 2]>::try_from(pair(value)?) {
            Ok([Value::Text(workflow), Value::Bytes(key)]) => Ok(CellId::new(workflow, key)),
            _ => Err(damage("a record names a cell that is not [workflow, key bytes]")),
        }
    }
}

impl Field for EntryId {
    fn put(&self, out: &mut Vec<u8>) {
        put_array(out, 2);
        put_nat(out, self.0);
        put_nat(out, self.1);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        from.expect(&[0x82])?;
        Some((from.argument(0x00)?, from.argument(0x00)?))
    }
    fn read(value: Value) -> Outcome<Self> {
        let mut items = pair(value)?.into_iter();
        let mut next = || u64::read(items.next().unwrap_or(Value::Null));
        Ok((next()?, next()?))
    }
}

/// The two items of an array of two.
fn pair(value: Value) -> Outcome<Vec<Value>> {
    match value {
        Value::List(items) if items.len() == 2 => Ok(items),
        other => {
            Err(damage(format!("a record holds {} where an array of 2 belongs", describe(&other))))
        }
    }
}

impl Field for RequestKey {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            RequestKey::Text(text) => put_text(out, text),
            RequestKey::Bytes(data) => put_bytes(out, data),
        }
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        if from.byte()? < 0x60 {
            return from.bytes().map(|data| RequestKey::Bytes(data.into()));
        }
        from.text().map(|text| RequestKey::Text(text.into()))
    }
    fn read(value: Value) -> Outcome<Self> {
        match value {
            Value::Text(text) => Ok(RequestKey::Text(text.into())),
            Value::Bytes(data) => Ok(RequestKey::Bytes(data.into())),
            _ => Err(damage("a record holds an idempotency key that is neither text nor bytes")),
        }
    }
}

impl Field for Fault {
    fn put(&self, out: &mut Vec<u8>) {
        put_map(out, 2 + self.detail.is_some() as usize);
        out.extend_from_slice(KIND_KEY);
        put_text(out, self.kind.word());
        if let Some(detail) = &self.detail {
            out.extend_from_slice(b"\x66detail");
            put_bytes(out, detail);
        }
        out.extend_from_slice(b"\x67message");
        put_text(out, &self.message);
    }
    fn quick(from: &mut Quick) -> Option<Self> {
        let has_detail = match from.take(1)? {
            [0xA2] => false,
            [0xA3] => true,
            _ => return None,
        };
        from.expect(KIND_KEY)?;
        let kind = FaultKind::of(from.text()?)?;
        let detail = if has_detail {
            from.expect(b"\x66detail")?;
            Some(from.bytes()?.into())
        } else {
            None
        };
        from.expect(b"\x67message")?;
        Some(Fault { kind, message: from.text()?.into(), detail })
    }
    fn read(value: Value) -> Outcome<Self> {
        let mut fields = Fields::of(value)?;
        let (kind, message) = (fields.take("kind"), fields.take("message"));
        let detail = fields.take("detail");
        if !fields.0.is_empty() {
            return Err(damage("a record holds a fault that is not {kind, message, detail?}"));
        }
        let (Some(Value::Text(kind)), Some(Value::Text(message))) = (kind, message) else {
            return Err(damage("a record holds a fault whose kind or message is not text"));
        };
        let Some(known_kind) = FaultKind::of(&kind) else {
            return Err(damage(format!(
                "fault kind {} is unknown: a newer release wrote this journal, or it is damaged",
                quoted(&kind)
            )));
        };
        let detail = match detail {
            None => None,
            Some(Value::Bytes(detail)) => Some(detail.into()),
            Some(_) => {
                return Err(damage("a record holds a fault whose detail is not bytes"));
            }
        };
        Ok(Fault { kind: known_kind, message: message.into(), detail })
    }
}

impl Field for HostFacts {
    fn put(&self, out: &mut Vec<u8>) {
        let entry = |(name, text): &(Rc<str>, Rc<str>)| {
            (Key::Text(name.to_string()), Value::Text(text.to_string()))
        };
        put_value(out, &Value::Map(self.0.iter().map(entry).collect()));
    }
    fn quick(_: &mut Quick) -> Option<Self> {
        None
    }
    fn read(value: Value) -> Outcome<Self> {
        let fields = Fields::of(value)?;
        let mut facts = Vec::with_capacity(fields.0.len());
        for entry in fields.0 {
            match entry {
                (Key::Text(name), Value::Text(text)) => facts.push((name.into(), text.into())),
                _ => return Err(damage("a start record holds something that is not text")),
            }
        }
        facts.sort();
        Ok(HostFacts(facts))
    }
}

/// Text of a closed set.
macro_rules! word_field {
    ($($name:ident = $noun:literal),+ $(,)?) => {
        $(impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                put_text(out, self.word());
            }
            fn quick(from: &mut Quick) -> Option<Self> {
                $name::of(from.text()?)
            }
            fn read(value: Value) -> Outcome<Self> {
                let text = <Rc<str>>::read(value)?;
                $name::of(&text).ok_or_else(|| unknown_word($noun, &text))
            }
        })+
    };
}

fn unknown_word(noun: &str, text: &str) -> Failure {
    damage(format!(
        "{noun} {} is unknown: a newer release wrote this journal, or it is damaged",
        quoted(text)
    ))
}

word_field! {
    ApplyMode = "apply mode",
    CellStatus = "step status",
    ReceiptStatus = "receipt status",
    ReceiptOutcome = "receipt outcome",
    AttemptPhase = "attempt phase",
    OpenWork = "open work of a fork",
    ControlAction = "control action",
    ControlStatus = "control status",
    GovernanceAction = "governance action",
}

/// The entries of a decoded map that were not read yet.
struct Fields(Vec<(Key, Value)>);

impl Fields {
    fn of(value: Value) -> Outcome<Fields> {
        match value {
            Value::Map(entries) => Ok(Fields(entries)),
            other => {
                Err(damage(format!("a record holds {} where a map belongs", describe(&other))))
            }
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let is_it = |(key, _): &(Key, Value)| matches!(key, Key::Text(text) if text == name);
        let place = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(place).1)
    }

    fn needed<T: Field>(&mut self, class: &str, name: &str) -> Outcome<T> {
        match self.take(name) {
            Some(value) => T::read(value),
            None => Err(damage(format!("{class} record: {name} is missing"))),
        }
    }

    fn option<T: Optional>(&mut self, class: &str, name: &str) -> Outcome<T> {
        let Some(value) = self.take(name) else { return Ok(T::absent()) };
        let value = T::read(value)?;
        if value.is_absent() {
            return Err(damage(format!("{class} record: {name} is empty, where it is left out")));
        }
        Ok(value)
    }

    /// All fields must have been read.
    fn end(self, class: &str) -> Outcome<()> {
        let names = self.0.into_iter().map(|(key, _)| match key {
            Key::Int(n) => n.to_string(),
            Key::Text(text) => text,
        });
        match names.min() {
            None => Ok(()),
            Some(name) => Err(damage(format!("{class} record: {name} is not a field of it"))),
        }
    }
}

/// The encoded name of a field: `N` is one more than its length.
const fn key<const N: usize>(name: &str) -> [u8; N] {
    let name = name.as_bytes();
    assert!(name.len() + 1 == N && N <= 24);
    let mut out = [0; N];
    out[0] = 0x60 | name.len() as u8;
    let mut i = 1;
    while i < N {
        out[i] = name[i - 1];
        i += 1;
    }
    out
}

macro_rules! name_key {
    ($name:expr) => {{
        const NAME: &str = $name;
        const KEY: [u8; NAME.len() + 1] = key(NAME);
        &KEY
    }};
}

macro_rules! present {
    ($self:ident $field:ident) => {
        1
    };
    ($self:ident $field:ident ?) => {
        !Optional::is_absent(&$self.$field) as usize
    };
}

macro_rules! put_field {
    ($self:ident $out:ident $field:ident) => {
        $out.extend_from_slice(name_key!(stringify!($field)));
        Field::put(&$self.$field, $out);
    };
    ($self:ident $out:ident $field:ident ?) => {
        if !Optional::is_absent(&$self.$field) {
            $out.extend_from_slice(name_key!(stringify!($field)));
            Optional::put(&$self.$field, $out);
        }
    };
}

macro_rules! quick_field {
    ($from:ident $left:ident $field:ident) => {
        let $field = {
            $from.expect(name_key!(stringify!($field)))?;
            $left = $left.checked_sub(1)?;
            Field::quick($from)?
        };
    };
    ($from:ident $left:ident $field:ident ?) => {
        let $field = if $from.skip(name_key!(stringify!($field))) {
            $left = $left.checked_sub(1)?;
            let value = Optional::quick($from)?;
            if Optional::is_absent(&value) {
                return None;
            }
            value
        } else {
            Optional::absent()
        };
    };
}

macro_rules! read_field {
    ($fields:ident $class:literal $field:ident) => {
        let $field = $fields.needed($class, stringify!($field))?;
    };
    ($fields:ident $class:literal $field:ident ?) => {
        let $field = $fields.option($class, stringify!($field))?;
    };
}

/// The map of one struct. `read` has its fields in the reference's order, which decides which of
/// two problems is named; `map` has them in canonical order, that is by length and then by bytes.
/// A field with `?` is left out when it is absent or empty. A record also has a `kind`, whose place
/// in the map is between the two lists.
macro_rules! fields {
    (
        $name:ident $class:literal $(kind $kind:literal)?
        read { $($field:ident $([$mark:tt])?),+ $(,)? }
        map { $($early:ident $([$early_mark:tt])?),* $(,)? }
        $(and { $($late:ident $([$late_mark:tt])?),* $(,)? })?
    ) => {
        impl $name {
            $(pub const KIND: &'static str = $kind;)?

            fn of(mut fields: Fields) -> Outcome<Self> {
                $(read_field!(fields $class $field $($mark)?);)+
                fields.end($class)?;
                Ok($name { $($field),+ })
            }
        }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                #[allow(unused_mut)]
                let mut count = 0 $(+ present!(self $early $($early_mark)?))*;
                $(count += 1 $(+ present!(self $late $($late_mark)?))*;)?
                put_map(out, count);
                $(put_field!(self out $early $($early_mark)?);)*
                $(
                    out.extend_from_slice(KIND_KEY);
                    out.extend_from_slice(name_key!($kind));
                )?
                $($(put_field!(self out $late $($late_mark)?);)*)?
            }

            fn quick(from: &mut Quick) -> Option<Self> {
                let mut left = from.argument(0xA0)?;
                $(quick_field!(from left $early $($early_mark)?);)*
                $(
                    from.expect(KIND_KEY)?;
                    from.expect(name_key!($kind))?;
                    left = left.checked_sub(1)?;
                )?
                $($(quick_field!(from left $late $($late_mark)?);)*)?
                (left == 0).then_some($name { $($field),+ })
            }

            fn read(value: Value) -> Outcome<Self> {
                $name::of(Fields::of(value)?)
            }
        }

        #[cfg(test)]
        impl $name {
            /// (names in reading order, names in the map), for a test of the two lists.
            fn names() -> (Vec<&'static str>, Vec<&'static str>) {
                let read = vec![$(stringify!($field)),+];
                #[allow(unused_mut)]
                let mut map = vec![$(stringify!($early)),*];
                $(map.extend(["kind", $(stringify!($late)),*]);)?
                (read, map)
            }
        }
    };
}

fields! {
    Principal "Principal"
    read { name, key }
    map { key, name }
}
fields! {
    Genesis "Genesis" kind "genesis"
    read { seq, stamp, nonce, world_key, operators, semantics, signature }
    map { seq }
    and { nonce, stamp, operators, semantics, signature, world_key }
}
fields! {
    Start "Start" kind "start"
    read { seq, stamp, host }
    map { seq, host }
    and { stamp }
}
fields! {
    Migrated "Migrated"
    read { workflow, root, count }
    map { root, count, workflow }
}
fields! {
    Manifest "Manifest" kind "manifest"
    read {
        seq, stamp, document, principal, serial, signature, mode[?], leaves[?], migrated[?],
        proposal[?],
    }
    map { seq }
    and {
        mode[?], stamp, leaves[?], serial, document, migrated[?], proposal[?], principal, signature,
    }
}
fields! {
    Event "Event" kind "event"
    read { seq, stamp, schema, value, submission_id[?], to[?], overloaded[?], kept[?] }
    map { to[?], seq, kept[?] }
    and { stamp, value, schema, overloaded[?], submission_id[?] }
}
fields! {
    Emitted "Emitted"
    read { schema, value, to[?], overloaded[?], unknown[?], kept[?] }
    map { to[?], kept[?], value, schema, unknown[?], overloaded[?] }
}
fields! {
    Intent "Intent"
    read { intent, effect, effect_hash, params, key[?], issuer_ref[?] }
    map { key[?], effect, intent, params, issuer_ref[?], effect_hash }
}
fields! {
    Step "Step" kind "step"
    read {
        seq, cell, entry, root, depth, state[?], status, events[?], intents[?], abandoned[?],
        ann[?], fuel, pages, output, under[?], fits[?],
    }
    map { ann[?], seq, cell, fits[?], fuel }
    and {
        root, depth, entry, pages, state[?], under[?], events[?], output, status, intents[?],
        abandoned[?],
    }
}
fields! {
    Faulted "Faulted" kind "fault"
    read { seq, cell, entry, root, depth, fault, fuel, pages, output[?], under[?] }
    map { seq, cell, fuel }
    and { root, depth, entry, fault, pages, under[?], output[?] }
}
fields! {
    Batch "Batch"
    read { index, size, path[?] }
    map { path[?], size, index }
}
fields! {
    Receipt "Receipt" kind "receipt"
    read {
        seq, stamp, intent, cell, effect, attempt, status, payload, payload_schema[?], started_ns,
        finished_ns, cost_cents[?], executor, key_id, signature, outcome, problem[?], abandoned[?],
        batch[?],
    }
    map { seq, cell }
    and {
        batch[?], stamp, effect, intent, key_id, status, attempt, outcome, payload, problem[?],
        executor, abandoned[?], signature, cost_cents[?], started_ns, finished_ns,
        payload_schema[?],
    }
}
fields! {
    KernelReceipt "KernelReceipt" kind "kernel_receipt"
    read {
        seq, intent, cell, effect, status, payload, payload_schema[?], root, depth, by[?], outcome,
        problem[?], abandoned[?],
    }
    map { by[?], seq, cell }
    and {
        root, depth, effect, intent, status, outcome, payload, problem[?], abandoned[?],
        payload_schema[?],
    }
}
fields! {
    Stream "Stream" kind "stream"
    read {
        seq, stamp, intent, cell, effect, attempt, frame_seq, frame_kind, payload, payload_ref[?],
        executor, key_id, signature,
    }
    map { seq, cell }
    and {
        stamp, effect, intent, key_id, attempt, payload, executor, frame_seq, signature, frame_kind,
        payload_ref[?],
    }
}
fields! {
    Attempt "Attempt" kind "attempt"
    read { seq, stamp, intent, cell, attempt, phase, problem[?], code[?] }
    map { seq, cell, code[?] }
    and { phase, stamp, intent, attempt, problem[?] }
}
fields! {
    Fork "Fork" kind "fork"
    read {
        seq, stamp, parent, at, frame, nonce, world_key, operators, open_work, erased[?], cut[?],
        signature,
    }
    map { at, cut[?], seq }
    and { frame, nonce, stamp, erased[?], parent, open_work, operators, signature, world_key }
}
fields! {
    Snapshot "Snapshot" kind "snapshot"
    read { seq, stamp, at, frame, document }
    map { at, seq }
    and { frame, stamp, document }
}
fields! {
    Control "Control" kind "control"
    read {
        seq, stamp, action, cell[?], intent[?], value[?], principal, serial, signature, status[?],
        payload[?], why[?], restamp[?], dropped[?], abandoned[?],
    }
    map { seq, why[?], cell[?] }
    and {
        stamp, value[?], action, intent[?], serial, status[?], dropped[?], payload[?], restamp[?],
        abandoned[?], principal, signature,
    }
}
fields! {
    Governance "Governance" kind "governance"
    read {
        seq, stamp, action, principal, signature, proposal[?], serial[?], base[?], document[?],
        patch[?], mode[?], leaves[?], report[?], seen[?], note[?],
    }
    map { seq, base[?] }
    and {
        mode[?], note[?], seen[?], patch[?], stamp, action, leaves[?], report[?], serial[?],
        document[?], proposal[?], principal, signature,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_in_canonical_order_and_have_the_fields_of_the_struct() {
        let all = [
            Principal::names(),
            Genesis::names(),
            Start::names(),
            Migrated::names(),
            Manifest::names(),
            Event::names(),
            Emitted::names(),
            Intent::names(),
            Step::names(),
            Faulted::names(),
            Batch::names(),
            Receipt::names(),
            KernelReceipt::names(),
            Stream::names(),
            Attempt::names(),
            Fork::names(),
            Snapshot::names(),
            Control::names(),
            Governance::names(),
        ];
        for (mut read, map) in all {
            let mut sorted = map.clone();
            sorted.sort_by_key(|name| (name.len(), *name));
            assert_eq!(map, sorted);
            if map.contains(&"kind") {
                read.push("kind");
            }
            read.sort_by_key(|name| (name.len(), *name));
            assert_eq!(read, map);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let stamp = Stamp { ns: 5, entropy: [7; 64] };
        let record = Record::Event(Event {
            seq: 300,
            stamp,
            schema: "demo/Order@1".into(),
            value: Slot::Ref(Ref { hash: [9; 32], size: 2000 }),
            submission_id: None,
            to: vec![CellId::new("demo/orders@1", *b"\x61a")],
            overloaded: vec![],
            kept: vec![],
        });
        let data = to_bytes(&record);
        assert!(quickly(&data).is_some());
        assert_eq!(from_bytes(&data), Ok(record));

        let mut cut = data.clone();
        cut.pop();
        assert_eq!(
            from_bytes(&cut),
            Err(damage(format!(
                "a record is not canonical CBOR: $.schema: cut short: expected 12 bytes, found 11 \
                 to the end (byte {})",
                data.len() - 13
            )))
        );
    }
}
