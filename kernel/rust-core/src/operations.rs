//! The operations of a core: requests and answers as bytes.
//!
//! Numbers are little-endian: `u32` and `u64`. `data` is a `u32` length and so many bytes; `list` a
//! `u32` count and so many items. An answer begins with a status (`u32`):
//!
//!     0 OK      the result of the operation follows
//!     1 DAMAGE  the words follow
//!     2 HOST    an import did not return; the host raises what it kept
//!     3 REFUSED the words of a probe's problem follow
//!     4 UNWRITABLE  a field of an input is none that a message or record can hold
//!
//! If an operation fails while it changes the world, the world is closed, because its state may be
//! half changed: 16 is added to the status. A request that is not as described here is a defect of the host, and a panic.

use std::rc::Rc;

use crate::collections::seed_maps;
use crate::deciding;
use crate::journal::frame::{read_frame, read_frame_in_place, Frame, Head, Tip};
use crate::journal::ports::{BlobReader, Find, Judge, Sink, Verify};
use crate::journal::record_codec::from_bytes;
use crate::journal::signing::Remembering;
use crate::kernel::{Decision, Kernel, Ports};
use crate::limits::{Limits, LIMITS};
use crate::pending::Sealed;
use crate::reading::{self, put_figures, put_intent, put_status, put_tip};
use crate::redeciding::Recorded;
use crate::snapshot::export::put_export;
use crate::snapshot::load::{layers, load};
use crate::snapshot::take::{rebase, take, SnapshotLayers};
use crate::state::cell_index::keep_leaves;
use crate::state::eras::{judging, trusting, ManifestOf};
use crate::state::state::State;
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{Failure, Outcome};

/// The functions of the host.
pub struct Host {
    pub blobs: BlobReader,
    pub find: Rc<dyn Find>,
    pub verify: Rc<dyn Verify>,
    pub judge: Rc<dyn Judge>,
    pub sink: Rc<dyn Sink>,
    /// (bytes that are allocated, bytes of the instance's memory).
    pub memory: fn() -> (usize, usize),
    /// Allocate no more than so many bytes: the core would trap.
    pub bound_memory: fn(usize),
}

/// One world, or none yet.
pub struct Core {
    host: Host,
    limits: Limits,
    pub(crate) kernel: Option<Kernel>,
    /// The records that `REDECIDE` has yet to decide.
    pub(crate) recorded: Recorded,
    /// The snapshot that was taken last, so that `REBASE` need not read it.
    taken: Option<SnapshotLayers>,
    /// Whether `ADMIT`, `END_STEP` or `REDECIDE` changes the world.
    is_changing: bool,
}

