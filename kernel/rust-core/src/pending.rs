//! Collect what the records since the last seal changed, and seal it as one frame (K-6;
//! `kernel/aos/core/pending.py`).

use std::cell::RefCell;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::frame::{seal, Frame, Salt, Tip};
use crate::journal::ports::{BlobReader, Blobs};
use crate::journal::records::{Record, Slot};
use crate::journal::vocabulary::ControlAction;
use crate::manifest::builtins::is_kernel_effect;
use crate::state::cell::OpenIntent;
use crate::state::state::{Mark, State};
use crate::values::cbor::put_bytes;
use crate::values::digests::{digest, Hash};
use crate::values::errors::Outcome;

/// Blobs in the order in which they were kept.
pub type KeptBlobs = OrderedMap<Hash, Rc<[u8]>>;

/// An intent that ended, the record of its receipt, and the digest that identifies the receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub intent: Hash,
    pub seq: u64,
    pub receipt: Hash,
}

/// A submission id, the record of its event, and the event's payload hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub submission_id: Rc<str>,
    pub seq: u64,
    pub payload: Hash,
}

/// The changes of a frame's records outside of it. `Sealed` of the reference explains each list.
#[derive(Default)]
pub struct Rows {
    pub replaced: OrderedMap<Hash, Hash>,
    pub opened_intents: Vec<Rc<OpenIntent>>,
    pub settled: Vec<Settled>,
    pub abandoned: Vec<Hash>,
    pub canceled: Vec<Hash>,
    pub erased: Vec<Hash>,
    pub submissions: Vec<Submitted>,
    pub snapshots: Vec<Mark>,
}

/// One frame and everything that its records changed outside of it.
///
/// The host makes it durable in one transaction: first it erases the bytes of `erased`, then it
/// writes the frame, the blobs and the rows. It publishes nothing of it before.
pub struct Sealed {
    pub frame: Frame,
    /// The end of the chain with this frame.
    pub tip: Tip,
    /// Values that the records name and do not hold, and the cell states that left memory.
    pub blobs: KeptBlobs,
    pub rows: Rows,
}

/// Identify a receipt: two receipts for one intent are the same if signature and key are. A receipt
/// of the core has neither.
pub fn receipt_digest(intent: &Hash, key_id: &[u8], signature: &[u8]) -> Hash {
    digest("aos/receipt-id/1", 3, |out| {
        put_bytes(out, intent);
        put_bytes(out, key_id);
        put_bytes(out, signature);
    })
}

/// The records since the last seal and what they changed, while the frame is being filled.
///
/// The order for one record is: `keep` its blobs, `replace` the state before it, fold it (folding
/// may read the blobs), `add` it. A record that cannot be folded is therefore never added.
#[derive(Default)]
pub struct Pending {
    /// Canonical bytes, in the order of the journal.
    pub records: Vec<Vec<u8>>,
    /// Bytes of `records`: the host seals a frame before it becomes too long.
    pub size: usize,
    /// Bytes of the blobs that came with `records`, also of those that came twice.
    pub blob_bytes: usize,
    /// The kernel reads these before it asks the host, which does not have them yet.
    blobs: Rc<RefCell<KeptBlobs>>,
    rows: Rows,
}

impl Pending {
    /// A reader of the blobs of the frame that is being filled, or else of the host's.
    pub fn reader(&self, host: BlobReader) -> BlobReader {
        Rc::new(Layered { pending: self.blobs.clone(), host })
    }

    /// A blob that is stored with this frame.
    pub fn blob(&self, hash: &Hash) -> Option<Rc<[u8]>> {
        self.blobs.borrow().get(hash).cloned()
    }

    /// Store blobs with this frame. A value that was erased in it before stays, then.
    pub fn keep(&mut self, blobs: impl IntoIterator<Item = (Hash, Rc<[u8]>)>) {
        let mut kept = self.blobs.borrow_mut();
        for (hash, data) in blobs {
            self.blob_bytes += data.len();
            kept.insert(hash, data);
            self.rows.erased.retain(|erased| *erased != hash);
        }
    }

    /// Note which state the new one of a step replaces, if both are blobs. `state` is the world's
    /// before the record is folded.
    pub fn replace(&mut self, record: &Record, state: &State) {
        let Record::Step(step) = record else { return };
        let Some(Slot::Ref(new)) = &step.state else { return };
        let Some(cell) = state.cells.active.get(&step.cell) else { return };
        if let Some(Slot::Ref(old)) = &cell.borrow().state {
            if old != new {
                self.rows.replaced.insert(new.hash, old.hash);
            }
        }
    }

    /// Add a record; `data` are its canonical bytes, `state` the state after folding it.
    pub fn add(&mut self, record: &Record, data: Vec<u8>, state: &State) -> Outcome<()> {
        self.size += data.len();
        self.records.push(data);
        let rows = &mut self.rows;
        match record {
            Record::Step(step) => {
                let opened = step.intents.iter().map(|intent| {
                    state
                        .cells
                        .open_intent(&intent.intent)
                        .ok()
                        .flatten()
                        .expect("the step opened it")
                });
                rows.opened_intents.extend(opened);
                rows.abandoned.extend(&step.abandoned);
            }
            Record::Receipt(receipt) => {
                let identity = receipt_digest(&receipt.intent, &receipt.key_id, &receipt.signature);
                rows.settled.push(Settled {
                    intent: receipt.intent,
                    seq: receipt.seq,
                    receipt: identity,
                });
                rows.abandoned.extend(&receipt.abandoned);
            }
            Record::KernelReceipt(receipt) => {
                rows.settled.push(Settled {
                    intent: receipt.intent,
                    seq: receipt.seq,
                    receipt: receipt_digest(&receipt.intent, b"", b""),
                });
                rows.abandoned.extend(&receipt.abandoned);
                if !is_kernel_effect(&receipt.effect) {
                    rows.canceled.push(receipt.intent);
                }
            }
            Record::Control(control) => match (control.action, control.value) {
                (ControlAction::Erase, Some(value)) => {
                    self.blobs.borrow_mut().remove(&value);
                    rows.erased.push(value);
                }
                _ => rows.abandoned.extend(&control.abandoned),
            },
            Record::Fork(fork) => {
                assert!(self.records.len() == 1, "a fork is the first record of its frame");
                rows.erased.extend(&fork.erased);
            }
            Record::Snapshot(_) => {
                rows.snapshots.push(state.snapshot.expect("a snapshot was folded"));
            }
            Record::Event(event) => {
                if let Some(name) = &event.submission_id {
                    let known =
                        state.submissions.borrow_mut().get(name)?.expect("its event was folded");
                    rows.submissions.push(Submitted {
                        submission_id: name.clone(),
                        seq: event.seq,
                        payload: known.payload,
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Make the frame that follows `tip`, and begin the next one.
    pub fn seal(&mut self, tip: &Tip, salt: Salt) -> Sealed {
        let (frame, tip) = seal(tip, std::mem::take(&mut self.records), salt);
        self.size = 0;
        self.blob_bytes = 0;
        Sealed {
            frame,
            tip,
            blobs: std::mem::take(&mut self.blobs.borrow_mut()),
            rows: std::mem::take(&mut self.rows),
        }
    }
}

/// Reads the blobs of a frame that is being filled before those of the host.
struct Layered {
    pending: Rc<RefCell<KeptBlobs>>,
    host: BlobReader,
}

impl Blobs for Layered {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        let pending = self.pending.borrow().get(hash).cloned();
        pending.map_or_else(|| self.host.read(hash), |data| Ok(data.to_vec()))
    }
}
