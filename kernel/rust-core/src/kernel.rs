//! The core as one object: it folds records and seals frames (spec/kernel.md, K-1 to K-6;
//! `kernel/aos/core/kernel.py`).

use std::rc::Rc;

use crate::journal::frame::{Frame, Salt};
use crate::journal::ports::BlobReader;
use crate::journal::record_codec::to_bytes;
use crate::journal::records::Record;
use crate::pending::{Pending, Sealed};
use crate::state::fold::{fold, folding};
use crate::state::state::State;
use crate::values::digests::Hash;
use crate::values::errors::Outcome;

/// Owns the state of one world, and changes it record by record. After Damage or a failure of the
/// host the state may be half changed and must not be used any more.
pub struct Kernel {
    pub state: State,
    /// Finds the blobs of the frame that is being filled, and the host's: every blob of every frame
    /// that this kernel sealed or folded, durable or not.
    read: BlobReader,
    pending: Pending,
}

impl Kernel {
    pub fn new(mut state: State, host: BlobReader) -> Kernel {
        let pending = Pending::default();
        let read = pending.reader(host);
        state.cells.read_with(read.clone());
        state.submissions.borrow_mut().read_with(read.clone());
        Kernel { state, read, pending }
    }

    /// Records since the last seal.
    pub fn pending_records(&self) -> usize {
        self.pending.records.len()
    }

    /// Bytes of the records since the last seal.
    pub fn pending_bytes(&self) -> usize {
        self.pending.size
    }

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
        if !blobs.is_empty() {
            self.pending.keep(blobs);
            self.pending.replace(record, &self.state);
        }
        fold(&mut self.state, record, &self.read)?;
        self.pending.add(record, data, &self.state)
    }

    /// Check that a stored frame follows, and fold all its records. Each is given to `take` when it
    /// is folded.
    pub fn fold_frame(
        &mut self,
        frame: &Frame,
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
