//! The open work of a cell that only waits, in the maps of a snapshot
//! (`kernel/aos/core/state/work_item.py`; spec/state.md, SN-15).
//!
//!     entry of the cell, in `waiting`   [[intent, last attempt or null], ...], as they were opened
//!     entry of an intent, in `open`     [[workflow, key], record, index]
//!     key of a timer, in `timers`       due ns (8 bytes, big-endian), the intent's first 24 bytes
//!
//! `intent` is that of a page (SN-6). The entry of a timer is the intent.

use std::rc::Rc;

use crate::journal::ports::BlobReader;
use crate::journal::records::{CellId, RequestKey, Slot};
use crate::manifest::builtins::TIMER;
use crate::manifest::effective::Effective;
use crate::snapshot::load::{
    cell_id, data, decoded, hash, items, maybe, nat, none_written, slot, text,
};
use crate::snapshot::shape::{OPENED, WORK_ITEM};
use crate::state::cell::OpenIntent;
use crate::values::cbor::{put_array, put_bytes, put_nat, put_null, put_text, Value};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// The open intents of a cell in the order of opening, each with its last journaled attempt.
pub type Work = Vec<(Rc<OpenIntent>, Option<u64>)>;

const DUE_BYTES: usize = 8;

pub fn put_id(out: &mut Vec<u8>, id: &CellId) {
    put_array(out, 2);
    put_text(out, &id.workflow);
    put_bytes(out, &id.key);
}

/// The item of an intent in a page. Python: `intent_row`.
pub fn put_intent(out: &mut Vec<u8>, intent: &OpenIntent) {
    put_array(out, 13);
    put_bytes(out, &intent.intent);
    put_id(out, &intent.cell);
    put_bytes(out, &intent.workflow_hash);
    put_nat(out, intent.seq);
    put_nat(out, intent.index);
    put_nat(out, intent.opened_ns);
    put_bytes(out, intent.manifest());
    put_text(out, &intent.effect.name);
    put_slot(out, &intent.params);
    put_bytes(out, &intent.params_hash);
    match &intent.key {
        None => put_null(out),
        Some(RequestKey::Text(key)) => put_text(out, key),
        Some(RequestKey::Bytes(key)) => put_bytes(out, key),
    }
    put_text(out, &intent.idempotency_key);
    put_maybe_text(out, intent.issuer_ref.as_deref());
}

/// Python: `slot_value`.
pub fn put_slot(out: &mut Vec<u8>, slot: &Slot) {
    match slot {
        Slot::Bytes(data) => put_bytes(out, data),
        Slot::Ref(reference) => put_ref(out, &reference.hash, reference.size),
    }
}

pub fn put_ref(out: &mut Vec<u8>, hash: &Hash, size: u64) {
    put_array(out, 2);
    put_bytes(out, hash);
    put_nat(out, size);
}

pub fn put_maybe_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => put_null(out),
    }
}

/// The inverse of `put_intent`, of a row whose shape was checked. Damage if its manifest cannot be
/// read or has no such effect.
pub fn read_intent(
    row: &[Value],
    manifest: impl Fn(&Hash) -> Outcome<Rc<Effective>>,
) -> Outcome<Rc<OpenIntent>> {
    let [intent, cell, workflow_hash, seq, index, opened_ns, manifest_hash, effect, params, params_hash, key, idempotency_key, issuer_ref] =
        row
    else {
        unreachable!("a row that was checked")
    };
    let under = manifest(&hash(manifest_hash))?;
    let effect = under.effects.get(&*text(effect)).cloned().ok_or_else(none_written)?;
    Ok(Rc::new(OpenIntent {
        intent: hash(intent),
        cell: cell_id(cell),
        workflow_hash: hash(workflow_hash),
        seq: nat(seq),
        index: nat(index),
        opened_ns: nat(opened_ns),
        under,
        effect,
        params: slot(params),
        params_hash: hash(params_hash),
        key: match key {
            Value::Null => None,
            Value::Text(_) => Some(RequestKey::Text(text(key))),
            _ => Some(RequestKey::Bytes(data(key))),
        },
        idempotency_key: text(idempotency_key),
        issuer_ref: maybe(issuer_ref, text),
    }))
}

