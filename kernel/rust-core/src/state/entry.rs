//! A cell at rest as its workflow's index holds it (`core/state/entry.py`; spec/state.md, SN-12).
//!
//! ```text
//! entry = [key, state hash, state size, last_active_ns, last_seq, workflow hash, module hash, more]
//! more  = {"keys"?: hash of its idempotency keys, "kept"?: true, "status"?: declared status,
//!          "version"?: record of a manifest}
//! ```

use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::ports::Blobs;
use crate::journal::records::{CellId, Ref, Slot};
use crate::journal::vocabulary::{TerminalStatus, Word};
use crate::state::cell::Cell;
use crate::values::cbor::{
    decode_record, put_array, put_bool, put_bytes, put_map, put_nat, put_text, Key, Value, RECORD,
};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{Failure, Outcome};

/// The bytes of an entry. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(Rc<[u8]>);

struct Parts {
    key: Rc<[u8]>,
    state: Ref,
    last_active_ns: u64,
    last_seq: u64,
    workflow_hash: Hash,
    module_hash: Hash,
    status: Option<TerminalStatus>,
    keys: Option<Hash>,
    version: u64,
    is_kept: bool,
}

impl Entry {
    pub fn new(data: impl Into<Rc<[u8]>>) -> Self {
        Entry(data.into())
    }

    pub fn data(&self) -> &[u8] {
        &self.0
    }

    /// Decode the cell, as clean. Pass `keys`, the bytes of its idempotency keys, if `read` may not
    /// find them yet. Damage if these are not the bytes of an entry, or its keys cannot be read.
    pub fn to_cell(
        &self,
        workflow: Rc<str>,
        read: &dyn Blobs,
        keys: Option<&[u8]>,
    ) -> Outcome<Cell> {
        let parts = self.parts()?;
        let id = CellId { workflow, key: parts.key };
        let mut cell = Cell::new(id, parts.workflow_hash, parts.module_hash);
        cell.state = Some(Slot::Ref(parts.state));
        cell.declared = parts.status;
        cell.last_seq = parts.last_seq;
        cell.last_active_ns = parts.last_active_ns;
        cell.version = parts.version;
        cell.is_kept = parts.is_kept;
        if let Some(hash) = parts.keys {
            cell.keys = match keys {
                Some(data) => read_keys(data)?,
                None => read_keys(&read.read(&hash)?)?,
            };
        }
        Ok(cell)
    }

    /// The blobs that the entry names: its state, and its keys if it has any. Damage if these are
    /// not the bytes of an entry.
    pub fn references(&self) -> Outcome<Vec<Hash>> {
        let parts = self.parts()?;
        Ok([parts.state.hash].into_iter().chain(parts.keys).collect())
    }

    fn parts(&self) -> Outcome<Parts> {
        if let Some(parts) = quickly(&self.0) {
            return Ok(parts);
        }
        let value = decode_record(&self.0, RECORD).map_err(|problem| {
            Failure::Damage(format!("a cell's entry is not canonical CBOR: {problem}"))
        })?;
        completely(&value)
            .ok_or_else(|| Failure::damage("a cell's entry is not one that is written"))
    }
}

/// Read an entry without options, as nearly all are; None for other bytes, which may still be a
/// valid entry.
fn quickly(data: &[u8]) -> Option<Parts> {
    let mut at = Cursor { data };
    at.skip(&[0x88])?;
    let key = at.bytes()?.into();
    let state = at.hash()?;
    let state = Ref { hash: state, size: at.nat()? };
    let (last_active_ns, last_seq) = (at.nat()?, at.nat()?);
    let (workflow_hash, module_hash) = (at.hash()?, at.hash()?);
    (at.data == [0xA0]).then_some(Parts {
        key,
        state,
        last_active_ns,
        last_seq,
        workflow_hash,
        module_hash,
        status: None,
        keys: None,
        version: 0,
        is_kept: false,
    })
}

/// The bytes that are not read yet. Heads must be the shortest ones.
struct Cursor<'a> {
    data: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, expected: &[u8]) -> Option<()> {
        self.data = self.data.strip_prefix(expected)?;
        Some(())
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.data.split_at_checked(count)?;
        self.data = rest;
        Some(taken)
    }

    fn argument(&mut self, major: u8) -> Option<u64> {
        let initial = self.take(1)?[0];
        let info = initial & 31;
        if initial & 0xE0 != major || info > 27 {
            return None;
        }
        if info < 24 {
            return Some(info as u64);
        }
        let bytes = self.take(1 << (info - 24))?;
        let n = bytes.iter().fold(0u64, |sum, &byte| sum << 8 | byte as u64);
        const LEAST: [u64; 4] = [24, 0x100, 0x1_0000, 0x1_0000_0000];
        (n >= LEAST[(info - 24) as usize]).then_some(n)
    }

    fn nat(&mut self) -> Option<u64> {
        self.argument(0x00)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.argument(0x40)?;
        self.take(usize::try_from(count).ok()?)
    }

    fn hash(&mut self) -> Option<Hash> {
        self.bytes()?.try_into().ok()
    }
}

