//! The core as one object: it turns inputs and the ring into frames (spec/kernel.md, K-1 to K-6;
//! `kernel/aos/core/kernel.py`).
//!
//! The core never runs a module. A decision that needs one ends with a `Call`; the host runs it and
//! hands the result to `ran`, which continues the decision. Nothing else may change the state
//! meanwhile.

use std::rc::Rc;

use crate::decide::admit::{
    admit_event, admit_manifest, admit_snapshot, admit_start, Applied, ApplyPorts, Applying,
    MigratingApply,
};
use crate::decide::answers::{Decided, Refusal, Stop};
use crate::decide::control::admit_control;
use crate::decide::governed::admit_governance;
use crate::decide::migration::Progress;
use crate::decide::owed::decide_owed;
use crate::decide::settle::{admit_attempt, admit_receipt, admit_stream};
use crate::decide::step::{finish, start, Run, Started};
use crate::journal::frame::{Frame, Salt};
use crate::journal::inputs::{Input, ManifestInput};
use crate::journal::ports::{BlobReader, Blobs, Call, Judge, Ran, Verify};
use crate::journal::record_codec::to_bytes;
use crate::journal::records::{Record, Stamp};
use crate::pending::{Pending, Sealed};
use crate::state::fold::{fold, folding};
use crate::state::open_intents::Opened;
use crate::state::state::State;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// The functions of the host, besides blobs, that a kernel needs to decide.
#[derive(Clone)]
pub struct Ports {
    pub verify: Rc<dyn Verify>,
    pub judge: Rc<dyn Judge>,
    /// Whether the host makes the blobs of a migration durable in transactions of their own.
    pub keeps: bool,
}

/// The continuation of a decision.
pub enum Decision {
    /// A record waits for `enter`.
    Decided,
    Duplicate {
        seq: u64,
    },
    Refusal(Refusal),
    /// The host runs the call and hands the result to `ran`.
    Call(Call),
    /// The host makes the blobs durable and calls `kept`.
    Keep(Vec<(Hash, Rc<[u8]>)>),
    /// Nothing is due.
    Idle,
}

/// A decision whose module runs.
enum Underway {
    Step(Run),
    Apply(Box<MigratingApply>),
}

/// Owns the state of one world, and changes it record by record. After Damage or a failure of the
/// host in a fold the state may be half changed and must not be used any more; a decision that fails
/// has changed nothing.
pub struct Kernel {
    pub state: State,
    /// Finds the blobs of the frame that is being filled, and the host's: every blob of every frame
    /// that this kernel sealed or folded, durable or not.
    read: BlobReader,
    ports: Ports,
    pending: Pending,
    underway: Option<Underway>,
    decided: Option<Decided>,
    /// The open intents that a host lists, in their order, since it asked for the first page.
    pub listed: Vec<Opened>,
}

impl Kernel {
    pub fn new(mut state: State, host: BlobReader, ports: Ports) -> Kernel {
        let pending = Pending::default();
        let read = pending.reader(host);
        state.cells.read_with(read.clone());
        state.submissions.borrow_mut().read_with(read.clone());
        Kernel { state, read, ports, pending, underway: None, decided: None, listed: Vec::new() }
    }

    /// Records since the last seal.
    pub fn pending_records(&self) -> usize {
        self.pending.records.len()
    }

    /// Bytes of the records since the last seal.
    pub fn pending_bytes(&self) -> usize {
        self.pending.size
    }

    /// Bytes of the blobs that came with these records.
    pub fn pending_blob_bytes(&self) -> usize {
        self.pending.blob_bytes
    }

    /// A blob of the frame that is being filled.
    pub fn pending_blob(&self, hash: &Hash) -> Option<Rc<[u8]>> {
        self.pending.blob(hash)
    }

    /// The reader of pending and durable blobs.
    pub fn reader(&self) -> &dyn Blobs {
        &*self.read
    }

    // Deciding

    /// Decide an input. Nothing changes, so the host may still refuse what these rules admit. Damage
    /// if a blob that the decision needs is missing or altered.
    pub fn decide(&mut self, input: &Input, stamp: Stamp) -> Outcome<Decision> {
        self.forget_decision();
        let (state, read, ports) = (&self.state, &self.read, &self.ports);
        let verify = &*ports.verify;
        let decided = match input {
            Input::Genesis(_) => panic!("a world has one genesis, which makes it"),
            Input::Manifest(input) => return self.decide_manifest(input, stamp),
            Input::Start(input) => Ok(admit_start(state, input, stamp)),
            Input::Snapshot(input) => admit_snapshot(state, input, stamp),
            Input::Event(input) => admit_event(state, input, stamp, &**read),
            Input::Receipt(input) => admit_receipt(state, input, stamp, &**read, verify),
            Input::Stream(input) => admit_stream(state, input, stamp, verify),
            Input::Attempt(input) => admit_attempt(state, input, stamp),
            Input::Control(input) => admit_control(state, input, stamp, read, verify),
            Input::Governance(input) => {
                admit_governance(state, input, stamp, &**read, verify, &*ports.judge)
            }
        };
        self.conclude(decided)
    }

    fn decide_manifest(&mut self, input: &Rc<ManifestInput>, stamp: Stamp) -> Outcome<Decision> {
        let ports = ApplyPorts {
            read: &self.read,
            verify: &*self.ports.verify,
            judge: &*self.ports.judge,
            keeps: self.ports.keeps,
        };
        match admit_manifest(&self.state, input, stamp, &ports) {
            Ok(Applying::Migrates(apply)) => self.migrate(apply),
            Ok(Applying::Decided(decided)) => self.conclude(Ok(decided)),
            Err(stop) => self.conclude(Err(stop)),
        }
    }

