//! Write the state of a world as a snapshot: a document and blobs (`core/snapshot/take.py`;
//! spec/state.md, SN-1 to SN-23).
//!
//! `cells` has the root of each workflow's index, `submissions` the chunks of the dedup window,
//! `work` the pages of all open work. The document's content hash is the root of the world at that
//! record: the same records give the same bytes, whatever snapshots were taken before.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::journal::record_codec::to_bytes;
use crate::journal::records::{Record, Ref, Slot};
use crate::journal::vocabulary::Word;
use crate::limits::Limits;
use crate::state::cell::{Cell, Content, Mail, Root, Settling, SharedCell};
use crate::state::cell_index::{CellIndex, Put};
use crate::state::cells::{WorkIndexes, WAITING_FORMAT};
use crate::state::entry::pack_keys;
use crate::state::proposals::{Proposal, Proposals};
use crate::state::state::{Halt, Owed, State, StreamState};
use crate::state::submissions::Chunk;
use crate::state::work_item::{put_id, put_intent, put_maybe_text, put_ref, put_slot, Work};
use crate::values::cbor::{
    encode, put_array, put_bool, put_bytes, put_map, put_nat, put_null, put_text, Key, Value,
};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// The formats that are read and written. In the first, open work is in pages alone.
pub const FORMATS: [u64; 2] = [1, WAITING_FORMAT];

/// The format of the state's limits, as an argument of `take`.
pub const DEFAULT: u64 = 0;

/// A snapshot: its document's hash and size, and the layers for `rebase`. Indexes are sorted by the
/// names of their workflows.
pub struct SnapshotLayers {
    pub document: Hash,
    pub size: u64,
    pub at: u64,
    pub frame: Hash,
    pub cells: Vec<(Rc<str>, CellIndex)>,
    pub chunks: Vec<Chunk>,
    /// The maps of open work; None for a snapshot of format 1.
    pub work: Option<WorkIndexes>,
}

/// Write `state`, which must be at the end of a frame, in one of `FORMATS` or in
/// `DEFAULT`. The state does not change.
///
/// `put` receives every blob that the base of `state` does not have, some that it has, and the
/// document last. Spilled states are stored already and are not put. Damage if a part of the index
/// cannot be read.
pub fn take(state: &State, put: Put, format: u64) -> Outcome<SnapshotLayers> {
    assert!(state.next_seq == state.tip.seq + 1, "a snapshot in the middle of a frame");
    let format = if format == DEFAULT { state.limits.snapshot_format } else { format };
    let cells = state.cells.indexed(put)?;
    let work = match format {
        WAITING_FORMAT => Some(state.cells.indexed_work(put)?),
        _ => None,
    };
    let chunks = state.submissions.borrow_mut().chunks(put)?;
    let document = encode(&document(state, &cells, work.as_ref(), &chunks, put)?);
    let size = document.len() as u64;
    Ok(SnapshotLayers {
        document: put(document),
        size,
        at: state.tip.seq,
        frame: state.tip.frame,
        cells,
        chunks,
        work,
    })
}

/// Continue from a durable snapshot of this or an earlier state, so that cells that did not change
/// since may leave memory. No read returns another result than before.
pub fn rebase(state: &mut State, layers: &SnapshotLayers) -> Outcome<()> {
    if layers.work.is_none() {
        state.cells.wake_waiting()?;
    }
    state.cells.rebase(&layers.cells, layers.at);
    state.cells.rebase_work(layers.work.as_ref());
    state.submissions.get_mut().rebase(&layers.chunks, layers.at);
    Ok(())
}

// The document

fn nat(n: u64) -> Value {
    Value::Int(n.into())
}