/// Bytes 0-15: the seed of maps. Then a bound of allocated bytes (`u64`), and eleven limits (`u64`) in
/// the order of `Limits`. Before any other operation.
const INIT: u32 = 0;
/// The hash of a world, `manifests`, and whether the host makes blobs of a migration durable as they
/// come (`u32`: 0 or 1). Opens it before its first frame. `manifests` (`u32`) is 0 in the journal of
/// the own world, which has judged them, and 1 in another: the host is asked about each of them.
const OPEN: u32 = 1;
/// The hash of a snapshot's document, then as `OPEN`. Opens its world at the end of its frame.
const LOAD: u32 = 2;
/// A frame as it is stored. Checks that it follows, and folds its records.
const FOLD_FRAME: u32 = 3;
/// `list` of blobs (`data`), then a record's canonical bytes. Folds it into the next frame.
const APPEND: u32 = 4;
/// The salt of 32 bytes -> `Sealed`, see `put_sealed`, `list` of the hashes that are pinned from now
/// on; then as `TIP` and `STATUS`, the bytes that are allocated (`u64`), and as `FIGURES`. Nothing
/// when there are no records.
const SEAL: u32 = 5;
/// A format of snapshots, or 0 for that of the limits (`u64`). Takes a snapshot, and gives the sink
/// each of its blobs, the document last -> `at` (`u64`), hashes of the frame and of the document.
const TAKE: u32 = 6;
/// The hash of a snapshot's document, of this or an earlier state, which is durable. Continues from
/// it.
const REBASE: u32 = 7;
/// -> the bytes of a head without a signature, canonical CBOR.
const HEAD: u32 = 8;
/// -> bytes that are allocated, bytes of the instance's memory (`u64` each).
const MEMORY: u32 = 9;
/// How many idle cells of each workflow stay decoded (`u64`), and whether states may leave memory
/// with a frame (`u32`: 0 or 1).
const KEEP: u32 = 10;
/// A stamp and an input -> the continuation of its decision; see `deciding`. Nothing changes.
const DECIDE: u32 = 11;
/// Whether steps may run (`u32`: 0 or 1) -> the continuation of the next receipt of the core or else
/// of the next step's decision. Nothing changes.
const NEXT: u32 = 12;
/// The result of the call that a decision needs -> the decision's continuation. Nothing changes.
const RAN: u32 = 13;
/// Folds the record that was decided last into the next frame -> as `STATUS`. Nothing else came
/// since.
const ENTER: u32 = 14;
/// Bounds of the frame's bytes and of its blobs' (`u64` each), `list` of stamps and inputs -> `list` of
/// their answers, as `DECIDE` or, of a record that was entered, as `put_admission`; then as `STATUS`.
/// It ends early when the frame has reached a bound.
const ADMIT: u32 = 27;
/// As `RAN` and `ENTER`, of a step -> option of its record's bytes (`data`) if it failed, as
/// `STATUS`, and option of the answer to `NEXT`. A decision that fails is left to `NEXT`, which fails
/// again.
const END_STEP: u32 = 28;
/// The blobs that a decision had to keep are durable -> the decision's continuation. Nothing changes.
/// (The numbers between are those of `reading`.)
const KEPT: u32 = 29;
/// -> the state at the end of a frame, for code that reads it as data: `put_export`.
const EXPORT: u32 = 30;
/// How many bytes of leaves each index keeps in memory from now on (`u64`): none at first. With 0,
/// those in memory are dropped.
const KEEP_LEAVES: u32 = 31;
/// Option of the result of the call of the last answer, else `list` of recorded records (`data`):
/// decides them again -> how many were entered and their counts (`redeciding`), then as `NEXT`: the
/// call of the step that comes next, or IDLE before a record that is left to the host.
const REDECIDE: u32 = 32;

const OK: u32 = 0;
const DAMAGE: u32 = 1;
const HOST: u32 = 2;
const UNWRITABLE: u32 = 4;
/// Added to the status of a failure: the world is closed.
const CLOSED: u32 = 16;

impl Core {
    pub fn new(host: Host) -> Core {
        Core {
            host,
            limits: LIMITS,
            kernel: None,
            recorded: Recorded::default(),
            taken: None,
            is_changing: false,
        }
    }

    /// Do one operation and return its answer.
    pub fn call(&mut self, operation: u32, request: &[u8]) -> Vec<u8> {
        let mut answer = Vec::with_capacity(64);
        put_u32(&mut answer, OK);
        #[cfg(feature = "probe")]
        if let Some(result) = crate::probes::probe(operation, request) {
            return result;
        }
        if let Err(failure) = self.answer(operation, request, &mut answer) {
            let closes = self.is_changing || matches!(operation, FOLD_FRAME | APPEND | ENTER);
            if closes {
                self.kernel = None;
            }
            let closed = if closes { CLOSED } else { 0 };
            answer.clear();
            match failure {
                Failure::Damage(text) => {
                    put_u32(&mut answer, DAMAGE | closed);
                    answer.extend_from_slice(text.as_bytes());
                }
                Failure::Host | Failure::Erased => put_u32(&mut answer, HOST | closed),
                Failure::Unwritable => put_u32(&mut answer, UNWRITABLE | closed),
            }
        }
        self.is_changing = false;
        answer
    }

