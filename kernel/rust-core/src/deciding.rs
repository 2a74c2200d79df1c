//! The inputs of a core and the continuations of its decisions, as bytes; `operations` defines
//! `data` and `list`. An option is a list of one item or none.

use std::rc::Rc;

use crate::journal::faults::{Fault, FaultKind};
use crate::journal::governing::GovernanceInput;
use crate::journal::inputs::{
    AttemptInput, ControlInput, EventInput, Input, ManifestInput, ReceiptInput, SnapshotInput,
    StartInput, StreamInput,
};
use crate::journal::ports::{Call, Ran};
use crate::journal::record_codec::to_bytes;
use crate::journal::records::{Batch, CellId, Stamp};
use crate::journal::vocabulary::Word;
use crate::kernel::{Decision, Kernel};
use crate::operations::{put_data, put_list, put_u32, put_u64, Request};
use crate::values::digests::Hash;

const DECIDED: u32 = 0;
const DUPLICATE: u32 = 1;
const REFUSED: u32 = 2;
const CALL: u32 = 3;
const IDLE: u32 = 4;
const KEEP: u32 = 5;

const START: u32 = 1;
const MANIFEST: u32 = 2;
const EVENT: u32 = 3;
const RECEIPT: u32 = 4;
const STREAM: u32 = 5;
const ATTEMPT: u32 = 6;
const SNAPSHOT: u32 = 7;
const CONTROL: u32 = 8;
const GOVERNANCE: u32 = 9;

fn text(request: &mut Request) -> Rc<str> {
    std::str::from_utf8(request.data()).expect("text is UTF-8").into()
}

fn data(request: &mut Request) -> Rc<[u8]> {
    request.data().into()
}

fn nat(request: &mut Request) -> u64 {
    request.u64()
}

fn hash(request: &mut Request) -> Hash {
    request.hash()
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
            principal: text(request),
            serial: request.u64(),
            signature: data(request),
            mode: text(request),
            leaves: request.list(text),
            proposal: option(request, nat),
            checked: option(request, nat),
            is_recorded: request.u32() == 1,
        })),
        EVENT => Input::Event(EventInput {
            schema: text(request),
            value: data(request),
            submission_id: option(request, text),
        }),
        RECEIPT => Input::Receipt(ReceiptInput {
            intent: request.hash(),
            effect: text(request),
            attempt: request.u64(),
            status: text(request),
            payload: data(request),
            started_ns: request.u64(),
            finished_ns: request.u64(),
            executor: text(request),
            key_id: data(request),
            signature: data(request),
            cost_cents: option(request, nat),
            batch: option(request, |request| Batch {
                index: request.u64(),
                size: request.u64(),
                path: request.list(hash),
            }),
        }),
        STREAM => Input::Stream(StreamInput {
            intent: request.hash(),
            effect: text(request),
            attempt: request.u64(),
            frame_seq: request.u64(),
            frame_kind: text(request),
            payload: data(request),
            executor: text(request),
            key_id: data(request),
            signature: data(request),
            payload_ref: option(request, hash),
        }),
        ATTEMPT => Input::Attempt(AttemptInput {
            intent: request.hash(),
            attempt: request.u64(),
            phase: text(request),
            problem: option(request, text),
            code: option(request, text),
        }),
        SNAPSHOT => Input::Snapshot(SnapshotInput {
            at: request.u64(),
            frame: request.hash(),
            document: request.hash(),
            size: request.u64(),
        }),
        CONTROL => Input::Control(ControlInput {
            action: text(request),
            principal: text(request),
            serial: request.u64(),
            signature: data(request),
            cell: option(request, |request| CellId { workflow: text(request), key: data(request) }),
            intent: option(request, hash),
            value: option(request, hash),
            status: option(request, text),
            payload: option(request, data),
            why: option(request, text),
            restamp: request.u32() == 1,
        }),
        GOVERNANCE => Input::Governance(GovernanceInput {
            action: text(request),
            principal: text(request),
            signature: data(request),
            proposal: option(request, nat),
            serial: option(request, nat),
            base: option(request, hash),
            document: option(request, data),
            patch: option(request, data),
            mode: text(request),
            leaves: request.list(text),
            report: option(request, data),
            seen: option(request, hash),
            note: option(request, text),
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

/// Hash of the module, entrypoint, input, then fuel, bytes of memory and of output (`u64` each).
fn put_call(out: &mut Vec<u8>, call: &Call) {
    out.extend_from_slice(&call.module);
    put_data(out, call.entrypoint.as_bytes());
    put_data(out, &call.input);
    put_u64(out, call.fuel);
    put_u64(out, call.memory_bytes);
    put_u64(out, call.output_bytes);
}
