//! Load the state of a world from a snapshot, which `take` wrote (`core/snapshot/load.py`;
//! spec/state.md, SN-1 to SN-23).
//!
//! Loading reads only the open work. Cells at rest and the dedup window are read when they are
//! needed, so that a world of a million cells opens as quickly as one of a hundred.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap, SeededSet};
use crate::journal::faults::{Fault, FaultKind};
use crate::journal::frame::Tip;
use crate::journal::merkle::Tree;
use crate::journal::ports::{BlobReader, Find};
use crate::journal::record_codec::from_bytes;
use crate::journal::records::{
    CellId, EntryId, Principal, Record, Ref, Slot, Stamp, ENTROPY_BYTES,
};
use crate::journal::vocabulary::Word;
use crate::limits::Limits;
use crate::manifest::effective::Effective;
use crate::snapshot::shape::{check_agrees, check_document, check_item};
use crate::snapshot::take::{SnapshotLayers, FORMATS};
use crate::state::cell::{Cell, Content, Mail, OpenIntent, Root, Settling};
use crate::state::cell_index::CellIndex;
use crate::state::cells::{Cells, WorkIndexes, WAITING_FORMAT};
use crate::state::entry::read_keys;
use crate::state::eras::{era_of, Era, Eras, ManifestOf};
use crate::state::proposals::{Cast, Proposal, Proposals, Reported};
use crate::state::state::{Ancestor, Halt, Mark, Owed, Settlement, State, StreamState};
use crate::state::submissions::{Chunk, Submissions};
use crate::state::work_item::read_intent;
use crate::values::cbor::{decode_record, Key, Value, RECORD};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// The state that `take` wrote; `find` looks submission ids up in the store. Damage if the document
/// or a page is missing or altered, or if `take` does not write such bytes.
pub fn load(
    document: &Hash,
    read: &BlobReader,
    find: Option<Rc<dyn Find>>,
    limits: Limits,
    manifest_of: ManifestOf,
) -> Outcome<State> {
    let manifests = RefCell::default();
    let loader = Loader { fields: fields(document, read)?, read, manifest_of, manifests };
    loader.state(find, limits)
}

/// The format of a document; None if it is none that is written. Python: `in_format_of`.
pub fn format_of(document: &[u8]) -> Option<u64> {
    let format = decoded(document).ok()?.get("format")?.as_nat()?;
    FORMATS.contains(&format).then_some(format)
}

/// The parts of a snapshot that `rebase` needs. Damage as in `load`.
pub fn layers(document: &Hash, read: &BlobReader) -> Outcome<SnapshotLayers> {
    let fields = fields(document, read)?;
    Ok(SnapshotLayers {
        document: *document,
        size: read.read(document)?.len() as u64,
        at: nat(&fields["seq"]),
        frame: hash(&fields["frame"]),
        cells: indexes(&fields, read)?,
        chunks: chunks(&fields),
        work: work_maps(&fields, read)?,
    })
}