    fn answer(&mut self, operation: u32, request: &[u8], out: &mut Vec<u8>) -> Outcome<()> {
        let mut request = Request(request);
        match operation {
            INIT => {
                seed_maps([request.u64(), request.u64()]);
                (self.host.bound_memory)(usize::try_from(request.u64()).unwrap_or(usize::MAX));
                self.limits = Limits {
                    deliveries: request.u64(),
                    blockers: request.u64(),
                    delta_bytes: request.u64(),
                    spill_bytes: request.u64(),
                    slice_cells: request.u64(),
                    kept_bytes: request.u64(),
                    chunk: request.u64(),
                    chunks_held: request.u64(),
                    page_bytes: request.u64(),
                    page_items: request.u64(),
                    snapshot_format: request.u64(),
                };
            }
            OPEN => {
                let tip = Tip::of(request.hash());
                let manifest_of = self.manifest_of(&mut request);
                let (blobs, find) = (&self.host.blobs, Some(self.host.find.clone()));
                let state = State::empty(tip, blobs, find, self.limits, manifest_of);
                self.open(state, request.u32() == 1);
            }
            LOAD => {
                let document = request.hash();
                let manifest_of = self.manifest_of(&mut request);
                let (blobs, find) = (&self.host.blobs, Some(self.host.find.clone()));
                let state = load(&document, blobs, find, self.limits, manifest_of)?;
                self.open(state, request.u32() == 1);
            }
            FOLD_FRAME => {
                let data = request.rest();
                match read_frame_in_place(data) {
                    Some(frame) => self.kernel().fold_frame(&frame, |_, _| Ok(()))?,
                    None => self.kernel().fold_frame(&read_frame(data)?, |_, _| Ok(()))?,
                }
            }
            APPEND => {
                let blobs = request.list(|request| {
                    let data: Rc<[u8]> = request.data().into();
                    (content_hash(&data), data)
                });
                let data = request.rest();
                let record = from_bytes(data)?;
                self.kernel().append_written(&record, data.to_vec(), blobs)?;
            }
            SEAL => {
                let allocated = self.host.memory;
                let kernel = self.kernel();
                if let Some(sealed) = kernel.seal(request.hash()) {
                    put_sealed(out, &sealed);
                    let new_pins = kernel.state.cells.take_new_pins();
                    put_list(out, new_pins, |out, hash| out.extend_from_slice(&hash));
                    put_tip(out, &kernel.state);
                    put_status(out, kernel);
                    put_u64(out, allocated().0 as u64);
                    put_figures(out, &kernel.state);
                }
            }
            TAKE => {
                let sink = self.host.sink.clone();
                let mut failure = None;
                let mut put = |data: Vec<u8>| {
                    // A snapshot that lacks one of its blobs needs no more of them.
                    if failure.is_none() {
                        failure = sink.put(&data).err();
                    }
                    content_hash(&data)
                };
                let format = request.u64();
                let layers = take(&self.kernel().state, &mut put, format)?;
                if let Some(failure) = failure {
                    return Err(failure);
                }
                put_u64(out, layers.at);
                out.extend_from_slice(&layers.frame);
                out.extend_from_slice(&layers.document);
                self.taken = Some(layers);
            }
            REBASE => {
                let document = request.hash();
                let layers = match self.taken.take().filter(|taken| taken.document == document) {
                    Some(taken) => taken,
                    None => layers(&document, &self.host.blobs)?,
                };
                rebase(&mut self.kernel().state, &layers)?;
            }
            KEEP_LEAVES => {
                let bytes = usize::try_from(request.u64()).unwrap_or(usize::MAX);
                keep_leaves(bytes);
                if bytes == 0 {
                    self.kernel().state.cells.forget_leaves();
                }
            }
            EXPORT => put_export(out, &self.kernel().state)?,
            HEAD => out.extend_from_slice(&Head::of(&self.kernel().state.tip).to_bytes()),
            MEMORY => {
                let (live, whole) = (self.host.memory)();
                put_u64(out, live as u64);
                put_u64(out, whole as u64);
            }
            KEEP => {
                let cells = &mut self.kernel().state.cells;
                cells.resting_max = usize::try_from(request.u64()).unwrap_or(usize::MAX);
                cells.spilling().is_on = request.u32() == 1;
            }
            DECIDE => {
                let stamp = deciding::stamp(&mut request);
                let input = deciding::input(&mut request);
                let kernel = self.kernel();
                let decision = kernel.decide(&input, stamp)?;
                deciding::put_decision(out, decision, kernel);
            }
            NEXT => {
                let steps = request.u32() == 1;
                let kernel = self.kernel();
                let decision = kernel.next(steps)?;
                deciding::put_decision(out, decision, kernel);
            }
            RAN => {
                let ran = deciding::ran(&mut request);
                let kernel = self.kernel();
                let decision = kernel.ran(ran)?;
                deciding::put_decision(out, decision, kernel);
            }
            KEPT => {
                let kernel = self.kernel();
                let decision = kernel.kept()?;
                deciding::put_decision(out, decision, kernel);
            }
            ENTER => {
                let kernel = self.kernel();
                kernel.enter()?;
                put_status(out, kernel);
            }
            ADMIT => self.admit(&mut request, out)?,
            END_STEP => {
                let ran = deciding::ran(&mut request);
                let kernel = self.kernel();
                let decision = kernel.ran(ran)?;
                assert!(matches!(decision, Decision::Decided), "a step ends with a record");
                let decided = kernel.decided().expect("a record was decided");
                deciding::put_failed_step(out, &decided.record);
                self.enter_decided()?;
                let kernel = self.kernel();
                put_status(out, kernel);
                put_next(out, kernel);
            }
            REDECIDE => self.redecide(&mut request, out)?,
            _ => {
                let is_known = reading::answer(operation, &mut request, self.kernel(), out)?;
                assert!(is_known, "operation {operation} is unknown");
            }
        }
        Ok(())
    }

