//! Write a folded state for code that reads it as data (`core/snapshot/exported.py`).
//!
//! It is not hashed and not stored: the cells that changed since the snapshot are written as they
//! are, above the snapshot's index and its maps of open work. So it takes as long as the number of
//! changes says, and no node of an index is read or written.

use crate::operations::{put_data, put_list, put_u32, put_u64};
use crate::reading::{put_cell_id, put_option};
use crate::snapshot::take::document;
use crate::state::cells::{Packed, WorkBytes, WorkIndexes};
use crate::state::state::State;
use crate::state::submissions::Submissions;
use crate::values::cbor::encode;
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// Write `state`, which must be at the end of a frame: the record of the base (`u64`); `list` of
/// blobs (hash, `data`), the last of which is a document as of a snapshot, but for its cells and its
/// dedup window, and with the base's maps of open work if it has them; the window, the number of open
/// intents of each effect, the cells at rest, the active cells, see the functions below.
pub fn put_export(out: &mut Vec<u8>, state: &State) -> Outcome<()> {
    assert!(state.next_seq == state.tip.seq + 1, "an export in the middle of a frame");
    put_u64(out, state.cells.at);
    let mut blobs: Vec<(Hash, Vec<u8>)> = Vec::new();
    let mut put = |data: Vec<u8>| {
        let hash = content_hash(&data);
        blobs.push((hash, data));
        hash
    };
    let maps = state.cells.rests_waiting.then(|| base_maps(state));
    let document = encode(&document(state, &[], maps.as_ref(), &[], &mut put)?);
    put(document);
    put_list(out, &blobs, |out, (hash, data)| {
        out.extend_from_slice(hash);
        put_data(out, data);
    });
    put_window(out, &state.submissions.borrow());
    put_list(out, &state.cells.intents.counts, |out, (effect, count)| {
        put_data(out, effect.as_bytes());
        put_u64(out, *count);
    });
    put_shelves(out, state);
    put_active(out, state);
    Ok(())
}

/// The maps of open work that the base has. Changes are in the layers above it.
fn base_maps(state: &State) -> WorkIndexes {
    let shelves = state.cells.shelves.iter();
    let waiting = shelves.filter(|(_, shelf)| shelf.waiting.count() != 0);
    WorkIndexes {
        waiting: waiting.map(|(name, shelf)| (name.clone(), shelf.waiting.clone())).collect(),
        opened: state.cells.intents.base.clone(),
        timers: state.cells.intents.timers.clone(),
    }
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
/// entries (`u64`), cells in all, by declared status, that rest while they wait, and those of them that
/// declare no status (16 bytes each, signed), `list` of the key hashes whose open work in the base is
/// none any more, and as one `data` a `data` for each cell at rest that changed since the base, and for
/// each tombstone: its key (`data`), `list` of its open intents, record (`u64`), and options of its
/// entry, its state and its keys (`data`), and of its open work: whether it was spilled (`u32`: 0 or 1),
/// its bytes or their hash (`data`).
fn put_shelves(out: &mut Vec<u8>, state: &State) {
    put_list(out, state.cells.shelves.iter(), |out, (name, shelf)| {
        put_data(out, name.as_bytes());
        put_u64(out, shelf.since);
        put_option(out, shelf.base.root(), |out, root| out.extend_from_slice(root));
        put_u64(out, shelf.base.count());
        let [completed, failed] = shelf.declared;
        let waiting = [shelf.resting_waiting, shelf.undeclared_waiting];
        for count in [[shelf.count, completed, failed].as_slice(), &waiting].concat() {
            out.extend_from_slice(&count.to_le_bytes());
        }
        put_list(out, &shelf.ended, |out, key_hash| out.extend_from_slice(key_hash));
        put_block(out, |out| {
            state.cells.visit_changed_at_rest(shelf, |id, packed| {
                put_block(out, |out| put_packed(out, &id.key, packed));
            });
        });
    });
}

fn put_packed(out: &mut Vec<u8>, key: &[u8], packed: &Packed) {
    put_data(out, key);
    put_list(out, packed.waits(), |out, intent| out.extend_from_slice(intent));
    put_u64(out, packed.changed);
    put_option(out, packed.entry.as_ref(), |out, entry| put_data(out, entry.data()));
    put_option(out, packed.state.as_ref(), |out, data| put_data(out, data));
    put_option(out, packed.keys.as_ref(), |out, data| put_data(out, data));
    put_option(out, packed.work_bytes(), |out, work| match work {
        WorkBytes::Kept(item) => {
            put_u32(out, 0);
            put_data(out, item);
        }
        WorkBytes::Spilled(hash) => {
            put_u32(out, 1);
            put_data(out, hash);
        }
    });
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