fn hash(hash: &Hash) -> Value {
    Value::Bytes(hash.to_vec())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

fn list<T>(items: impl IntoIterator<Item = T>, value: impl FnMut(T) -> Value) -> Value {
    Value::List(items.into_iter().map(value).collect())
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let entries = entries.into_iter();
    Value::Map(entries.map(|(name, value)| (Key::Text(name.to_string()), value)).collect())
}

pub(super) fn document(
    state: &State,
    indexes: &[(Rc<str>, CellIndex)],
    maps: Option<&WorkIndexes>,
    chunks: &[Chunk],
    put: Put,
) -> Outcome<Value> {
    let mut fields = vec![
        ("format", nat(if maps.is_some() { WAITING_FORMAT } else { 1 })),
        ("world", hash(&state.tip.world)),
        ("seq", nat(state.tip.seq)),
        ("frame", hash(&state.tip.frame)),
        ("log", Value::List(vec![nat(state.tip.log.size), list(&state.tip.log.peaks, hash)])),
        ("clock_ns", nat(state.clock_ns)),
        ("world_key", Value::Bytes(state.world_key.to_vec())),
        (
            "operators",
            list(&state.operators, |operator| {
                Value::List(vec![text(&operator.name), Value::Bytes(operator.key.to_vec())])
            }),
        ),
        ("semantics", nat(state.semantics)),
        ("serial", nat(state.serial)),
        ("controls", nat(state.controls)),
        ("revoked", list(&state.revoked, |key| Value::Bytes(key.to_vec()))),
        ("pinned", list(&state.pinned, hash)),
        ("manifest", state.manifest.as_ref().map_or(Value::Null, |manifest| hash(&manifest.hash))),
        ("manifest_seq", nat(state.manifest_seq)),
        (
            "snapshot",
            state.snapshot.as_ref().map_or(Value::Null, |mark| {
                Value::List(vec![nat(mark.seq), nat(mark.at), hash(&mark.document)])
            }),
        ),
        ("cells", indexed_cells(state, indexes)),
        (
            "submissions",
            list(chunks, |chunk| {
                Value::List(vec![nat(chunk.number), hash(&chunk.hash), nat(chunk.count)])
            }),
        ),
        ("work", work(state, put, maps.is_none())?),
    ];
    if let Some(maps) = maps {
        fields.extend(map_fields(state, maps));
    }
    if !state.eras.is_one() {
        let eras = list(state.eras.all(), |era| {
            let in_place = list(&era.in_place, |name| text(name));
            Value::List(vec![nat(era.seq), hash(&era.manifest), in_place])
        });
        fields.push(("eras", eras));
    }
    if !state.ancestors.is_empty() {
        let ancestors = list(&state.ancestors, |ancestor| {
            Value::List(vec![hash(&ancestor.world), nat(ancestor.at)])
        });
        fields.push(("ancestors", ancestors));
    }
    if state.window_ns != state.clock_ns {
        fields.push(("window_ns", nat(state.window_ns)));
    }
    fields.extend(proposals(&state.proposals));
    Ok(map(fields))
}

/// The maps of open work, which pages do not have (SN-15).
fn map_fields(state: &State, maps: &WorkIndexes) -> [(&'static str, Value); 3] {
    let row = |index: &CellIndex| vec![index.root().map_or(Value::Null, hash), nat(index.count())];
    let waiting = maps.waiting.iter().map(|(name, index)| {
        let undeclared = Value::Int(state.cells.undeclared_waiting(name));
        (&**name, Value::List([row(index), vec![undeclared]].concat()))
    });
    let opened = maps.opened.iter().map(|(effect, index)| (&**effect, Value::List(row(index))));
    [("waiting", map(waiting)), ("open", map(opened)), ("timers", Value::List(row(&maps.timers)))]
}

fn indexed_cells(state: &State, indexes: &[(Rc<str>, CellIndex)]) -> Value {
    let rows = indexes.iter().filter_map(|(name, index)| {
        let shelf = state.cells.shelves.get(name).filter(|shelf| shelf.count != 0)?;
        let mut row = vec![
            index.root().map_or(Value::Null, hash),
            nat(index.count()),
            Value::Int(shelf.count),
        ];
        row.extend(shelf.declared.map(Value::Int));
        Some((&**name, Value::List(row)))
    });
    map(rows)
}

/// The open proposals, then the closed ones, both in the order of the journal.
fn proposals(proposals: &Proposals) -> Vec<(&'static str, Value)> {
    let mut rows: Vec<Value> = proposals.open.values().map(proposal_row).collect();
    let closed = proposals.closed.iter();
    rows.extend(closed.map(|(seq, status)| Value::List(vec![nat(*seq), text(status.word())])));
    let mut fields = Vec::new();
    if proposals.count > 0 {
        fields.push(("proposed", nat(proposals.count)));
    }
    if !rows.is_empty() {
        fields.push(("proposals", Value::List(rows)));
    }
    fields
}

fn proposal_row(proposal: &Proposal) -> Value {
    let reference = |reference: &Ref| Value::List(vec![hash(&reference.hash), nat(reference.size)]);
    Value::List(vec![
        nat(proposal.seq),
        text(&proposal.principal),
        hash(&proposal.base),
        reference(&proposal.document),
        reference(&proposal.patch),
        proposal.mode.map_or(Value::Null, |mode| text(mode.word())),
        list(&proposal.leaves, |leaf| text(leaf)),
        list(proposal.votes.iter(), |(name, cast)| {
            Value::List(vec![text(name), text(cast.vote.word()), nat(cast.seq)])
        }),
        list(proposal.reports.iter(), |(report, reported)| {
            Value::List(vec![hash(report), nat(reported.seq), nat(reported.size)])
        }),
    ])
}

// Pages of open work: each item is written right away as its bytes.

/// The pages of one kind of open work; a page ends with the item that fills it.
struct Pages<'a> {
    put: Put<'a>,
    limits: &'a Limits,
    hashes: Vec<Value>,
    page: Vec<u8>,
    items: u64,
}

impl Pages<'_> {
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.page);
        self.items += 1;
        if self.page.len() as u64 >= self.limits.page_bytes || self.items >= self.limits.page_items
        {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.items == 0 {
            return;
        }
        let mut out = Vec::with_capacity(9 + self.page.len());
        put_array(&mut out, self.items as usize);
        out.append(&mut self.page);
        self.hashes.push(hash(&(self.put)(out)));
        self.items = 0;
    }
}

