//! The inputs of a core and the continuations of its decisions, as bytes; `operations` defines
//! `data` and `list`. An option is a list of one item or none.

use std::rc::Rc;

use crate::journal::faults::{Fault, FaultKind};
use crate::journal::governing::GovernanceInput;
use crate::journal::input_fields::{InputHash, InputNat, InputText};
use crate::journal::inputs::{
    AttemptInput, ControlCell, ControlInput, EventInput, Input, InputBatch, ManifestInput,
    ReceiptInput, SnapshotInput, StartInput, StreamInput,
};
use crate::journal::ports::{Call, Ran};
use crate::journal::record_codec::to_bytes;
use crate::journal::records::{CellId, Record, Stamp};
use crate::journal::vocabulary::Word;
use crate::kernel::{Decision, Kernel};
use crate::operations::{put_data, put_list, put_u32, put_u64, Request};
use crate::reading::put_cell_id;
use crate::values::digests::Hash;

const DECIDED: u32 = 0;
const DUPLICATE: u32 = 1;
const REFUSED: u32 = 2;
const CALL: u32 = 3;
const IDLE: u32 = 4;
const ADMITTED: u32 = 5;
const KEEP: u32 = 6;

const START: u32 = 1;
const MANIFEST: u32 = 2;
const EVENT: u32 = 3;
const RECEIPT: u32 = 4;
const STREAM: u32 = 5;
const ATTEMPT: u32 = 6;
const SNAPSHOT: u32 = 7;
const CONTROL: u32 = 8;
const GOVERNANCE: u32 = 9;

/// A length before text that is not Unicode: then `data` of its code points follows, `u32` each.
const NOT_UNICODE: u32 = u32::MAX;

fn text(request: &mut Request) -> Rc<str> {
    std::str::from_utf8(request.data()).expect("text is UTF-8").into()
}

fn input_text(request: &mut Request) -> InputText {
    let size = request.u32();
    if size != NOT_UNICODE {
        let text = std::str::from_utf8(request.take(size as usize)).expect("text is UTF-8");
        return InputText::Unicode(text.into());
    }
    let points = request.data().chunks_exact(4);
    let point = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    InputText::Other(points.map(point).collect())
}

fn data(request: &mut Request) -> Rc<[u8]> {
    request.data().into()
}

/// 0 and a `u64`; or 1, the digits and the words of another number.
fn input_nat(request: &mut Request) -> InputNat {
    match request.u32() {
        0 => InputNat::Nat(request.u64()),
        _ => InputNat::Other { digits: text(request), words: text(request) },
    }
}

/// `data`, of any length.
fn input_hash(request: &mut Request) -> InputHash {
    let data = request.data();
    data.try_into().map_or_else(|_| InputHash::Other(data.into()), InputHash::Hash)
}

fn option<T>(request: &mut Request, read: impl FnMut(&mut Request) -> T) -> Option<T> {
    request.list(read).pop()
}

/// ns (`u64`) and 64 bytes of entropy.
pub(crate) fn stamp(request: &mut Request) -> Stamp {
    let ns = request.u64();
    Stamp { ns, entropy: request.take(64).try_into().expect("64 bytes") }
}

/// The kind (`u32`), and the fields of the input in the order of its struct.
pub(crate) fn input(request: &mut Request) -> Input {
    match request.u32() {
        START => Input::Start(StartInput {
            host: request.list(|request| (text(request), text(request))),
        }),
        MANIFEST => Input::Manifest(Rc::new(ManifestInput {
            document: data(request),
            principal: input_text(request),
            serial: input_nat(request),
            signature: data(request),
            mode: input_text(request),
            leaves: request.list(input_text),
            proposal: option(request, input_nat),
            checked: option(request, input_nat),
            is_recorded: request.u32() == 1,
        })),
        EVENT => Input::Event(EventInput {
            schema: input_text(request),
            value: data(request),
            submission_id: option(request, input_text),
        }),
        RECEIPT => Input::Receipt(ReceiptInput {
            intent: input_hash(request),
            effect: input_text(request),
            attempt: input_nat(request),
            status: input_text(request),
            payload: data(request),
            started_ns: input_nat(request),
            finished_ns: input_nat(request),
            executor: input_text(request),
            key_id: data(request),
            signature: data(request),
            cost_cents: option(request, input_nat),
            batch: option(request, |request| InputBatch {
                index: input_nat(request),
                size: input_nat(request),
                path: request.list(input_hash),
            }),
        }),
        STREAM => Input::Stream(StreamInput {
            intent: input_hash(request),
            effect: input_text(request),
            attempt: input_nat(request),
            frame_seq: input_nat(request),
            frame_kind: input_text(request),
            payload: data(request),
            executor: input_text(request),
            key_id: data(request),
            signature: data(request),
            payload_ref: option(request, input_hash),
        }),
        ATTEMPT => Input::Attempt(AttemptInput {
            intent: input_hash(request),
            attempt: input_nat(request),
            phase: input_text(request),
            problem: option(request, input_text),
            code: option(request, input_text),
        }),
        SNAPSHOT => Input::Snapshot(SnapshotInput {
            at: input_nat(request),
            frame: input_hash(request),
            document: input_hash(request),
            size: input_nat(request),
        }),
        CONTROL => Input::Control(ControlInput {
            action: input_text(request),
            principal: input_text(request),
            serial: input_nat(request),
            signature: data(request),
            cell: option(request, |request| ControlCell {
                workflow: input_text(request),
                key: data(request),
            }),
            intent: option(request, input_hash),
            value: option(request, input_hash),
            status: option(request, input_text),
            payload: option(request, data),
            why: option(request, input_text),
            restamp: request.u32() == 1,
        }),
        GOVERNANCE => Input::Governance(GovernanceInput {
            action: input_text(request),
            principal: input_text(request),
            signature: data(request),
            proposal: option(request, input_nat),
            serial: option(request, input_nat),
            base: option(request, input_hash),
            document: option(request, data),
            patch: option(request, data),
            mode: input_text(request),
            leaves: request.list(input_text),
            report: option(request, data),
            seen: option(request, input_hash),
            note: option(request, input_text),
        }),
        kind => panic!("input kind {kind} is unknown"),
    }
}