    fn migrate(&mut self, mut apply: Box<MigratingApply>) -> Outcome<Decision> {
        match apply.next(&self.state, &*self.read) {
            Ok(Applied::Runs(Progress::Call(call))) => {
                self.underway = Some(Underway::Apply(apply));
                Ok(Decision::Call(call))
            }
            Ok(Applied::Runs(Progress::Keep(blobs))) => {
                self.underway = Some(Underway::Apply(apply));
                Ok(Decision::Keep(blobs))
            }
            Ok(Applied::Runs(_)) => unreachable!("a migration that is over was concluded"),
            Ok(Applied::Decided(decided)) => self.conclude(Ok(decided)),
            Err(stop) => self.conclude(Err(stop)),
        }
    }

    fn conclude(&mut self, decided: Result<Decided, Stop>) -> Outcome<Decision> {
        match decided {
            Ok(decided) => {
                self.decided = Some(decided);
                Ok(Decision::Decided)
            }
            Err(Stop::Duplicate { seq }) => Ok(Decision::Duplicate { seq }),
            Err(Stop::Refusal(refusal)) => Ok(Decision::Refusal(refusal)),
            Err(Stop::Failure(failure)) => Err(failure),
        }
    }

    /// Decide the first receipt that the core owes, or else, with `steps`, begin to run the ring's
    /// head. Damage if a blob that the step needs is missing or altered.
    pub fn next(&mut self, steps: bool) -> Outcome<Decision> {
        self.forget_decision();
        if !self.state.owed.is_empty() {
            let decided = decide_owed(&self.state, &*self.read)?;
            return self.conclude(Ok(decided));
        }
        if !steps || self.state.ring.is_empty() {
            return Ok(Decision::Idle);
        }
        match start(&self.state, &*self.read)? {
            Started::Faulted(decided) => self.conclude(Ok(decided)),
            Started::Runs(run, call) => {
                self.underway = Some(Underway::Step(run));
                Ok(Decision::Call(call))
            }
        }
    }

    /// Continue the decision whose call the host has run.
    pub fn ran(&mut self, ran: Ran) -> Outcome<Decision> {
        match self.underway.take().expect("a call is underway") {
            Underway::Step(run) => {
                let decided = finish(&self.state, run, ran, &*self.read)?;
                self.conclude(Ok(decided))
            }
            Underway::Apply(mut apply) => {
                apply.ran(&self.state, ran)?;
                self.migrate(apply)
            }
        }
    }

    /// Continue the decision whose blobs the host has made durable.
    pub fn kept(&mut self) -> Outcome<Decision> {
        match self.underway.take() {
            Some(Underway::Apply(apply)) => self.migrate(apply),
            _ => panic!("no migration is underway"),
        }
    }

    /// The record that was decided, until it is entered or forgotten.
    pub fn decided(&self) -> Option<&Decided> {
        self.decided.as_ref()
    }

    /// Fold the record that was decided.
    pub fn enter(&mut self) -> Outcome<()> {
        let decided = self.decided.take().expect("a record was decided");
        self.append(&decided.record, decided.blobs.into_iter().collect())
    }

    fn forget_decision(&mut self) {
        self.underway = None;
        self.decided = None;
    }

    // Folding

    /// Fold a decided record and add it to the frame that is being filled. Replay calls this for the
    /// records that it does not decide again.
    pub fn append(&mut self, record: &Record, blobs: Vec<(Hash, Rc<[u8]>)>) -> Outcome<()> {
        self.append_written(record, to_bytes(record), blobs)
    }

    /// As `append`, of a record whose canonical bytes are `data`.
    pub fn append_written(
        &mut self,
        record: &Record,
        data: Vec<u8>,
        blobs: Vec<(Hash, Rc<[u8]>)>,
    ) -> Outcome<()> {
        self.forget_decision();
        if !blobs.is_empty() {
            let repeated = repeated_bytes(&blobs);
            self.pending.keep(blobs);
            self.pending.blob_bytes -= repeated;
            self.pending.replace(record, &self.state);
        }
        fold(&mut self.state, record, &self.read)?;
        self.pending.add(record, data, &self.state)
    }

    /// Check that a stored frame follows, and fold all its records. Each is given to `take` when it
    /// is folded.
    pub fn fold_frame<R: AsRef<[u8]>>(
        &mut self,
        frame: &Frame<R>,
        take: impl FnMut(&mut State, Record) -> Outcome<()>,
    ) -> Outcome<()> {
        assert!(self.pending.records.is_empty(), "a frame is being filled");
        folding(&mut self.state, frame, &self.read, take)
    }

    /// Make one frame of all records since the last seal; None when there are none.
    pub fn seal(&mut self, salt: Salt) -> Option<Sealed> {
        if self.pending.records.is_empty() {
            return None;
        }
        self.pending.keep(self.state.cells.spill());
        let sealed = self.pending.seal(&self.state.tip, salt);
        self.state.tip = sealed.tip.clone();
        Some(sealed)
    }
}

/// Bytes of blobs that come again with one record. They count once: the reference has the blobs of a
/// record in a map.
fn repeated_bytes(blobs: &[(Hash, Rc<[u8]>)]) -> usize {
    if blobs.len() < 2 {
        return 0;
    }
    let mut sizes: Vec<(&Hash, usize)> =
        blobs.iter().map(|(hash, data)| (hash, data.len())).collect();
    sizes.sort_unstable();
    sizes.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).sum()
}
