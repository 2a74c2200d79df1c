//! The parts of a world that a host reads, as bytes; `operations` defines `data` and `list`. An
//! option is a list of one item or none.

use crate::decide::control::uses_in_state;
use crate::journal::records::{CellId, RequestKey, Slot};
use crate::journal::vocabulary::{Vote, Word};
use crate::kernel::Kernel;
use crate::manifest::builtins::TIMER;
use crate::operations::{put_data, put_list, put_u32, put_u64, Request};
use crate::state::cell::{Cell, OpenIntent};
use crate::state::state::{first_attempt, State};
use crate::state::version::{home, manifest_under};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// -> the end of the chain: world, `seq` (`u64`), frame, size of the log (`u64`), `list` of peaks.
const TIP: u32 = 15;
/// -> next record, cells in the ring, receipts that are owed, the manifest's record, records,
/// bytes and bytes of blobs that are pending (`u64` each); `list` of eras: the record (`u64`) and the manifest's hash.
const STATUS: u32 = 16;
/// -> `put_figures`.
const FIGURES: u32 = 17;
/// -> option of the head of the ring: its cell, entry, root and depth (`u64` each).
const RING_HEAD: u32 = 18;
/// A cell's workflow and key (`data`) -> option of `put_cell`.
const CELL: u32 = 19;
/// A workflow (`data`), option of a key's hash, a count (`u64`) -> `list` of as many cells
/// (`put_cell`) whose keys have a greater hash, by that hash.
const CELLS_OF: u32 = 20;
/// A cell's workflow and key (`data`) -> option of the hash of the manifest under which it came in
/// flight.
const WRITER_OF: u32 = 21;
/// An intent -> option of `put_progress`.
const PROGRESS_OF: u32 = 22;
/// How many to leave out, and a count (`u64` each), option of an effect (`data`) -> `list` of as many
/// open intents of other effects (`put_progress`) in the order of opening.
const OPEN_INTENTS: u32 = 23;
/// A value's hash, how many to leave out, and a count (`u64` each) -> `list` of as many parts that
/// need it (`data`).
const USES: u32 = 24;
/// A hash -> option of a blob (`data`) of the frame that is being filled.
const PENDING_BLOB: u32 = 25;
/// -> the record of the snapshot that idle cells are read from (`u64`), `list` of pinned hashes.
const PINS: u32 = 26;
/// Option of a place, and a count (`u64`) -> `list` of as many open timers: place, `put_progress`.
const OPEN_TIMERS: u32 = 33;