fn completely(value: &Value) -> Option<Parts> {
    let [key, state, size, last_active_ns, last_seq, workflow_hash, module_hash, Value::Map(more)] =
        value.as_list()?
    else {
        return None;
    };
    let hash = |value: &Value| value.as_bytes()?.try_into().ok();
    let mut parts = Parts {
        key: key.as_bytes()?.into(),
        state: Ref { hash: hash(state)?, size: size.as_nat()? },
        last_active_ns: last_active_ns.as_nat()?,
        last_seq: last_seq.as_nat()?,
        workflow_hash: hash(workflow_hash)?,
        module_hash: hash(module_hash)?,
        status: None,
        keys: None,
        version: 0,
        is_kept: false,
    };
    for (name, option) in more {
        let Key::Text(name) = name else { return None };
        match &**name {
            "status" => parts.status = Some(TerminalStatus::of(option.as_text()?)?),
            "keys" => parts.keys = Some(hash(option)?),
            "version" => parts.version = option.as_nat().filter(|seq| *seq > 0)?,
            "kept" if *option == Value::Bool(true) => parts.is_kept = true,
            _ => return None,
        }
    }
    Some(parts)
}

/// Encode the entry of a cell, which must have a state.
pub fn entry_of(cell: &Cell) -> Entry {
    let state = cell.state.as_ref().expect("a cell without a state has no entry");
    let size = match state {
        Slot::Bytes(data) => data.len() as u64,
        Slot::Ref(reference) => reference.size,
    };
    let keys = pack_keys(&cell.keys);
    let options = [keys.is_some(), cell.is_kept, cell.declared.is_some(), cell.version > 0];
    let mut out = Vec::with_capacity(160 + cell.id.key.len());
    put_array(&mut out, 8);
    put_bytes(&mut out, &cell.id.key);
    put_bytes(&mut out, &state.hash());
    put_nat(&mut out, size);
    put_nat(&mut out, cell.last_active_ns);
    put_nat(&mut out, cell.last_seq);
    put_bytes(&mut out, &cell.workflow_hash);
    put_bytes(&mut out, &cell.module_hash);
    put_map(&mut out, options.into_iter().filter(|is_there| *is_there).count());
    // In the order of canonical keys.
    if cell.is_kept {
        put_text(&mut out, "kept");
        put_bool(&mut out, true);
    }
    if let Some(keys) = keys {
        put_text(&mut out, "keys");
        put_bytes(&mut out, &content_hash(&keys));
    }
    if let Some(status) = cell.declared {
        put_text(&mut out, "status");
        put_text(&mut out, status.word());
    }
    if cell.version > 0 {
        put_text(&mut out, "version");
        put_nat(&mut out, cell.version);
    }
    Entry::new(out)
}

/// The blobs that a cell's entry names or would name: its state, and its keys if any.
pub fn entry_references(cell: &Cell) -> Vec<Hash> {
    let keys = pack_keys(&cell.keys).map(|data| content_hash(&data));
    cell.state.iter().map(Slot::hash).chain(keys).collect()
}

/// Encode idempotency keys and the hashes of their params, newest last; None if empty.
pub fn pack_keys(keys: &OrderedMap<Rc<str>, Hash>) -> Option<Vec<u8>> {
    if keys.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(9 + 128 * keys.len());
    put_array(&mut out, keys.len());
    for (name, params) in keys.iter() {
        put_array(&mut out, 2);
        put_text(&mut out, name);
        put_bytes(&mut out, params);
    }
    Some(out)
}

/// Inverse of `pack_keys`. Damage if these are not the bytes that it writes.
pub fn read_keys(data: &[u8]) -> Outcome<OrderedMap<Rc<str>, Hash>> {
    let value = decode_record(data, RECORD).map_err(|problem| {
        Failure::Damage(format!("a cell's keys are not canonical CBOR: {problem}"))
    })?;
    let read = || {
        let mut keys: OrderedMap<Rc<str>, Hash> = OrderedMap::default();
        for row in value.as_list()? {
            let [name, params] = row.as_list()? else { return None };
            let name: Rc<str> = name.as_text()?.into();
            if keys.insert(name, params.as_bytes()?.try_into().ok()?).is_some() {
                return None;
            }
        }
        Some(keys)
    };
    read().ok_or_else(|| Failure::damage("a cell's keys are not [key, hash of params] each"))
}
