//! Write a folded state for code that reads it as data (`core/snapshot/exported.py`).
//!
//! It is not hashed and not stored: the cells that changed since the snapshot are written as they
//! are, above the snapshot's index. So it takes as long as the number of changes says, and no node
//! of an index is read or written.

use crate::operations::{put_data, put_list, put_u32, put_u64};
use crate::reading::{put_cell_id, put_option};
use crate::snapshot::take::document;
use crate::state::cells::Packed;
use crate::state::state::State;
use crate::state::submissions::Submissions;
use crate::values::cbor::encode;
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// Write `state`, which must be at the end of a frame: the record of the base (`u64`); `list` of
/// blobs (hash, `data`), the last of which is a document as of a snapshot, but for its cells and its
/// dedup window; the window, the cells at rest, the active cells, see the functions below.
///
/// A state whose base holds open work is not exported: the reference folds it.
pub fn put_export(out: &mut Vec<u8>, state: &State) -> Outcome<()> {
    assert!(state.next_seq == state.tip.seq + 1, "an export in the middle of a frame");
    assert!(!state.cells.rests_waiting, "an export without the maps of open work");
    put_u64(out, state.cells.at);
    let mut blobs: Vec<(Hash, Vec<u8>)> = Vec::new();
    let mut put = |data: Vec<u8>| {
        let hash = content_hash(&data);
        blobs.push((hash, data));
        hash
    };
    let document = encode(&document(state, &[], None, &[], &mut put)?);
    put(document);
    put_list(out, &blobs, |out, (hash, data)| {
        out.extend_from_slice(hash);
        put_data(out, data);
    });
    put_window(out, &state.submissions.borrow());
    put_shelves(out, state);
    put_active(out, state);
    Ok(())
}

/// The record of the last event that was forgotten, the number of events that only chunks have
/// (`u64` each), `list` of chunks (number, hash, count), how many events no chunk has (`u64`), and
/// as one `data` for each of them, the oldest first: record (`u64`), hash of the payload, window time
/// (`u64`), id (`data`).
fn put_window(out: &mut Vec<u8>, submissions: &Submissions) {
    put_u64(out, submissions.evicted());
    put_u64(out, submissions.in_chunks());
    put_list(out, submissions.kept_chunks(), |out, chunk| {
        put_u64(out, chunk.number);
        out.extend_from_slice(&chunk.hash);
        put_u64(out, chunk.count);
    });
    put_u64(out, submissions.len() - submissions.in_chunks());
    put_block(out, |out| {
        for (name, event) in submissions.newest() {
            put_u64(out, event.seq);
            out.extend_from_slice(&event.payload);
            put_u64(out, event.at_ns);
            put_data(out, name.as_bytes());
        }
    });
}

/// `list` of workflows: name, the record that made the base (`u64`), option of the base's root, its
/// entries (`u64`), cells in all and by declared status (16 bytes each, signed), and as one `data` a
/// `data` for each cell at rest that changed since the base, and for each tombstone: its key
/// (`data`), record (`u64`), and options of its entry, its state and its keys (`data`).
fn put_shelves(out: &mut Vec<u8>, state: &State) {
    put_list(out, state.cells.shelves.iter(), |out, (name, shelf)| {
        put_data(out, name.as_bytes());
        put_u64(out, shelf.since);
        put_option(out, shelf.base.root(), |out, root| out.extend_from_slice(root));
        put_u64(out, shelf.base.count());
        for count in [shelf.count, shelf.declared[0], shelf.declared[1]] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        put_block(out, |out| {
            state.cells.visit_changed_at_rest(shelf, |id, packed| {
                put_block(out, |out| put_packed(out, &id.key, packed));
            });
        });
    });
}

fn put_packed(out: &mut Vec<u8>, key: &[u8], packed: &Packed) {
    put_data(out, key);
    put_u64(out, packed.changed);
    put_option(out, packed.entry.as_ref(), |out, entry| put_data(out, entry.data()));
    put_option(out, packed.state.as_ref(), |out, data| put_data(out, data));
    put_option(out, packed.keys.as_ref(), |out, data| put_data(out, data));
}

/// Write `data` whose size is only known after it.
fn put_block(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let place = out.len();
    put_u32(out, 0);
    put(out);
    let size = u32::try_from(out.len() - place - 4).expect("a memory has less than 4 GiB");
    out[place..place + 4].copy_from_slice(&size.to_le_bytes());
}

/// `list` of the active cells that changed since the base: cell, record (`u64`), option of the
/// state's bytes (`data`).
fn put_active(out: &mut Vec<u8>, state: &State) {
    let at = state.cells.at;
    let changed = state.cells.active.values().filter(|cell| cell.borrow().changed > at);
    put_list(out, changed, |out, cell| {
        let cell = cell.borrow();
        put_cell_id(out, &cell.id);
        put_u64(out, cell.changed);
        put_option(out, cell.state_bytes(), |out, data| put_data(out, data));
    });
}