/// Answer an operation that reads; false if it is none.
pub(crate) fn answer(
    operation: u32,
    request: &mut Request,
    kernel: &mut Kernel,
    out: &mut Vec<u8>,
) -> Outcome<bool> {
    let state = &kernel.state;
    match operation {
        TIP => put_tip(out, state),
        STATUS => put_status(out, kernel),
        FIGURES => put_figures(out, state),
        RING_HEAD => put_ring_head(out, state)?,
        CELL => {
            let cell = state.cells.get(&cell_id(request))?;
            put_option(out, cell, |out, cell| put_cell(out, &cell.borrow()));
        }
        CELLS_OF => {
            let workflow = text(request);
            let after = request.list(Request::hash).pop();
            let count = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let cells: Outcome<Vec<_>> = state.cells.of(&workflow, after).take(count).collect();
            put_list(out, cells?, |out, cell| put_cell(out, &cell.borrow()));
        }
        WRITER_OF => {
            let manifest = writer_of(state, &cell_id(request))?;
            put_option(out, manifest, |out, hash| out.extend_from_slice(&hash));
        }
        PROGRESS_OF => put_progress_of(out, state, &request.hash())?,
        OPEN_INTENTS => {
            let skipped = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let count = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let but = request.list(text).pop();
            if skipped == 0 {
                kernel.listed = state.cells.opened(but.as_deref())?;
            }
            let page = kernel.listed.iter().skip(skipped).take(count);
            let page: Vec<_> =
                page.map(|opened| state.cells.peek(opened)).collect::<Outcome<_>>()?;
            if page.len() < count {
                kernel.listed = Vec::new();
            }
            put_list(out, page, |out, (intent, attempt)| {
                put_progress(out, state, &intent, attempt, false);
            });
        }
        OPEN_TIMERS => {
            let after = request.list(Request::hash).pop();
            let count = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let timers = state.cells.timers_after(after.as_ref(), count)?;
            put_list(out, timers, |out, timer| {
                out.extend_from_slice(&timer.key);
                put_progress(out, state, &timer.intent, timer.attempt, false);
            });
        }
        USES => {
            let value = request.hash();
            let skipped = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let count = usize::try_from(request.u64()).unwrap_or(usize::MAX);
            let most = skipped.saturating_add(count);
            let uses = uses_in_state(state, &value, kernel.reader(), most)?;
            let page = uses.iter().skip(skipped);
            put_list(out, page, |out, part| put_data(out, part.as_bytes()));
        }
        PENDING_BLOB => {
            let blob = kernel.pending_blob(&request.hash());
            put_option(out, blob, |out, data| put_data(out, &data));
        }
        PINS => {
            put_u64(out, state.cells.at);
            let hashes: Vec<Hash> = kernel.state.cells.spilling().pins.hashes().copied().collect();
            put_list(out, hashes, |out, hash| out.extend_from_slice(&hash));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn text(request: &mut Request) -> String {
    std::str::from_utf8(request.data()).expect("text is UTF-8").to_string()
}

fn cell_id(request: &mut Request) -> CellId {
    CellId { workflow: text(request).into(), key: request.data().into() }
}

pub(crate) fn put_option<T>(out: &mut Vec<u8>, item: Option<T>, put: impl Fn(&mut Vec<u8>, T)) {
    put_list(out, item, put);
}

fn put_text_option(out: &mut Vec<u8>, item: Option<&str>) {
    put_option(out, item, |out, text| put_data(out, text.as_bytes()));
}

pub(crate) fn put_tip(out: &mut Vec<u8>, state: &State) {
    let tip = &state.tip;
    out.extend_from_slice(&tip.world);
    put_u64(out, tip.seq);
    out.extend_from_slice(&tip.frame);
    put_u64(out, tip.log.size);
    put_list(out, &tip.log.peaks, |out, hash| out.extend_from_slice(hash));
}

pub(crate) fn put_status(out: &mut Vec<u8>, kernel: &Kernel) {
    let state = &kernel.state;
    put_u64(out, state.next_seq);
    put_u64(out, state.ring.len() as u64);
    put_u64(out, state.owed.len() as u64);
    put_u64(out, state.manifest_seq);
    put_u64(out, kernel.pending_records() as u64);
    put_u64(out, kernel.pending_bytes() as u64);
    put_u64(out, kernel.pending_blob_bytes() as u64);
    put_list(out, state.eras.all(), |out, era| {
        put_u64(out, era.seq);
        out.extend_from_slice(&era.manifest);
    });
}

/// Clock, world key, operators (name, key), serial, controls, cells, open intents, open timers, option
/// of the snapshot (its record, `at`, document), count of proposals, and the open ones: record,
/// principal, base, document, patch, option of the mode, leaves, who approves, who rejects, reports.
pub(crate) fn put_figures(out: &mut Vec<u8>, state: &State) {
    put_u64(out, state.clock_ns);
    put_data(out, &state.world_key);
    put_list(out, &state.operators, |out, operator| {
        put_data(out, operator.name.as_bytes());
        put_data(out, &operator.key);
    });
    put_u64(out, state.serial);
    put_u64(out, state.controls);
    put_u64(out, u64::try_from(state.cells.len()).expect("cells are counted from 0"));
    put_u64(out, state.cells.intents.count);
    put_u64(out, state.cells.intents.counts.get(TIMER).copied().unwrap_or(0));
    put_option(out, state.snapshot, |out, mark| {
        put_u64(out, mark.seq);
        put_u64(out, mark.at);
        out.extend_from_slice(&mark.document);
    });
    put_u64(out, state.proposals.count);
    put_list(out, state.proposals.open.values(), |out, proposal| {
        put_u64(out, proposal.seq);
        put_data(out, proposal.principal.as_bytes());
        out.extend_from_slice(&proposal.base);
        out.extend_from_slice(&proposal.document.hash);
        out.extend_from_slice(&proposal.patch.hash);
        put_text_option(out, proposal.mode.map(Word::word));
        put_list(out, &proposal.leaves, |out, leaf| put_data(out, leaf.as_bytes()));
        for vote in [Vote::Approve, Vote::Reject] {
            put_list(out, proposal.voters(vote), |out, name| put_data(out, name.as_bytes()));
        }
        put_list(out, proposal.reports.keys(), |out, hash| out.extend_from_slice(hash));
    });
}

fn put_ring_head(out: &mut Vec<u8>, state: &State) -> Outcome<()> {
    let Some(id) = state.ring.front() else {
        put_u32(out, 0);
        return Ok(());
    };
    let cell = state.cells.get(id)?.expect("a cell of the ring is in memory");
    let cell = cell.borrow();
    let mail = cell.mailbox.front().expect("a cell of the ring has mail");
    put_u32(out, 1);
    put_cell_id(out, id);
    put_u64(out, mail.entry.0);
    put_u64(out, mail.entry.1);
    put_u64(out, mail.root.seq);
    put_u64(out, mail.depth);
    Ok(())
}

pub(crate) fn put_cell_id(out: &mut Vec<u8>, id: &CellId) {
    put_data(out, id.workflow.as_bytes());
    put_data(out, &id.key);
}

/// The bytes as `data`, after 0; or 1, the hash and the size (`u64`).
fn put_slot(out: &mut Vec<u8>, slot: &Slot) {
    match slot {
        Slot::Bytes(data) => {
            put_u32(out, 0);
            put_data(out, data);
        }
        Slot::Ref(reference) => {
            put_u32(out, 1);
            out.extend_from_slice(&reference.hash);
            put_u64(out, reference.size);
        }
    }
}

/// The hash of its key, workflow, key, options of the state, the declared status, the fault (kind,
/// message, option of the detail) and its record (`u64`); the last record (`u64`), the status.
fn put_cell(out: &mut Vec<u8>, cell: &Cell) {
    out.extend_from_slice(&content_hash(&cell.id.key));
    put_cell_id(out, &cell.id);
    put_option(out, cell.state.as_ref(), put_slot);
    put_text_option(out, cell.declared.map(Word::word));
    put_option(out, cell.fault.as_ref(), |out, fault| {
        put_data(out, fault.kind.word().as_bytes());
        put_data(out, fault.message.as_bytes());
        put_option(out, fault.detail.as_ref(), |out, detail| put_data(out, detail));
    });
    put_option(out, cell.fault_seq, put_u64);
    put_u64(out, cell.last_seq);
    put_data(out, cell.status().word().as_bytes());
}

/// The hash of the manifest under which a cell came in flight (`version`); None if there is no such
/// cell, or no manifest.
fn writer_of(state: &State, id: &CellId) -> Outcome<Option<Hash>> {
    let Some(cell) = state.cells.get(id)?.filter(|_| state.manifest.is_some()) else {
        return Ok(None);
    };
    let seq = home(state, &cell.borrow());
    Ok(Some(manifest_under(state, seq)?.hash))
}

fn put_progress_of(out: &mut Vec<u8>, state: &State, hash: &Hash) -> Outcome<()> {
    let open = state.cells.open_intent(hash)?.map(|intent| (intent, false));
    let intent = open.or_else(|| state.abandoned.get(hash).map(|intent| (intent.clone(), true)));
    let attempt = state.cells.intents.attempts.borrow().get(hash).copied();
    put_option(out, intent, |out, (intent, is_abandoned)| {
        put_progress(out, state, &intent, attempt, is_abandoned);
    });
    Ok(())
}

/// `put_intent`, then attempt (`u64`), option of the halt (phase, attempt, record, since, code,
/// option of the problem), the last attempt that was ever halted, the next stream frame (`u64`), and
/// whether it is owed, inherited, abandoned (`u32` each).
fn put_progress(
    out: &mut Vec<u8>,
    state: &State,
    intent: &OpenIntent,
    attempt: Option<u64>,
    is_abandoned: bool,
) {
    let hash = &intent.intent;
    put_intent(out, intent);
    let attempt = attempt.unwrap_or_else(|| first_attempt(intent));
    put_u64(out, attempt);
    let halt = state.halts().get(hash).filter(|halt| halt.attempt >= attempt);
    put_option(out, halt, |out, halt| {
        put_data(out, halt.phase.word().as_bytes());
        put_u64(out, halt.attempt);
        put_u64(out, halt.seq);
        put_u64(out, halt.since_ns);
        put_data(out, halt.code.as_bytes());
        put_text_option(out, halt.problem.as_deref());
    });
    put_u64(out, state.halts().get(hash).map_or(0, |halt| halt.attempt));
    put_u64(out, state.streams().get(hash).map_or(0, |stream| stream.last + 1));
    let is_owed = !is_abandoned && state.owed.iter().any(|owed| owed.intent == *hash);
    for flag in [is_owed, state.is_inherited(intent), is_abandoned] {
        put_u32(out, flag.into());
    }
}

/// Numbers and hashes first, so that a host reads them at once: hash, hash of the workflow, record,
/// index, time of opening, hash of the manifest, hash of the params; then ten `u32`: the sizes of
/// workflow, cell key, effect, idempotency key, and kind and size of params (0 data, 1 hash and
/// size), key (0 none, 1 text, 2 bytes) and the issuer's reference (0 none, 1 text). The bytes
/// follow in this order.
pub(crate) fn put_intent(out: &mut Vec<u8>, intent: &OpenIntent) {
    out.extend_from_slice(&intent.intent);
    out.extend_from_slice(&intent.workflow_hash);
    put_u64(out, intent.seq);
    put_u64(out, intent.index);
    put_u64(out, intent.opened_ns);
    out.extend_from_slice(intent.manifest());
    out.extend_from_slice(&intent.params_hash);
    let mut reference = Vec::new();
    let (params_kind, params): (u32, &[u8]) = match &intent.params {
        Slot::Bytes(data) => (0, data),
        Slot::Ref(params) => {
            reference.extend_from_slice(&params.hash);
            put_u64(&mut reference, params.size);
            (1, &reference)
        }
    };
    let (key_kind, key): (u32, &[u8]) = match &intent.key {
        None => (0, &[]),
        Some(RequestKey::Text(text)) => (1, text.as_bytes()),
        Some(RequestKey::Bytes(data)) => (2, data),
    };
    let issuer = intent.issuer_ref.as_deref();
    let cell = &intent.cell;
    let texts = [
        cell.workflow.as_bytes(),
        &cell.key,
        intent.effect.name.as_bytes(),
        intent.idempotency_key.as_bytes(),
    ];
    let kinds = [
        (params_kind, params),
        (key_kind, key),
        (u32::from(issuer.is_some()), issuer.unwrap_or_default().as_bytes()),
    ];
    texts.iter().for_each(|text| put_u32(out, text.len() as u32));
    for (kind, data) in &kinds {
        put_u32(out, *kind);
        put_u32(out, data.len() as u32);
    }
    texts.iter().for_each(|text| out.extend_from_slice(text));
    kinds.iter().for_each(|(_, data)| out.extend_from_slice(data));
}