/// Output as an option of `data`, else the fault: kind, message, and detail as an option; then fuel
/// (`u64`) and pages (`u64`).
pub(crate) fn ran(request: &mut Request) -> Ran {
    let output = option(request, |request| request.data().to_vec());
    let result = output.ok_or_else(|| Fault {
        kind: FaultKind::of(&text(request)).expect("a kind of fault"),
        message: text(request),
        detail: option(request, data),
    });
    Ran { result, fuel: request.u64(), pages: request.u64() }
}

fn put_blobs(out: &mut Vec<u8>, blobs: impl IntoIterator<Item = (Hash, Rc<[u8]>)>) {
    put_list(out, blobs, |out, (hash, data)| {
        out.extend_from_slice(&hash);
        put_data(out, &data);
    });
}

/// The continuation of a decision (`u32`). DECIDED: the record's bytes as `data` and its blobs.
/// DUPLICATE: its record. REFUSED: rule, message, and the blockers: kind, workflow, key and detail.
/// CALL: what `put_call` writes. KEEP: blobs to make durable.
pub(crate) fn put_decision(out: &mut Vec<u8>, decision: Decision, kernel: &Kernel) {
    match decision {
        Decision::Decided => {
            let decided = kernel.decided().expect("a record was decided");
            put_u32(out, DECIDED);
            put_data(out, &to_bytes(&decided.record));
            put_blobs(out, decided.blobs.clone());
        }
        Decision::Duplicate { seq } => {
            put_u32(out, DUPLICATE);
            put_u64(out, seq);
        }
        Decision::Refusal(refusal) => {
            put_u32(out, REFUSED);
            put_data(out, refusal.rule.word().as_bytes());
            put_data(out, refusal.message.as_bytes());
            put_list(out, &refusal.blockers, |out, blocker| {
                put_data(out, blocker.kind.as_bytes());
                put_data(out, blocker.cell.workflow.as_bytes());
                put_data(out, &blocker.cell.key);
                put_data(out, blocker.detail.as_bytes());
            });
        }
        Decision::Call(call) => {
            put_u32(out, CALL);
            put_call(out, &call);
        }
        Decision::Keep(blobs) => {
            put_u32(out, KEEP);
            put_blobs(out, blobs);
        }
        Decision::Idle => put_u32(out, IDLE),
    }
}

/// The answer to the sender of an input that `record` admits (`admission` of
/// `kernel/aos/core/decide/answers.py`): its sequence, `list` of the cells that it reached, option of
/// a receipt's outcome, dropped mail and abandoned intents of a command (`u64` each).
pub(crate) fn put_admission(out: &mut Vec<u8>, record: &Record) {
    put_u32(out, ADMITTED);
    put_u64(out, record.seq());
    let to: &[CellId] = match record {
        Record::Event(event) => &event.to,
        _ => &[],
    };
    put_list(out, to, put_cell_id);
    let outcome = match record {
        Record::Receipt(receipt) => Some(receipt.outcome),
        _ => None,
    };
    put_list(out, outcome, |out, outcome| put_data(out, outcome.word().as_bytes()));
    let (dropped, abandoned) = match record {
        Record::Control(control) => (control.dropped.unwrap_or(0), control.abandoned.len()),
        _ => (0, 0),
    };
    put_u64(out, dropped);
    put_u64(out, abandoned as u64);
}

/// Option of a step's record, if the step failed its instance.
pub(crate) fn put_failed_step(out: &mut Vec<u8>, record: &Record) {
    let failed = matches!(record, Record::Faulted(_)).then(|| to_bytes(record));
    put_list(out, failed, |out, data| put_data(out, &data));
}

/// Hash of the module, entrypoint, input, then fuel, bytes of memory and of output (`u64` each).
fn put_call(out: &mut Vec<u8>, call: &Call) {
    out.extend_from_slice(&call.module);
    put_data(out, call.entrypoint.as_bytes());
    put_data(out, &call.input);
    put_u64(out, call.fuel);
    put_u64(out, call.memory_bytes);
    put_u64(out, call.output_bytes);
}