/// The pages of all open work, or of that which the maps do not have.
fn work(state: &State, put: Put, is_paged: bool) -> Outcome<Value> {
    let (cells, works) = paged_work(state, is_paged)?;
    let mut kinds: Vec<(&str, Value)> = Vec::new();
    let mut paged = |name: &'static str, write: &dyn Fn(&mut Pages)| {
        let limits = &state.limits;
        let mut pages = Pages { put, limits, hashes: Vec::new(), page: Vec::new(), items: 0 };
        write(&mut pages);
        pages.end();
        kinds.push((name, Value::List(pages.hashes)));
    };
    if !state.halts().is_empty() {
        let halts: BTreeMap<&Hash, &Halt> = state.halts().iter().collect();
        paged("halts", &|pages| {
            halts.iter().for_each(|(intent, halt)| pages.add(|out| put_halt(out, intent, halt)));
        });
    }
    let roots = roots(state, &cells);
    paged("roots", &|pages| roots.values().for_each(|root| pages.add(|out| put_root(out, root))));
    paged("ring", &|pages| state.ring.iter().for_each(|id| pages.add(|out| put_id(out, id))));
    paged("owed", &|pages| state.owed.iter().for_each(|owed| pages.add(|out| put_owed(out, owed))));
    paged("intents", &|pages| {
        works.iter().for_each(|(intent, _)| pages.add(|out| put_intent(out, intent)));
    });
    paged("abandoned", &|pages| {
        state.abandoned.values().for_each(|intent| pages.add(|out| put_intent(out, intent)));
    });
    let known = state.cells.intents.attempts.borrow();
    let mut attempts: BTreeMap<Hash, u64> =
        works.iter().filter_map(|(intent, attempt)| Some((intent.intent, (*attempt)?))).collect();
    for intent in state.abandoned.keys() {
        if let Some(attempt) = known.get(intent) {
            attempts.insert(*intent, *attempt);
        }
    }
    paged("attempts", &|pages| {
        attempts.iter().for_each(|(intent, last)| {
            pages.add(|out| {
                put_array(out, 2);
                put_bytes(out, intent);
                put_nat(out, *last);
            });
        });
    });
    let streams: BTreeMap<&Hash, &StreamState> = state.streams().iter().collect();
    paged("streams", &|pages| {
        streams
            .iter()
            .for_each(|(intent, stream)| pages.add(|out| put_stream(out, intent, stream)));
    });
    paged("cells", &|pages| {
        cells.iter().for_each(|cell| pages.add(|out| put_active(out, &cell.borrow())));
    });
    paged("world_keys", &|pages| {
        state.world_keys.iter().for_each(|(key, params)| {
            pages.add(|out| {
                put_array(out, 2);
                put_text(out, key);
                put_bytes(out, params);
            });
        });
    });
    Ok(map(kinds))
}

/// The cells and the intents of the pages, in their order.
fn paged_work(state: &State, is_paged: bool) -> Outcome<(Vec<SharedCell>, Work)> {
    let mut cells: Vec<SharedCell>;
    let mut works = Work::new();
    if is_paged {
        cells = state.cells.unrested().collect::<Outcome<_>>()?;
        works = state.cells.each_intent()?.collect::<Outcome<_>>()?;
    } else {
        let active = state.cells.active.values();
        cells = active.filter(|cell| !state.cells.may_wait(&cell.borrow())).cloned().collect();
        let attempts = state.cells.intents.attempts.borrow();
        for cell in &cells {
            for intent in state.cells.intents_of(&cell.borrow())? {
                let attempt = attempts.get(&intent.intent).copied();
                works.push((intent, attempt));
            }
        }
        works.sort_by_key(|(intent, _)| (intent.seq, intent.index));
    }
    cells.sort_by(|one, other| one.borrow().id.cmp(&other.borrow().id));
    Ok((cells, works))
}

fn roots(state: &State, cells: &[SharedCell]) -> BTreeMap<u64, Rc<Root>> {
    let mut roots = BTreeMap::new();
    for cell in cells {
        for mail in &cell.borrow().mailbox {
            roots.insert(mail.root.seq, mail.root.clone());
        }
    }
    for owed in &state.owed {
        roots.insert(owed.root.seq, owed.root.clone());
    }
    roots
}