    fn manifest_of(&self, request: &mut Request) -> ManifestOf {
        match request.u32() {
            0 => trusting(),
            _ => judging(self.host.judge.clone()),
        }
    }

    fn open(&mut self, state: State, keeps: bool) {
        self.taken = None;
        let verify = Rc::new(Remembering::new(self.host.verify.clone()));
        let ports = Ports { verify, judge: self.host.judge.clone(), keeps };
        self.kernel = Some(Kernel::new(state, self.host.blobs.clone(), ports));
    }

    /// Admit inputs one after another, until the frame has reached a bound.
    fn admit(&mut self, request: &mut Request, out: &mut Vec<u8>) -> Outcome<()> {
        let (bytes_max, blob_bytes_max) = (request.u64(), request.u64());
        let place = out.len();
        put_u32(out, 0);
        let mut answers = 0u32;
        for _ in 0..request.u32() {
            let stamp = deciding::stamp(request);
            let input = deciding::input(request);
            let kernel = self.kernel();
            match kernel.decide(&input, stamp)? {
                Decision::Decided => {
                    let decided = kernel.decided().expect("a record was decided");
                    deciding::put_admission(out, &decided.record);
                    self.enter_decided()?;
                }
                Decision::Keep(_) => panic!("a migration is not admitted at once"),
                decision => deciding::put_decision(out, decision, kernel),
            }
            answers += 1;
            let kernel = self.kernel();
            let (bytes, blob_bytes) = (kernel.pending_bytes(), kernel.pending_blob_bytes());
            if bytes as u64 >= bytes_max || blob_bytes as u64 >= blob_bytes_max {
                break;
            }
        }
        out[place..place + 4].copy_from_slice(&answers.to_le_bytes());
        put_status(out, self.kernel());
        Ok(())
    }