/// Encode the open work of a cell.
pub fn work_item(work: &Work) -> Vec<u8> {
    let mut out = Vec::new();
    put_array(&mut out, work.len());
    for (intent, attempt) in work {
        put_array(&mut out, 2);
        put_intent(&mut out, intent);
        match attempt {
            Some(attempt) => put_nat(&mut out, *attempt),
            None => put_null(&mut out),
        }
    }
    out
}

/// The inverse of `work_item`. Damage if these are other bytes, or a manifest cannot be read.
pub fn read_work(item: &[u8], manifest: impl Fn(&Hash) -> Outcome<Rc<Effective>>) -> Outcome<Work> {
    let rows = rows(item)?;
    let mut work = Work::new();
    for row in items(&rows) {
        let [intent, attempt] = items(row) else { unreachable!("a row that was checked") };
        let intent = items(intent);
        let under = manifest(&hash(&intent[6]))?;
        if !under.effects.contains_key(&*text(&intent[7])) {
            return Err(no_work());
        }
        work.push((read_intent(intent, |_| Ok(under.clone()))?, maybe(attempt, nat)));
    }
    Ok(work)
}

/// The cell of a work item. Damage as in `read_work`.
pub fn cell_of_work(item: &[u8]) -> Outcome<CellId> {
    Ok(cell_of(&items(&rows(item)?)[0]))
}

fn rows(item: &[u8]) -> Outcome<Value> {
    let rows = decoded(item)?;
    let is_one_cell = |rows: &[Value]| {
        rows.first().is_some_and(|first| {
            let cell = cell_of(first);
            rows.iter().all(|row| cell_of(row) == cell)
        })
    };
    match WORK_ITEM.fits(&rows) && is_one_cell(items(&rows)) {
        true => Ok(rows),
        false => Err(no_work()),
    }
}

fn cell_of(row: &Value) -> CellId {
    cell_id(&items(&items(row)[0])[1])
}

fn no_work() -> Failure {
    Failure::damage("the open work of a waiting cell is none that is written")
}

/// The entry of an intent in the map of its effect.
pub fn opened_entry(intent: &OpenIntent) -> Vec<u8> {
    let mut out = Vec::new();
    put_array(&mut out, 3);
    put_id(&mut out, &intent.cell);
    put_nat(&mut out, intent.seq);
    put_nat(&mut out, intent.index);
    out
}

/// The cell of an intent, and the record and the index that opened it. Damage if these are not
/// bytes of `opened_entry`.
pub fn read_opened(entry: &[u8]) -> Outcome<(CellId, u64, u64)> {
    let value = decoded(entry)?;
    if !OPENED.fits(&value) {
        return Err(Failure::damage("an open intent of a waiting cell is none that is written"));
    }
    let [cell, seq, index] = items(&value) else { unreachable!("a row that was checked") };
    Ok((cell_id(cell), nat(seq), nat(index)))
}

/// The key of a timer; None for an intent of another effect. Damage if its params cannot be read.
pub fn timer_key(intent: &OpenIntent, read: &BlobReader) -> Outcome<Option<Hash>> {
    if &*intent.effect.name != TIMER {
        return Ok(None);
    }
    let params = decoded(&intent.params.bytes(&**read)?)?;
    let Some(due) = params.get("deliver_at_ns").and_then(Value::as_nat) else {
        return Err(Failure::damage("the params of a timer have no time"));
    };
    let mut key = intent.intent;
    key.copy_within(..intent.intent.len() - DUE_BYTES, DUE_BYTES);
    key[..DUE_BYTES].copy_from_slice(&due.to_be_bytes());
    Ok(Some(key))
}