/// Whether a blob is a part of a snapshot itself: its document, a chunk, a page or a node, but no
/// value. Damage if the document or a node above the leaves cannot be read. Python: `parts`.
pub fn has_part(document: &Hash, blob: &Hash, read: &BlobReader) -> Outcome<bool> {
    let fields = fields(document, read)?;
    let in_pages = |pages: &Value| items(pages).iter().any(|page| hash(page) == *blob);
    if document == blob
        || chunks(&fields).iter().any(|chunk| chunk.hash == *blob)
        || entries(&fields["work"]).any(|(_, pages)| in_pages(pages))
    {
        return Ok(true);
    }
    for index in all_indexes(&fields, read)? {
        for node in index.nodes(|_| false) {
            if node? == *blob {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The fields of a document whose shape is checked.
pub struct Fields(Value);

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl std::ops::Index<&str> for Fields {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.get(name).expect("a field that was checked")
    }
}

fn fields(document: &Hash, read: &BlobReader) -> Outcome<Fields> {
    check_fields(&read.read(document)?)
}

/// Decode a document and check the shape of its fields.
pub fn check_fields(data: &[u8]) -> Outcome<Fields> {
    let value = decoded(data)?;
    match value.get("format") {
        Some(Value::Int(number)) if FORMATS.iter().any(|format| *number == (*format).into()) => {}
        Some(Value::Int(number)) => {
            return Err(Failure::Damage(format!(
                "the snapshot is of format {number}: expected 1 or 2 (a newer release wrote it)"
            )))
        }
        _ => return Err(Failure::damage("the snapshot's document is none that is written")),
    }
    check_document(&value)?;
    Ok(Fields(value))
}

pub(crate) fn decoded(data: &[u8]) -> Outcome<Value> {
    decode_record(data, RECORD).map_err(|problem| {
        Failure::Damage(format!("a part of the snapshot is not canonical CBOR: {problem}"))
    })
}

fn indexes(fields: &Fields, read: &BlobReader) -> Outcome<Vec<(Rc<str>, CellIndex)>> {
    let mut indexes = entries(&fields["cells"])
        .map(|(name, row)| {
            let [root, count, ..] = items(row) else { unreachable!("a row that was checked") };
            Ok((name, CellIndex::new(maybe(root, hash), nat(count), read.clone())?))
        })
        .collect::<Outcome<Vec<_>>>()?;
    indexes.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(indexes)
}

/// The maps of open work; None for a snapshot of format 1.
fn work_maps(fields: &Fields, read: &BlobReader) -> Outcome<Option<WorkIndexes>> {
    if nat(&fields["format"]) != WAITING_FORMAT {
        return Ok(None);
    }
    let index = |row: &Value| match items(row) {
        [root, count, ..] => CellIndex::new(maybe(root, hash), nat(count), read.clone()),
        _ => unreachable!("a row that was checked"),
    };
    let maps = |name: &str| {
        entries(&fields[name]).map(|(key, row)| Ok((key, index(row)?))).collect::<Outcome<_>>()
    };
    Ok(Some(WorkIndexes {
        waiting: maps("waiting")?,
        opened: maps("open")?,
        timers: index(&fields["timers"])?,
    }))
}

/// The indexes of cells, and the maps of open work.
fn all_indexes(fields: &Fields, read: &BlobReader) -> Outcome<Vec<CellIndex>> {
    let mut all: Vec<CellIndex> =
        indexes(fields, read)?.into_iter().map(|(_, index)| index).collect();
    if let Some(maps) = work_maps(fields, read)? {
        all.extend(maps.waiting.into_values().chain(maps.opened.into_values()));
        all.push(maps.timers);
    }
    Ok(all)
}

fn chunks(fields: &Fields) -> Vec<Chunk> {
    list(&fields["submissions"], |row| {
        let [number, chunk_hash, count] = row else { unreachable!("a row that was checked") };
        Chunk { number: nat(number), hash: hash(chunk_hash), count: nat(count) }
    })
}

// Parts of values whose shape was checked.

pub(crate) fn none_written() -> Failure {
    Failure::damage("the snapshot is none that is written")
}

pub(crate) fn nat(value: &Value) -> u64 {
    value.as_nat().expect("a number that was checked")
}

pub(crate) fn text(value: &Value) -> Rc<str> {
    value.as_text().expect("a text that was checked").into()
}

pub(crate) fn data(value: &Value) -> Rc<[u8]> {
    value.as_bytes().expect("bytes that were checked").into()
}

pub(crate) fn hash(value: &Value) -> Hash {
    value.as_bytes().and_then(|data| data.try_into().ok()).expect("a hash that was checked")
}

fn word<W: Word>(value: &Value) -> W {
    value.as_text().and_then(W::of).expect("a word that was checked")
}

fn flag(value: &Value) -> bool {
    *value == Value::Bool(true)
}

pub(crate) fn maybe<T>(value: &Value, read: impl FnOnce(&Value) -> T) -> Option<T> {
    (*value != Value::Null).then(|| read(value))
}

pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_list().expect("a list that was checked")
}

fn list<T>(value: &Value, read: impl FnMut(&[Value]) -> T) -> Vec<T> {
    items(value).iter().map(items).map(read).collect()
}

fn entries(value: &Value) -> impl Iterator<Item = (Rc<str>, &Value)> {
    let Value::Map(entries) = value else { unreachable!("a map that was checked") };
    entries.iter().map(|(key, item)| match key {
        Key::Text(name) => (Rc::from(&**name), item),
        Key::Int(_) => unreachable!("a key that was checked"),
    })
}

pub(crate) fn cell_id(value: &Value) -> CellId {
    let [workflow, key] = items(value) else { unreachable!("a row that was checked") };
    CellId { workflow: text(workflow), key: data(key) }
}

fn entry_id(value: &Value) -> EntryId {
    let [seq, index] = items(value) else { unreachable!("a row that was checked") };
    (nat(seq), nat(index))
}

fn reference(value: &Value) -> Ref {
    let [blob, size] = items(value) else { unreachable!("a row that was checked") };
    Ref { hash: hash(blob), size: nat(size) }
}

pub(crate) fn slot(value: &Value) -> Slot {
    match value {
        Value::Bytes(data) => Slot::Bytes(data[..].into()),
        _ => Slot::Ref(reference(value)),
    }
}

/// Reads one document.
struct Loader<'a> {
    fields: Fields,
    read: &'a BlobReader,
    manifest_of: ManifestOf,
    manifests: RefCell<SeededMap<Hash, Rc<Effective>>>,
}

type Roots = SeededMap<u64, Rc<Root>>;

impl Loader<'_> {
    fn state(self, find: Option<Rc<dyn Find>>, limits: Limits) -> Outcome<State> {
        let roots = self.roots()?;
        let manifest = match maybe(&self.fields["manifest"], hash) {
            Some(hash) => Some(self.manifest(&hash)?),
            None => None,
        };
        let eras = self.eras(manifest.as_deref())?;
        let proposals = self.proposals()?;
        let (seq, clock_ns) = (nat(&self.fields["seq"]), nat(&self.fields["clock_ns"]));
        let fields = &self.fields;
        let [log_size, log_peaks] = items(&fields["log"]) else { unreachable!("it was checked") };
        let mut state = State {
            tip: Tip {
                world: hash(&fields["world"]),
                seq,
                frame: hash(&fields["frame"]),
                log: Tree {
                    size: nat(log_size),
                    peaks: items(log_peaks).iter().map(hash).collect(),
                },
            },
            limits,
            clock_ns,
            window_ns: fields.get("window_ns").map_or(clock_ns, nat),
            next_seq: seq.saturating_add(1),
            world_key: data(&fields["world_key"]),
            operators: list(&fields["operators"], |row| Principal {
                name: text(&row[0]),
                key: data(&row[1]),
            }),
            semantics: nat(&fields["semantics"]),
            serial: nat(&fields["serial"]),
            controls: nat(&fields["controls"]),
            revoked: items(&fields["revoked"]).iter().map(|key| data(key).to_vec()).collect(),
            pinned: items(&fields["pinned"]).iter().map(hash).collect(),
            manifest,
            manifest_seq: nat(&fields["manifest_seq"]),
            eras,
            snapshot: maybe(&fields["snapshot"], |mark| {
                let mark = items(mark);
                Mark { seq: nat(&mark[0]), at: nat(&mark[1]), document: hash(&mark[2]) }
            }),
            ancestors: fields.get("ancestors").map_or(Vec::new(), |ancestors| {
                list(ancestors, |row| Ancestor { world: hash(&row[0]), at: nat(&row[1]) })
            }),
            cells: Cells::new(self.read.clone(), seq, &limits, self.manifest_of.clone()),
            ring: VecDeque::new(),
            owed: VecDeque::new(),
            abandoned: OrderedMap::default(),
            submissions: RefCell::new(Submissions::new(
                chunks(fields),
                self.read.clone(),
                find,
                &limits,
            )),
            world_keys: OrderedMap::default(),
            proposals,
        };
        self.load_cells(&mut state.cells, &roots)?;
        self.load_work(&mut state, &roots)?;
        check_agrees(&state)?;
        Ok(state)
    }

    /// The items of the pages of `name`, each checked.
    fn items(&self, name: &str, mut take: impl FnMut(&[Value]) -> Outcome<()>) -> Outcome<()> {
        let Some(pages) = self.fields["work"].get(name) else { return Ok(()) };
        for page in items(pages) {
            let Value::List(rows) = decoded(&self.read.read(&hash(page))?)? else {
                return Err(Failure::Damage(format!("a page of {name} is no list")));
            };
            for row in &rows {
                check_item(name, row)?;
                take(items(row))?;
            }
        }
        Ok(())
    }

    fn roots(&self) -> Outcome<Roots> {
        let mut roots = Roots::default();
        self.items("roots", |row| {
            let [seq, ns, entropy, steps] = row else { unreachable!("a row that was checked") };
            let entropy: [u8; ENTROPY_BYTES] =
                entropy.as_bytes().and_then(|data| data.try_into().ok()).expect("64 bytes");
            let stamp = Stamp { ns: nat(ns), entropy };
            roots.insert(nat(seq), Root::after(nat(seq), stamp, nat(steps)));
            Ok(())
        })?;
        Ok(roots)
    }

    fn eras(&self, manifest: Option<&Effective>) -> Outcome<Eras> {
        let manifest_of = self.manifest_of.clone();
        if let Some(rows) = self.fields.get("eras") {
            let eras = list(rows, |row| {
                let in_place: BTreeSet<Rc<str>> = items(&row[2]).iter().map(text).collect();
                Era { seq: nat(&row[0]), manifest: hash(&row[1]), in_place }
            });
            return Ok(Eras::new(eras, Some(self.read.clone()), manifest_of));
        }
        let Some(effective) = manifest else {
            return Ok(Eras::new(Vec::new(), None, manifest_of));
        };
        let era = era_of(nat(&self.fields["manifest_seq"]), effective);
        Ok(Eras::new(vec![era], Some(self.read.clone()), manifest_of))
    }

    fn proposals(&self) -> Outcome<Proposals> {
        let count = self.fields.get("proposed").map_or(0, nat);
        let mut proposals = Proposals { count, ..Proposals::default() };
        for row in self.fields.get("proposals").map_or(&[][..], items) {
            let row = items(row);
            let seq = nat(&row[0]);
            if proposals.open.contains_key(&seq) || proposals.closed.contains_key(&seq) {
                return Err(Failure::Damage(format!("the snapshot has proposal {seq} twice")));
            }
            if let [_, status] = row {
                proposals.closed.insert(seq, word(status));
                continue;
            }
            let [_, principal, base, document, patch, mode, leaves, votes, reports] = row else {
                unreachable!("a row that was checked")
            };
            let mut proposal = Proposal {
                seq,
                principal: text(principal),
                base: hash(base),
                document: reference(document),
                patch: reference(patch),
                mode: maybe(mode, word),
                leaves: items(leaves).iter().map(text).collect(),
                votes: OrderedMap::default(),
                reports: OrderedMap::default(),
            };
            for vote in items(votes) {
                let vote = items(vote);
                let cast = Cast { vote: word(&vote[1]), seq: nat(&vote[2]) };
                proposal.votes.insert(text(&vote[0]), cast);
            }
            for report in items(reports) {
                let report = items(report);
                let reported = Reported { seq: nat(&report[1]), size: nat(&report[2]) };
                proposal.reports.insert(hash(&report[0]), reported);
            }
            proposals.open.insert(seq, proposal);
        }
        Ok(proposals)
    }

    fn load_cells(&self, cells: &mut Cells, roots: &Roots) -> Outcome<()> {
        for (name, row) in entries(&self.fields["cells"]) {
            let [_, _, count, completed, failed] = items(row) else {
                unreachable!("a row that was checked")
            };
            let shelf = cells.shelf(&name);
            shelf.count = nat(count).into();
            shelf.declared = [nat(completed).into(), nat(failed).into()];
        }
        for (name, index) in indexes(&self.fields, self.read)? {
            cells.shelf(&name).base = index;
        }
        let maps = work_maps(&self.fields, self.read)?;
        cells.rebase_work(maps.as_ref());
        if let Some(waiting) = self.fields.get("waiting") {
            for (name, row) in entries(waiting) {
                let shelf = cells.shelf(&name);
                shelf.resting_waiting = nat(&items(row)[1]).into();
                shelf.undeclared_waiting = nat(&items(row)[2]).into();
            }
        }
        for (hash, effective) in self.manifests.borrow().iter() {
            cells.intents.keep(*hash, effective.clone());
        }
        self.items("cells", |row| {
            let cell = self.cell(row, roots)?;
            cells.shelf(&cell.id.workflow);
            cells.active.insert(cell.id.clone(), cell.shared());
            Ok(())
        })?;
        Ok(())
    }

    fn load_work(&self, state: &mut State, roots: &Roots) -> Outcome<()> {
        self.items("ring", |row| {
            state.ring.push_back(CellId { workflow: text(&row[0]), key: data(&row[1]) });
            Ok(())
        })?;
        self.items("owed", |row| {
            state.owed.push_back(owed(row, roots)?);
            Ok(())
        })?;
        self.items("intents", |row| {
            let intent = self.intent(row)?;
            state.cells.intents.open(intent);
            Ok(())
        })?;
        let intents = &mut state.cells.intents;
        let at_rest = intents.base.values().map(CellIndex::count);
        intents.count = at_rest.fold(intents.count, u64::saturating_add);
        for (effect, index) in &intents.base {
            let count = intents.counts.entry(effect.clone()).or_default();
            *count = count.saturating_add(index.count());
        }
        self.items("abandoned", |row| {
            let intent = self.intent(row)?;
            state.abandoned.insert(intent.intent, intent);
            Ok(())
        })?;
        self.items("attempts", |row| {
            let attempts = state.cells.intents.attempts.get_mut();
            attempts.insert(hash(&row[0]), nat(&row[1]));
            Ok(())
        })?;
        self.items("streams", |row| {
            let [intent, last, frames, since_ns, recent] = row else {
                unreachable!("a row that was checked")
            };
            let stream = StreamState {
                last: nat(last),
                frames: nat(frames),
                since_ns: nat(since_ns),
                recent: nat(recent),
            };
            state.cells.intents.streams.insert(hash(intent), stream);
            Ok(())
        })?;
        self.items("halts", |row| {
            let [intent, phase, attempt, seq, since_ns, code, problem] = row else {
                unreachable!("a row that was checked")
            };
            let halt = Halt {
                phase: word(phase),
                attempt: nat(attempt),
                seq: nat(seq),
                since_ns: nat(since_ns),
                code: text(code),
                problem: maybe(problem, text),
            };
            state.cells.intents.halts.insert(hash(intent), halt);
            Ok(())
        })?;
        self.items("world_keys", |row| {
            state.world_keys.insert(text(&row[0]), hash(&row[1]));
            Ok(())
        })
    }

    fn manifest(&self, hash: &Hash) -> Outcome<Rc<Effective>> {
        let known = self.manifests.borrow().get(hash).cloned();
        if let Some(effective) = known {
            return Ok(effective);
        }
        let effective = (self.manifest_of)(&self.read.read(hash)?)?;
        self.manifests.borrow_mut().insert(*hash, effective.clone());
        Ok(effective)
    }

    fn intent(&self, row: &[Value]) -> Outcome<Rc<OpenIntent>> {
        read_intent(row, |hash| self.manifest(hash))
    }

    fn cell(&self, row: &[Value], roots: &Roots) -> Outcome<Cell> {
        let [id, workflow_hash, module_hash, state, declared, fault, fault_seq, last_seq, last_active_ns, uncounted, in_ring, inflight, keys, mailbox, options @ ..] =
            row
        else {
            unreachable!("a row that was checked")
        };
        let mut cell = Cell::new(cell_id(id), hash(workflow_hash), hash(module_hash));
        cell.state = maybe(state, slot);
        cell.declared = maybe(declared, word);
        cell.fault = maybe(fault, |fault| {
            let [kind, message, detail] = items(fault) else {
                unreachable!("a row that was checked")
            };
            let (kind, detail) = (word::<FaultKind>(kind), maybe(detail, data));
            Fault { kind, message: text(message), detail }
        });
        cell.fault_seq = maybe(fault_seq, nat);
        cell.last_seq = nat(last_seq);
        cell.last_active_ns = nat(last_active_ns);
        cell.mail_uncounted = nat(uncounted);
        cell.in_ring = flag(in_ring);
        let mut listed = SeededSet::default();
        let intents = items(inflight).iter().map(hash);
        cell.inflight = intents.filter(|intent| listed.insert(*intent)).collect();
        if let Some(keys) = maybe(keys, data) {
            cell.keys = read_keys(&keys)?;
        }
        for mail in items(mailbox) {
            cell.mailbox.push_back(self.mail(items(mail), roots)?);
        }
        if let [options] = options {
            cell.version = options.get("version").map_or(0, nat);
            cell.is_kept = options.get("kept").is_some();
        }
        Ok(cell)
    }

    fn mail(&self, row: &[Value], roots: &Roots) -> Outcome<Mail> {
        let [kind, entry, root, depth, subject, content] = row else {
            unreachable!("a row that was checked")
        };
        let root = roots.get(&nat(root)).cloned().ok_or_else(none_written)?;
        let content = match kind.as_text() {
            Some("event") => Content::Event { schema: text(subject), value: slot(content) },
            _ => {
                let intent = self.intent(items(subject))?;
                match from_bytes(&data(content))? {
                    Record::Stream(frame) => Content::Stream { intent, frame },
                    Record::Receipt(receipt) => {
                        Content::Receipt { intent, receipt: Settling::Receipt(receipt) }
                    }
                    Record::KernelReceipt(receipt) => {
                        Content::Receipt { intent, receipt: Settling::Kernel(receipt) }
                    }
                    other => {
                        return Err(Failure::Damage(format!(
                            "mail of a cell is a record of kind {}",
                            other.kind()
                        )))
                    }
                }
            }
        };
        Ok(Mail { entry: entry_id(entry), root, depth: nat(depth), content })
    }
}

fn owed(row: &[Value], roots: &Roots) -> Outcome<Owed> {
    let [intent, debt, root, depth, problem, canceled, settlement @ ..] = row else {
        unreachable!("a row that was checked")
    };
    Ok(Owed {
        intent: hash(intent),
        debt: word(debt),
        root: roots.get(&nat(root)).cloned().ok_or_else(none_written)?,
        depth: nat(depth),
        problem: maybe(problem, text),
        canceled: nat(canceled),
        settlement: match settlement {
            [status, payload] => Some(Settlement { status: word(status), payload: slot(payload) }),
            _ => None,
        },
    })
}