    /// Enter the record that `ADMIT`, `END_STEP` or `REDECIDE` decided. The world is not half changed after it.
    pub(crate) fn enter_decided(&mut self) -> Outcome<()> {
        self.is_changing = true;
        self.kernel().enter()?;
        self.is_changing = false;
        Ok(())
    }

    pub(crate) fn kernel(&mut self) -> &mut Kernel {
        self.kernel.as_mut().expect("the world is open")
    }
}

/// Option of the answer to `NEXT` with steps; none if that fails.
fn put_next(out: &mut Vec<u8>, kernel: &mut Kernel) {
    match kernel.next(true) {
        Ok(decision) => {
            put_u32(out, 1);
            deciding::put_decision(out, decision, kernel);
        }
        Err(_) => put_u32(out, 0),
    }
}

/// A frame: its hash, world, first record (`u64`), previous hash, root, log root, salt, its bytes
/// (`data`), and `list` of where its records begin and end in these bytes (`u32` each).
fn put_frame(out: &mut Vec<u8>, frame: &Frame) {
    let header = &frame.header;
    out.extend_from_slice(&frame.hash);
    out.extend_from_slice(&header.world);
    put_u64(out, header.first);
    for hash in [&header.prev, &header.root, &header.log_root, &frame.salt] {
        out.extend_from_slice(hash);
    }
    let (data, places) = frame.to_bytes_with_places();
    put_data(out, &data);
    put_list(out, places, |out, place| {
        put_u32(out, place.start as u32);
        put_u32(out, place.end as u32);
    });
}

/// Write a `Sealed`: its frame, blobs and rows, each as a list in the order of the reference.
fn put_sealed(out: &mut Vec<u8>, sealed: &Sealed) {
    put_frame(out, &sealed.frame);
    put_list(out, sealed.blobs.iter(), |out, (hash, data)| {
        out.extend_from_slice(hash);
        put_data(out, data);
    });
    let rows = &sealed.rows;
    put_list(out, rows.replaced.iter(), |out, (new, old)| {
        out.extend_from_slice(new);
        out.extend_from_slice(old);
    });
    put_list(out, &rows.opened_intents, |out, intent| put_intent(out, intent));
    put_list(out, &rows.settled, |out, settled| {
        out.extend_from_slice(&settled.intent);
        put_u64(out, settled.seq);
        out.extend_from_slice(&settled.receipt);
    });
    for hashes in [&rows.abandoned, &rows.canceled, &rows.erased] {
        put_list(out, hashes, |out, hash| out.extend_from_slice(hash));
    }
    put_list(out, &rows.submissions, |out, submitted| {
        put_data(out, submitted.submission_id.as_bytes());
        put_u64(out, submitted.seq);
        out.extend_from_slice(&submitted.payload);
    });
    put_list(out, &rows.snapshots, |out, mark| {
        put_u64(out, mark.seq);
        put_u64(out, mark.at);
        out.extend_from_slice(&mark.document);
    });
}

pub(crate) fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_data(out: &mut Vec<u8>, data: &[u8]) {
    put_u32(out, data.len() as u32);
    out.extend_from_slice(data);
}

/// Write a list whose length is only known after its items.
pub(crate) fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    put: impl Fn(&mut Vec<u8>, T),
) {
    let place = out.len();
    put_u32(out, 0);
    let mut count = 0u32;
    for item in items {
        put(out, item);
        count += 1;
    }
    out[place..place + 4].copy_from_slice(&count.to_le_bytes());
}

/// The bytes of a request that were not read yet.
pub(crate) struct Request<'a>(&'a [u8]);

impl<'a> Request<'a> {
    pub(crate) fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size);
        self.0 = rest;
        taken
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    pub(crate) fn hash(&mut self) -> Hash {
        self.take(32).try_into().expect("32 bytes")
    }

    pub(crate) fn data(&mut self) -> &'a [u8] {
        let size = self.u32();
        self.take(size as usize)
    }

    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.u32()).map(|_| item(self)).collect()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
