//! Check the shape of a snapshot's document and page items (`core/snapshot/shape.py`; spec/state.md,
//! SN-5 and SN-6).
//!
//! A valid hash does not make a document valid, because anyone can compute a hash. A document with
//! another shape, or one that contradicts itself, is damage.

use crate::collections::{SeededMap, SeededSet};
use crate::journal::faults::FaultKind;
use crate::journal::records::{CellId, ENTROPY_BYTES};
use crate::journal::vocabulary::{
    ApplyMode, ClosedStatus, HaltPhase, ProposalStatus, SettledStatus, TerminalStatus, Vote, Word,
};
use crate::manifest::builtins::TIMER;
use crate::state::cell::SharedCell;
use crate::state::cells::WAITING_FORMAT;
use crate::state::proposals::{CLOSED_KEPT, PROPOSALS_MAX};
use crate::state::state::{Debt, State};
use crate::values::cbor::{Key, Value};
use crate::values::digests::HASH_BYTES;
use crate::values::errors::{quoted, Failure, Outcome};

/// The type that a value must have.
pub enum Shape {
    Nat,
    /// A natural number that is not 0.
    Positive,
    Text,
    Data,
    Flag,
    True,
    /// So many bytes.
    Bytes(usize),
    /// A text that spells one of a closed set.
    Word(fn(&str) -> bool),
    Maybe(&'static Shape),
    Either(&'static [Shape]),
    List(&'static Shape),
    /// A list that is not empty.
    Some(&'static Shape),
    Row(&'static [Shape]),
    /// The first columns of a row, then others.
    Longer(&'static [Shape], &'static [Shape]),
    /// A map with any text keys.
    Map(&'static Shape),
    Fields(&'static [Field], &'static [Field]),
}

/// The name and the shape of an entry of a map.
pub type Field = (&'static str, Shape);

impl Shape {
    pub fn fits(&self, value: &Value) -> bool {
        match self {
            Shape::Nat => value.as_nat().is_some(),
            Shape::Positive => value.as_nat().is_some_and(|n| n > 0),
            Shape::Text => matches!(value, Value::Text(_)),
            Shape::Data => matches!(value, Value::Bytes(_)),
            Shape::Flag => matches!(value, Value::Bool(_)),
            Shape::True => *value == Value::Bool(true),
            Shape::Bytes(count) => value.as_bytes().is_some_and(|data| data.len() == *count),
            Shape::Word(is_one) => value.as_text().is_some_and(is_one),
            Shape::Maybe(shape) => *value == Value::Null || shape.fits(value),
            Shape::Either(shapes) => shapes.iter().any(|shape| shape.fits(value)),
            Shape::List(shape) => {
                value.as_list().is_some_and(|items| items.iter().all(|item| shape.fits(item)))
            }
            Shape::Some(shape) => value.as_list().is_some_and(|items| {
                !items.is_empty() && items.iter().all(|item| shape.fits(item))
            }),
            Shape::Row(shapes) => fit_row(shapes, &[], value),
            Shape::Longer(first, more) => fit_row(first, more, value),
            Shape::Map(shape) => entries(value).is_some_and(|entries| {
                entries.iter().all(|(key, item)| matches!(key, Key::Text(_)) && shape.fits(item))
            }),
            Shape::Fields(required, options) => entries(value).is_some_and(|entries| {
                required.iter().all(|(name, _)| value.get(name).is_some())
                    && entries.iter().all(|(key, item)| {
                        shape_of(key, required, options).is_some_and(|shape| shape.fits(item))
                    })
            }),
        }
    }
}

fn fit_row(first: &[Shape], more: &[Shape], value: &Value) -> bool {
    value.as_list().is_some_and(|items| {
        items.len() == first.len() + more.len()
            && first.iter().chain(more).zip(items).all(|(shape, item)| shape.fits(item))
    })
}

fn entries(value: &Value) -> Option<&[(Key, Value)]> {
    match value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

fn shape_of<'a>(key: &Key, required: &'a [Field], options: &'a [Field]) -> Option<&'a Shape> {
    let Key::Text(name) = key else { return None };
    required.iter().chain(options).find(|(field, _)| field == name).map(|(_, shape)| shape)
}

const fn word<W: Word>() -> Shape {
    Shape::Word(|text| W::of(text).is_some())
}

const HASH: Shape = Shape::Bytes(HASH_BYTES);
const NAT: Shape = Shape::Nat;
const TEXT: Shape = Shape::Text;
const DATA: Shape = Shape::Data;

const REF: Shape = Shape::Row(&[HASH, NAT]);
const SLOT: Shape = Shape::Either(&[DATA, REF]);
const CELL: Shape = Shape::Row(&[TEXT, DATA]);
const ENTRY: Shape = Shape::Row(&[NAT, NAT]);
const HASHES: Shape = Shape::List(&HASH);
const MAYBE_TEXT: Shape = Shape::Maybe(&TEXT);
const MAYBE_DATA: Shape = Shape::Maybe(&DATA);

const INTENT: Shape = Shape::Row(&[
    HASH,
    CELL,
    HASH,
    NAT,
    NAT,
    NAT,
    HASH,
    TEXT,
    SLOT,
    HASH,
    Shape::Maybe(&Shape::Either(&[TEXT, DATA])),
    TEXT,
    MAYBE_TEXT,
]);
const FAULT: Shape = Shape::Row(&[word::<FaultKind>(), TEXT, MAYBE_DATA]);
const EVENT_KIND: Shape = Shape::Word(|text| text == "event");
const RECORD_KIND: Shape =
    Shape::Word(|text| matches!(text, "receipt" | "kernel_receipt" | "stream"));
const MAIL: Shape = Shape::Either(&[
    Shape::Row(&[EVENT_KIND, ENTRY, NAT, NAT, TEXT, SLOT]),
    Shape::Row(&[RECORD_KIND, ENTRY, NAT, NAT, INTENT, DATA]),
]);
const ACTIVE: [Shape; 14] = [
    CELL,
    HASH,
    HASH,
    Shape::Maybe(&REF),
    Shape::Maybe(&word::<TerminalStatus>()),
    Shape::Maybe(&FAULT),
    Shape::Maybe(&NAT),
    NAT,
    NAT,
    NAT,
    Shape::Flag,
    HASHES,
    MAYBE_DATA,
    Shape::List(&MAIL),
];
const OWED: [Shape; 6] = [HASH, word::<Debt>(), NAT, NAT, MAYBE_TEXT, NAT];
const OPTIONS_OF_A_CELL: Shape = Shape::Fields(&[], &[("version", NAT), ("kept", Shape::True)]);

/// The open work of a cell that only waits (SN-15).
pub static WORK_ITEM: Shape = Shape::Some(&Shape::Row(&[INTENT, Shape::Maybe(&Shape::Positive)]));

/// Where an open intent of a cell is that only waits (SN-15).
pub static OPENED: Shape = Shape::Row(&[CELL, NAT, NAT]);

/// The shape of the items of open work, by page name (SN-6).
pub static ITEMS: [Field; 9] = [
    ("roots", Shape::Row(&[NAT, NAT, Shape::Bytes(ENTROPY_BYTES), NAT])),
    ("ring", CELL),
    (
        "owed",
        Shape::Either(&[Shape::Row(&OWED), Shape::Longer(&OWED, &[word::<SettledStatus>(), SLOT])]),
    ),
    ("intents", INTENT),
    ("abandoned", INTENT),
    ("attempts", Shape::Row(&[HASH, NAT])),
    ("streams", Shape::Row(&[HASH, NAT, NAT, NAT, NAT])),
    ("cells", Shape::Either(&[Shape::Row(&ACTIVE), Shape::Longer(&ACTIVE, &[OPTIONS_OF_A_CELL])])),
    ("world_keys", Shape::Row(&[TEXT, HASH])),
];

/// As `ITEMS`, of pages that a document has only if there is an item in them.
pub static RARE_ITEMS: [Field; 1] =
    [("halts", Shape::Row(&[HASH, word::<HaltPhase>(), NAT, NAT, NAT, TEXT, MAYBE_TEXT]))];

const WORK: Shape = Shape::Fields(
    &[
        ("roots", HASHES),
        ("ring", HASHES),
        ("owed", HASHES),
        ("intents", HASHES),
        ("abandoned", HASHES),
        ("attempts", HASHES),
        ("streams", HASHES),
        ("cells", HASHES),
        ("world_keys", HASHES),
    ],
    &[("halts", Shape::Some(&HASH))],
);

static DOCUMENT: [Field; 19] = [
    ("format", NAT),
    ("world", HASH),
    ("seq", NAT),
    ("frame", HASH),
    ("log", Shape::Row(&[NAT, HASHES])),
    ("clock_ns", NAT),
    ("world_key", DATA),
    ("operators", Shape::List(&Shape::Row(&[TEXT, DATA]))),
    ("semantics", NAT),
    ("serial", NAT),
    ("controls", NAT),
    ("revoked", Shape::List(&DATA)),
    ("pinned", HASHES),
    ("manifest", Shape::Maybe(&HASH)),
    ("manifest_seq", NAT),
    ("snapshot", Shape::Maybe(&Shape::Row(&[NAT, NAT, HASH]))),
    ("cells", Shape::Map(&Shape::Row(&[Shape::Maybe(&HASH), NAT, NAT, NAT, NAT]))),
    ("submissions", Shape::List(&Shape::Row(&[NAT, HASH, Shape::Positive]))),
    ("work", WORK),
];

const PROPOSAL: Shape = Shape::Row(&[
    NAT,
    TEXT,
    HASH,
    REF,
    REF,
    Shape::Maybe(&word::<ApplyMode>()),
    Shape::List(&TEXT),
    Shape::List(&Shape::Row(&[TEXT, word::<Vote>(), NAT])),
    Shape::List(&Shape::Row(&[HASH, NAT, NAT])),
]);
const CLOSED: Shape = Shape::Row(&[NAT, word::<ClosedStatus>()]);

static OPTIONS: [Field; 5] = [
    ("window_ns", NAT),
    ("proposed", Shape::Positive),
    ("proposals", Shape::Some(&Shape::Either(&[PROPOSAL, CLOSED]))),
    ("eras", Shape::List(&Shape::Row(&[NAT, HASH, Shape::List(&TEXT)]))),
    ("ancestors", Shape::List(&Shape::Row(&[HASH, NAT]))),
];

/// The fields that only a document of format 2 has.
static MAPS: [Field; 3] = [
    ("waiting", Shape::Map(&Shape::Row(&[HASH, Shape::Positive, NAT]))),
    ("open", Shape::Map(&Shape::Row(&[HASH, Shape::Positive]))),
    ("timers", Shape::Row(&[Shape::Maybe(&HASH), NAT])),
];

/// The last record of any journal: what a world counts of its records never exceeds 64 bits.
const SEQ_MAX: u64 = (1 << 63) - 1;

/// Check the fields of a document, whose `format` is one of this release. It is Damage if a field
/// is missing, unknown, or of another type.
pub fn check_document(value: &Value) -> Outcome<()> {
    let has_maps = value.get("format").and_then(Value::as_nat) == Some(WAITING_FORMAT);
    let maps = if has_maps { &MAPS[..] } else { &[] };
    for (name, _) in DOCUMENT.iter().chain(maps) {
        if value.get(name).is_none() {
            return damage(format!("the snapshot has no {name}"));
        }
    }
    for (key, field_value) in entries(value).unwrap_or_default() {
        let name = match key {
            Key::Text(name) => name.clone(),
            Key::Int(number) => number.to_string(),
        };
        let shape = shape_of(key, &DOCUMENT, &OPTIONS).or_else(|| shape_of(key, maps, &[]));
        let Some(shape) = shape else {
            return damage(format!("the snapshot has {}, which is no field of it", quoted(&name)));
        };
        if !shape.fits(field_value) {
            return none_written(&name);
        }
    }
    if value.get("window_ns") == value.get("clock_ns") {
        return damage("the snapshot's window_ns is its clock_ns, and then it is left out".into());
    }
    let column = |row: &Value, at: usize| row.as_list().and_then(|row| row.get(at).cloned());
    let log = value.get("log").expect("a field that was checked");
    let seq = value.get("seq").and_then(Value::as_nat).expect("a number");
    if seq > SEQ_MAX {
        return none_written("seq");
    }
    let size = column(log, 0).and_then(|size| size.as_nat()).expect("a number");
    let peaks = column(log, 1).expect("a list");
    // A frame has a record.
    let is_bits = peaks.as_list().map(<[Value]>::len) == Some(size.count_ones() as usize);
    if size > seq || !is_bits {
        return none_written("log");
    }
    let chunks = value.get("submissions").and_then(Value::as_list).expect("a list");
    let numbers: Vec<u64> = chunks.iter().filter_map(|chunk| column(chunk, 0)?.as_nat()).collect();
    let counts = chunks.iter().filter_map(|chunk| Some(u128::from(column(chunk, 2)?.as_nat()?)));
    // An id belongs to a record.
    let is_few = counts.sum::<u128>() <= u128::from(seq);
    if !is_few || !numbers.windows(2).all(|pair| pair[0] < pair[1]) {
        return none_written("submissions");
    }
    Ok(())
}

/// Check an item of a page of `name`. It is Damage if it has another shape.
pub fn check_item(name: &str, item: &Value) -> Outcome<()> {
    let shape = shape_of(&Key::Text(name.to_string()), &ITEMS, &RARE_ITEMS).expect("a page name");
    match shape.fits(item) {
        true => Ok(()),
        false => damage(format!("a page of {name} of the snapshot holds what is none of them")),
    }
}

/// Check the facts about open work that a snapshot states in more than one place. It is Damage if
/// two places contradict each other.
pub fn check_agrees(state: &State) -> Outcome<()> {
    let are_intents_right = intents_agree(state);
    // It loads the cells whose intents are owed.
    let is_owed_right = owed_agrees(state)?;
    let loaded = state.cells.intents.loaded.borrow();
    let agreed =
        [
            ("ring", ring_agrees(state)),
            ("intents", are_intents_right),
            ("owed", is_owed_right),
            ("streams", state.streams().keys().all(|intent| loaded.contains_key(intent))),
            ("halts", halts_agree(state)),
            (
                "attempts",
                state.cells.intents.attempts.borrow().keys().all(|intent| {
                    loaded.contains_key(intent) || state.abandoned.contains_key(intent)
                }),
            ),
            ("cells", cells_agree(state)),
            ("waiting", waiting_agrees(state)),
            ("manifest", state.manifest.is_none() == (state.manifest_seq == 0)),
            ("proposals", proposals_agree(state)),
        ];
    match agreed.iter().find(|(_, is_so)| !is_so) {
        None => Ok(()),
        Some((name, _)) => {
            damage(format!("the snapshot's {name} does not agree with the rest of it"))
        }
    }
}

fn ring_agrees(state: &State) -> bool {
    let active = &state.cells.active;
    let ready = active.values().filter(|cell| cell.borrow().in_ring).count();
    let ring: SeededSet<&CellId> = state.ring.iter().collect();
    ready == state.ring.len()
        && ring.len() == ready
        && ring.iter().all(|&id| {
            active.get(id).is_some_and(|cell| {
                let cell = cell.borrow();
                cell.in_ring && !cell.mailbox.is_empty() && cell.fault.is_none()
            })
        })
}

fn intents_agree(state: &State) -> bool {
    let loaded = state.cells.intents.loaded.borrow();
    let mut waiting = 0;
    for (id, cell) in state.cells.active.iter() {
        let cell = cell.borrow();
        waiting += cell.inflight.len();
        let is_open = |intent| loaded.get(intent).is_some_and(|open| open.cell == *id);
        if !cell.inflight.iter().all(is_open) {
            return false;
        }
    }
    waiting == loaded.len()
}

/// Check the numbers of the maps of open work, and that no cell is in the pages instead.
fn waiting_agrees(state: &State) -> bool {
    let cells = &state.cells;
    let waiting: Vec<_> =
        cells.shelves.values().filter(|shelf| shelf.waiting.count() > 0).collect();
    let is_each_right = waiting.iter().all(|shelf| {
        let most = shelf.undeclared().min(shelf.waiting.count().into());
        shelf.undeclared_waiting <= most && shelf.waiting.count() <= shelf.base.count()
    });
    let waiting: u128 = waiting.iter().map(|shelf| u128::from(shelf.waiting.count())).sum();
    let opened: u128 = cells.intents.base.values().map(|index| u128::from(index.count())).sum();
    let timers = cells.intents.base.get(TIMER).map_or(0, |index| index.count());
    let is_paged = |cell: &SharedCell| cells.may_wait(&cell.borrow());
    is_each_right
        && waiting <= opened
        && timers == cells.intents.timers.count()
        && !(cells.rests_waiting && cells.active.values().any(is_paged))
}

fn owed_agrees(state: &State) -> Outcome<bool> {
    for owed in &state.owed {
        if !state.cells.is_open(&owed.intent)?
            || (owed.debt == Debt::Settle) != owed.settlement.is_some()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn halts_agree(state: &State) -> bool {
    let loaded = state.cells.intents.loaded.borrow();
    state.halts().iter().all(|(intent, halt)| {
        loaded
            .get(intent)
            .is_some_and(|intent| 0 < halt.attempt && halt.attempt <= state.attempt(intent))
    })
}

fn cells_agree(state: &State) -> bool {
    let active = &state.cells.active;
    let mut stateless: SeededMap<&str, i128> = SeededMap::default();
    for (id, cell) in active.iter() {
        if cell.borrow().state.is_none() {
            *stateless.entry(&id.workflow).or_default() += 1;
        }
    }
    !active.values().any(|cell| cell.borrow().is_at_rest())
        && state.cells.shelves.iter().all(|(name, shelf)| {
            let stored = i128::from(shelf.base.count());
            let stateless = stateless.get(&**name).copied().unwrap_or_default();
            shelf.count == stored + stateless && shelf.undeclared() >= 0
        })
}

fn proposals_agree(state: &State) -> bool {
    let proposals = &state.proposals;
    let (open, closed) = (&proposals.open, &proposals.closed);
    // `load` has refused a proposal that is listed twice.
    let is_known =
        (open.len() + closed.len()) as u64 <= proposals.count && closed.len() <= CLOSED_KEPT;
    if !is_known || open.keys().chain(closed.keys()).any(|seq| *seq >= state.next_seq) {
        return false;
    }
    let Some(manifest) = &state.manifest else { return open.is_empty() };
    let Some(block) = &manifest.governance else { return open.is_empty() };
    open.len() <= PROPOSALS_MAX
        && open.values().all(|proposal| {
            proposal.base == manifest.hash
                && proposal.seq > state.manifest_seq
                && proposal.status(block) != ProposalStatus::Rejected
        })
}

fn none_written<T>(name: &str) -> Outcome<T> {
    damage(format!("the snapshot's {name} is none that is written"))
}

fn damage<T>(text: String) -> Outcome<T> {
    Err(Failure::Damage(text))
}