fn put_root(out: &mut Vec<u8>, root: &Root) {
    let stamp = root.stamp.get();
    put_array(out, 4);
    put_nat(out, root.seq);
    put_nat(out, stamp.ns);
    put_bytes(out, &stamp.entropy);
    put_nat(out, root.steps.get());
}

fn put_owed(out: &mut Vec<u8>, owed: &Owed) {
    put_array(out, if owed.settlement.is_some() { 8 } else { 6 });
    put_bytes(out, &owed.intent);
    put_text(out, owed.debt.word());
    put_nat(out, owed.root.seq);
    put_nat(out, owed.depth);
    put_maybe_text(out, owed.problem.as_deref());
    put_nat(out, owed.canceled);
    if let Some(settlement) = &owed.settlement {
        put_text(out, settlement.status.word());
        put_slot(out, &settlement.payload);
    }
}

fn put_stream(out: &mut Vec<u8>, intent: &Hash, stream: &StreamState) {
    put_array(out, 5);
    put_bytes(out, intent);
    put_nat(out, stream.last);
    put_nat(out, stream.frames);
    put_nat(out, stream.since_ns);
    put_nat(out, stream.recent);
}

fn put_halt(out: &mut Vec<u8>, intent: &Hash, halt: &Halt) {
    put_array(out, 7);
    put_bytes(out, intent);
    put_text(out, halt.phase.word());
    put_nat(out, halt.attempt);
    put_nat(out, halt.seq);
    put_nat(out, halt.since_ns);
    put_text(out, &halt.code);
    put_maybe_text(out, halt.problem.as_deref());
}

fn put_maybe_bytes(out: &mut Vec<u8>, data: Option<&[u8]>) {
    match data {
        Some(data) => put_bytes(out, data),
        None => put_null(out),
    }
}

fn put_active(out: &mut Vec<u8>, cell: &Cell) {
    let options = usize::from(cell.version > 0) + usize::from(cell.is_kept);
    put_array(out, if options > 0 { 15 } else { 14 });
    put_id(out, &cell.id);
    put_bytes(out, &cell.workflow_hash);
    put_bytes(out, &cell.module_hash);
    // The state's hash and size, as in its entry, whether or not it is in memory.
    match &cell.state {
        None => put_null(out),
        Some(Slot::Ref(reference)) => put_ref(out, &reference.hash, reference.size),
        Some(Slot::Bytes(data)) => put_ref(out, &content_hash(data), data.len() as u64),
    }
    put_maybe_text(out, cell.declared.map(Word::word));
    match &cell.fault {
        None => put_null(out),
        Some(fault) => {
            put_array(out, 3);
            put_text(out, fault.kind.word());
            put_text(out, &fault.message);
            put_maybe_bytes(out, fault.detail.as_deref());
        }
    }
    match cell.fault_seq {
        Some(seq) => put_nat(out, seq),
        None => put_null(out),
    }
    put_nat(out, cell.last_seq);
    put_nat(out, cell.last_active_ns);
    put_nat(out, cell.mail_uncounted);
    put_bool(out, cell.in_ring);
    put_array(out, cell.inflight.len());
    cell.inflight.iter().for_each(|intent| put_bytes(out, intent));
    put_maybe_bytes(out, pack_keys(&cell.keys).as_deref());
    put_array(out, cell.mailbox.len());
    cell.mailbox.iter().for_each(|mail| put_mail(out, mail));
    if options > 0 {
        // In the order of canonical keys: the shortest first.
        put_map(out, options);
        if cell.is_kept {
            put_text(out, "kept");
            put_bool(out, true);
        }
        if cell.version > 0 {
            put_text(out, "version");
            put_nat(out, cell.version);
        }
    }
}

fn put_mail(out: &mut Vec<u8>, mail: &Mail) {
    let common = |out: &mut Vec<u8>, kind: &str| {
        put_array(out, 6);
        put_text(out, kind);
        put_array(out, 2);
        put_nat(out, mail.entry.0);
        put_nat(out, mail.entry.1);
        put_nat(out, mail.root.seq);
        put_nat(out, mail.depth);
    };
    let (kind, intent, record) = match &mail.content {
        Content::Event { schema, value } => {
            common(out, "event");
            put_text(out, schema);
            put_slot(out, value);
            return;
        }
        Content::Receipt { intent, receipt: Settling::Receipt(receipt) } => {
            ("receipt", intent, Record::Receipt(receipt.clone()))
        }
        Content::Receipt { intent, receipt: Settling::Kernel(receipt) } => {
            ("kernel_receipt", intent, Record::KernelReceipt(receipt.clone()))
        }
        Content::Stream { intent, frame } => ("stream", intent, Record::Stream(frame.clone())),
    };
    common(out, kind);
    put_intent(out, intent);
    put_bytes(out, &to_bytes(&record));
}
