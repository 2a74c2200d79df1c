//! Decide recorded records again by one call, and enter each that comes out as it was recorded
//! (spec/core.md, CR-5a; the reference's way is `kernel/aos/prove/replay/replay.py`).
//!
//! Events, receipts, receipts of the core, steps and faults are decided here. Before any other
//! record, and before one that comes out different or cannot be decided, this stops and has changed
//! nothing: the host decides that one by the other operations, and reports it in its words.

use std::collections::VecDeque;

use crate::deciding;
use crate::journal::faults::FaultKind;
use crate::journal::input_fields::{InputHash, InputNat, InputText};
use crate::journal::inputs::{EventInput, Input, InputBatch, ReceiptInput};
use crate::journal::ports::Blobs;
use crate::journal::record_codec::{from_bytes, to_bytes};
use crate::journal::records::{Batch, CellId, EntryId, Event, Receipt, Record};
use crate::journal::vocabulary::Word;
use crate::kernel::{Decision, Kernel};
use crate::operations::{put_u64, Core, Request};
use crate::values::errors::Outcome;

/// The records of the last request that were not entered yet, the first of them decoded.
#[derive(Default)]
pub(crate) struct Recorded {
    rest: VecDeque<Vec<u8>>,
    first: Option<Record>,
}

/// How many records of one call were entered, of which kinds, and what their steps did.
#[derive(Default)]
struct Counts {
    records: u64,
    events: u64,
    receipts: u64,
    kernel_receipts: u64,
    steps: u64,
    faults: u64,
    intents: u64,
    emitted: u64,
    fuel: u64,
}

impl Counts {
    fn add(&mut self, record: &Record) {
        self.records += 1;
        match record {
            Record::Event(_) => self.events += 1,
            Record::Receipt(_) => self.receipts += 1,
            Record::KernelReceipt(_) => self.kernel_receipts += 1,
            Record::Step(step) => {
                self.steps += 1;
                self.intents += step.intents.len() as u64;
                self.emitted += step.events.len() as u64;
                self.fuel += step.fuel;
            }
            Record::Faulted(faulted) => {
                self.steps += 1;
                self.faults += 1;
                self.fuel += faulted.fuel;
            }
            _ => {}
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        for count in [
            self.records,
            self.events,
            self.receipts,
            self.kernel_receipts,
            self.steps,
            self.faults,
            self.intents,
            self.emitted,
            self.fuel,
        ] {
            put_u64(out, count);
        }
    }
}

impl Core {
    /// `REDECIDE`: decide until a step needs its call, or until this stops.
    pub(crate) fn redecide(&mut self, request: &mut Request, out: &mut Vec<u8>) -> Outcome<()> {
        let mut ran = request.list(deciding::ran).pop();
        if ran.is_none() {
            let rest = request.list(|request| request.data().to_vec()).into();
            self.recorded = Recorded { rest, first: None };
        }
        let mut counts = Counts::default();
        let mut next = Decision::Idle;
        while let Some(data) = self.recorded.rest.front() {
            let kernel = self.kernel.as_mut().expect("the world is open");
            let record = match self.recorded.first.take().map_or_else(|| from_bytes(data), Ok) {
                Ok(record) => record,
                Err(_) => break,
            };
            let decision = match ran.take() {
                Some(ran) => kernel.ran(ran),
                None => begin(kernel, &record),
            };
            match decision {
                Ok(Decision::Decided) if is_decided(kernel, data) => {}
                Ok(call @ Decision::Call(_)) => {
                    self.recorded.first = Some(record);
                    next = call;
                    break;
                }
                _ => break,
            }
            self.enter_decided()?;
            counts.add(&record);
            self.recorded.rest.pop_front();
        }
        counts.put(out);
        deciding::put_decision(out, next, self.kernel());
        Ok(())
    }
}

/// Begin to decide the input or step of `record` again; `Idle` leaves it to the host.
fn begin(kernel: &mut Kernel, record: &Record) -> Outcome<Decision> {
    match record {
        Record::Event(event) => {
            let input = event_input(event, kernel.reader())?;
            kernel.decide(&Input::Event(input), event.stamp)
        }
        Record::Receipt(receipt) => {
            let input = receipt_input(receipt, kernel.reader())?;
            kernel.decide(&Input::Receipt(input), receipt.stamp)
        }
        Record::KernelReceipt(_) => kernel.next(false),
        Record::Step(step) if runs_next(kernel, &step.cell, step.entry)? => kernel.next(true),
        Record::Faulted(faulted)
            if !is_environmental(faulted.fault.kind)
                && runs_next(kernel, &faulted.cell, faulted.entry)? =>
        {
            kernel.next(true)
        }
        _ => Ok(Decision::Idle),
    }
}

/// Whether the decision is the recorded one, byte for byte.
fn is_decided(kernel: &Kernel, data: &[u8]) -> bool {
    kernel.decided().is_some_and(|decided| to_bytes(&decided.record) == data)
}

/// Whether this entry of the cell is the one that runs next. Nothing runs in its place.
fn runs_next(kernel: &Kernel, cell: &CellId, entry: EntryId) -> Outcome<bool> {
    let state = &kernel.state;
    if !state.owed.is_empty() || state.ring.front() != Some(cell) {
        return Ok(false);
    }
    let cell = state.cells.get(cell)?.expect("a cell of the ring is in memory");
    let first = cell.borrow().mailbox.front().map(|mail| mail.entry);
    Ok(first == Some(entry))
}

/// Whether a fault need not happen on this machine (`ENVIRONMENTAL` of `core/journal/faults.py`).
fn is_environmental(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Stack | FaultKind::HostMemory | FaultKind::Watchdog)
}

fn event_input(event: &Event, blobs: &dyn Blobs) -> Outcome<EventInput> {
    Ok(EventInput {
        schema: InputText::Unicode(event.schema.clone()),
        value: event.value.bytes(blobs)?,
        submission_id: event.submission_id.clone().map(InputText::Unicode),
    })
}

fn receipt_input(receipt: &Receipt, blobs: &dyn Blobs) -> Outcome<ReceiptInput> {
    Ok(ReceiptInput {
        intent: InputHash::Hash(receipt.intent),
        effect: InputText::Unicode(receipt.effect.clone()),
        attempt: InputNat::Nat(receipt.attempt),
        status: InputText::Unicode(receipt.status.word().into()),
        payload: receipt.payload.bytes(blobs)?,
        started_ns: InputNat::Nat(receipt.started_ns),
        finished_ns: InputNat::Nat(receipt.finished_ns),
        executor: InputText::Unicode(receipt.executor.clone()),
        key_id: receipt.key_id.clone(),
        signature: receipt.signature.clone(),
        cost_cents: receipt.cost_cents.map(InputNat::Nat),
        batch: receipt.batch.as_ref().map(input_batch),
    })
}

fn input_batch(batch: &Batch) -> InputBatch {
    InputBatch {
        index: InputNat::Nat(batch.index),
        size: InputNat::Nat(batch.size),
        path: batch.path.iter().copied().map(InputHash::Hash).collect(),
    }
}
