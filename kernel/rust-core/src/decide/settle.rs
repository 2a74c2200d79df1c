//! Decide the inputs of executors: the record that admits one, or the rule that it breaks
//! (`kernel/aos/core/decide/settle.py`).
//!
//! A receipt settles an open intent (spec/kernel.md, K-51 to K-56), a stream frame reports its
//! progress (K-90 to K-94), an attempt records that it runs again, or does not run now (K-95 to
//! K-99). Nothing here changes the state, and the first broken rule is the answer.

use std::rc::Rc;

use crate::decide::answers::{refusal, Decided, NewBlobs, Refusal, Rule, Stop};
use crate::decide::envelope::words;
use crate::journal::faults::clipped;
use crate::journal::input_fields::{option, InputHash, InputNat, InputText};
use crate::journal::inputs::{AttemptInput, ReceiptInput, StreamInput, CODE_BYTES_MAX};
use crate::journal::ports::{Blobs, Verify};
use crate::journal::records::{Attempt, Receipt, Record, Stamp, Stream};
use crate::journal::signing::may_sign;
use crate::journal::statements::{
    signed_receipt_message, stream_message, Signer, Statement, StreamStatement,
};
use crate::journal::vocabulary::{AttemptPhase, HaltPhase, ReceiptOutcome, ReceiptStatus, Word};
use crate::manifest::builtins::{is_kernel_effect, REJECTED, STREAM, TIMER};
use crate::manifest::effective::Delivery;
use crate::state::cell::OpenIntent;
use crate::state::continuation::{read_payload, settled_arm, takes};
use crate::state::state::State;
use crate::state::version::workflow_of;
use crate::values::cbor::Value;
use crate::values::digests::{content_hash, hex, Hash};
use crate::values::errors::{Failure, Outcome};

/// Highest time in ns.
pub const TIME_MAX: u64 = (1 << 63) - 1;
const ATTEMPT_MAX: u64 = (1 << 32) - 1;
const FRAME_SEQ_MAX: u64 = (1 << 63) - 1;
const FRAME_KIND_BYTES_MAX: usize = 128;
const SECOND_NS: u64 = 1_000_000_000;

/// Settle an open intent. A receipt that is itself invalid changes nothing.
pub fn admit_receipt(
    state: &State,
    receipt: &ReceiptInput,
    stamp: Stamp,
    blobs: &dyn Blobs,
    verify: &dyn Verify,
) -> Result<Decided, Stop> {
    let hash = receipt.intent.hash();
    let abandoned_intent = hash.and_then(|hash| state.abandoned.get(&hash));
    let open_intent = match (abandoned_intent, hash) {
        (Some(intent), _) => Some(intent.clone()),
        (None, Some(hash)) => state.cells.open_intent(&hash)?,
        (None, None) => None,
    };
    let Some(intent) = &open_intent else { return Err(unknown(&receipt.intent).into()) };
    if !receipt.effect.is(&intent.effect.name) {
        return Err(other_effect(&receipt.effect, intent).into());
    }
    let Some(status) = receipt.status.text().and_then(|status| ReceiptStatus::of(status)) else {
        return Err(refusal(
            Rule::ReceiptStatusIsUnknown,
            format!("expected {}, found {}", words::<ReceiptStatus>(), receipt.status.quoted()),
        )
        .into());
    };
    let shape = shape(state, receipt, intent)?;
    let signed = Signed {
        executor: &receipt.executor,
        key_id: &receipt.key_id,
        signature: &receipt.signature,
    };
    let batch = receipt.batch.as_ref().map(|batch| batch.batch());
    let message = |signer: Signer| match &batch {
        Some(None) => None,
        batch => {
            let statement = Statement {
                intent: &intent.intent,
                effect: &intent.effect.name,
                attempt: shape.attempt,
                status: status.word(),
                started_ns: shape.started_ns,
                finished_ns: shape.finished_ns,
                cost_cents: shape.cost_cents,
            };
            let payload = content_hash(&receipt.payload);
            let batch = batch.as_ref().and_then(|batch| batch.as_ref());
            signed_receipt_message(state.world(), &statement, &payload, signer, batch)
        }
    };
    let executor = check_authority(state, &signed, intent, message, verify)?;
    if &*intent.effect.name == TIMER && status == ReceiptStatus::Ok {
        check_due(state, intent, &stamp, blobs)?;
    }
    let settled = match abandoned_intent {
        Some(_) => Settled {
            outcome: ReceiptOutcome::Abandoned,
            schema: None,
            problem: None,
            abandoned: Vec::new(),
        },
        None => outcome(state, intent, status, &receipt.payload)?,
    };
    let mut new_blobs = NewBlobs::default();
    let record = Receipt {
        seq: state.next_seq,
        stamp,
        intent: intent.intent,
        cell: intent.cell.clone(),
        effect: intent.effect.name.clone(),
        attempt: shape.attempt,
        status,
        payload: new_blobs.slot(&receipt.payload),
        payload_schema: settled.schema,
        started_ns: shape.started_ns,
        finished_ns: shape.finished_ns,
        cost_cents: shape.cost_cents,
        executor,
        key_id: receipt.key_id.clone(),
        signature: receipt.signature.clone(),
        outcome: settled.outcome,
        problem: settled.problem,
        abandoned: settled.abandoned,
        batch: batch.flatten(),
    };
    Ok(Decided { record: Record::Receipt(Rc::new(record)), blobs: new_blobs })
}

fn open_intent(state: &State, intent: &InputHash) -> Outcome<Option<Rc<OpenIntent>>> {
    match intent.hash() {
        Some(hash) => state.cells.open_intent(&hash),
        None => Ok(None),
    }
}

fn unknown(intent: &InputHash) -> Refusal {
    let bytes = intent.bytes();
    let text = hex(&bytes[..bytes.len().min(32)]);
    refusal(Rule::ReceiptIntentIsUnknown, format!("no intent blake3:{text} is open here"))
}

/// The numbers of a receipt that is well-formed.
struct Shape {
    attempt: u64,
    started_ns: u64,
    finished_ns: u64,
    cost_cents: Option<u64>,
}

fn shape(state: &State, receipt: &ReceiptInput, intent: &OpenIntent) -> Result<Shape, Refusal> {
    let attempt = attempt_of(state, &receipt.attempt, intent)?;
    let max_bytes = state.effective().limits.event_bytes;
    if receipt.payload.len() as u64 > max_bytes {
        return Err(refusal(
            Rule::ReceiptIsTooLarge,
            format!(
                "expected at most {max_bytes} bytes of payload, found {}",
                receipt.payload.len()
            ),
        ));
    }
    let cost = receipt.cost_cents.as_ref();
    let within = |number: &InputNat| number.nat().filter(|number| *number <= TIME_MAX);
    let times = (within(&receipt.started_ns), within(&receipt.finished_ns));
    let cost_cents = cost.and_then(within);
    if let (Some(started_ns), Some(finished_ns)) = times {
        if started_ns <= finished_ns && cost.is_some() == cost_cents.is_some() {
            return Ok(Shape { attempt, started_ns, finished_ns, cost_cents });
        }
    }
    Err(refusal(
        Rule::ReceiptTimesAreInvalid,
        format!(
            "expected 0 <= started_ns <= finished_ns < 2^63 and a cost from 0, found {}, {} and {}",
            receipt.started_ns.described(),
            receipt.finished_ns.described(),
            described(cost)
        ),
    ))
}

/// A number as a text shows it.
pub fn described(number: Option<&InputNat>) -> String {
    number.map_or("null".to_string(), InputNat::described)
}

fn other_effect(effect: &InputText, intent: &OpenIntent) -> Refusal {
    let message = format!("expected {}, found {}", intent.effect.name, effect.quoted());
    refusal(Rule::ReceiptEffectDiffers, message)
}

fn attempt_of(state: &State, attempt: &InputNat, intent: &OpenIntent) -> Result<u64, Refusal> {
    let least = state.attempt(intent).max(1);
    if let Some(number) = attempt.nat().filter(|number| (least..=ATTEMPT_MAX).contains(number)) {
        return Ok(number);
    }
    Err(refusal(
        Rule::ReceiptAttemptIsOld,
        format!("expected an attempt of {least} to {ATTEMPT_MAX}, found {}", attempt.described()),
    ))
}

/// The signer of a receipt or a stream frame.
struct Signed<'a> {
    executor: &'a InputText,
    key_id: &'a [u8],
    signature: &'a [u8],
}

/// Check that this key could sign for the effect when the intent was opened, and did. Return the
/// executor's name.
fn check_authority(
    state: &State,
    signed: &Signed,
    intent: &OpenIntent,
    message: impl FnOnce(Signer) -> Option<Vec<u8>>,
    verify: &dyn Verify,
) -> Result<Rc<str>, Stop> {
    let Signed { executor, key_id, signature } = *signed;
    let (effect, revoked) = (&*intent.effect.name, &state.revoked);
    let may_sign = |executor: &&Rc<str>| {
        let executors = intent.executors();
        !is_kernel_effect(effect)
            && may_sign(executors, revoked, executor, effect, key_id, &state.world_key)
    };
    let Some(name) = executor.text().filter(may_sign) else {
        return Err(refusal(
            Rule::ReceiptExecutorMayNotSign,
            format!(
                "executor {} with key ed25519:{} may not sign for {effect}: it could not when the \
                 effect was asked for, or its key is revoked",
                executor.quoted(),
                hex(&key_id[..key_id.len().min(32)])
            ),
        )
        .into());
    };
    let is_signed = match message(Signer { executor: name, key_id }) {
        Some(message) => verify.verify(&message, signature, key_id)?,
        None => false,
    };
    if !is_signed {
        let message = format!("the signature is not {name}'s over this receipt");
        return Err(refusal(Rule::ReceiptSignatureIsWrong, message).into());
    }
    Ok(name.clone())
}

fn check_due(
    state: &State,
    intent: &OpenIntent,
    stamp: &Stamp,
    blobs: &dyn Blobs,
) -> Result<(), Stop> {
    let params = intent.params.bytes(blobs)?;
    let params = intent.effect.params.from_record(&params);
    let params = params.map_err(|problem| Failure::Damage(problem.to_string()))?;
    let due = params.get("deliver_at_ns").and_then(Value::as_nat).unwrap_or(0);
    let now = state.clock_ns.max(stamp.ns);
    if now >= due {
        return Ok(());
    }
    let message = format!("due at {due} ns, {} ns after the journal's clock", due - now);
    Err(refusal(Rule::TimerIsNotDue, message).into())
}

/// The result of a receipt: its outcome, the schema of its payload, the problem of the payload, and
/// the other intents that are abandoned with it.
pub struct Settled {
    pub outcome: ReceiptOutcome,
    pub schema: Option<Rc<str>>,
    pub problem: Option<Rc<str>>,
    pub abandoned: Vec<Hash>,
}

/// The result of an open intent's receipt by K-54 and K-55.
pub fn outcome(
    state: &State,
    intent: &OpenIntent,
    status: ReceiptStatus,
    payload: &[u8],
) -> Outcome<Settled> {
    let effective = state.effective();
    let cell = state.cells.known(&intent.cell, state.next_seq)?;
    let cell = cell.borrow();
    let Some(workflow) = workflow_of(state, &cell)? else {
        return Err(Failure::Damage(format!(
            "an instance of {} is in flight without a workflow",
            intent.cell.workflow
        )));
    };
    let (schema, problem) = match read_payload(effective, &workflow, intent, status, payload) {
        Err(problem) => (None, Some(clipped(&problem))),
        Ok(schema) => {
            let problem = settled_arm(&workflow, intent, status).is_none().then(|| {
                format!("{} has no arm for a receipt with status {}", workflow.name, status.word())
            });
            (Some(schema), problem)
        }
    };
    let outcome = if problem.is_some() && !takes(&workflow, REJECTED) {
        ReceiptOutcome::Faulted
    } else if cell.fault.is_none() && cell.mailbox.len() as u64 >= effective.limits.mailbox {
        ReceiptOutcome::Overloaded
    } else if problem.is_none() {
        ReceiptOutcome::Delivered
    } else {
        ReceiptOutcome::Rejected
    };
    let abandoned = match outcome {
        ReceiptOutcome::Faulted => {
            cell.inflight.iter().copied().filter(|other| *other != intent.intent).collect()
        }
        _ => Vec::new(),
    };
    Ok(Settled { outcome, schema, problem: problem.map(Into::into), abandoned })
}

/// Admit a stream frame for the origin cell. A refused frame is lost; nothing else changes.
pub fn admit_stream(
    state: &State,
    frame: &StreamInput,
    stamp: Stamp,
    verify: &dyn Verify,
) -> Result<Decided, Stop> {
    let Some(intent) = &open_intent(state, &frame.intent)? else {
        return Err(unknown(&frame.intent).into());
    };
    if !frame.effect.is(&intent.effect.name) {
        return Err(other_effect(&frame.effect, intent).into());
    }
    let attempt = attempt_of(state, &frame.attempt, intent)?;
    let shape = frame_shape(state, frame)?;
    let signed =
        Signed { executor: &frame.executor, key_id: &frame.key_id, signature: &frame.signature };
    let message = |signer: Signer| {
        let statement = StreamStatement {
            intent: &intent.intent,
            effect: &intent.effect.name,
            attempt,
            frame_seq: shape.seq,
            frame_kind: &shape.kind,
        };
        let payload = content_hash(&frame.payload);
        let payload_ref = shape.payload_ref.as_ref();
        Some(stream_message(state.world(), &statement, &payload, payload_ref, signer))
    };
    let executor = check_authority(state, &signed, intent, message, verify)?;
    check_taker(state, intent)?;
    check_rate(state, intent, shape.seq, &stamp)?;
    let mut new_blobs = NewBlobs::default();
    let record = Stream {
        seq: state.next_seq,
        stamp,
        intent: intent.intent,
        cell: intent.cell.clone(),
        effect: intent.effect.name.clone(),
        attempt,
        frame_seq: shape.seq,
        frame_kind: shape.kind,
        payload: new_blobs.slot(&frame.payload),
        payload_ref: shape.payload_ref,
        executor,
        key_id: frame.key_id.clone(),
        signature: frame.signature.clone(),
    };
    Ok(Decided { record: Record::Stream(Rc::new(record)), blobs: new_blobs })
}

/// The fields of a stream frame that is well-formed.
struct FrameShape {
    seq: u64,
    kind: Rc<str>,
    payload_ref: Option<Hash>,
}

fn frame_shape(state: &State, frame: &StreamInput) -> Result<FrameShape, Refusal> {
    let seq = frame.frame_seq.nat().filter(|seq| *seq <= FRAME_SEQ_MAX);
    let is_size = |kind: &&Rc<str>| (1..=FRAME_KIND_BYTES_MAX).contains(&kind.len());
    let kind = frame.frame_kind.text().filter(is_size);
    let (Some(seq), Some(kind)) = (seq, kind) else {
        return Err(refusal(
            Rule::StreamFrameIsInvalid,
            format!(
                "expected a number from 0 and a kind of 1 to {FRAME_KIND_BYTES_MAX} bytes of \
                 UTF-8, found {} and {}",
                frame.frame_seq.described(),
                frame.frame_kind.quoted()
            ),
        ));
    };
    let payload_ref = frame.payload_ref.as_ref().map(InputHash::hash);
    if payload_ref == Some(None) {
        let message = "payload_ref: expected a hash of 32 bytes";
        return Err(refusal(Rule::StreamFrameIsInvalid, message));
    }
    let max_bytes = state.effective().limits.stream_bytes;
    if frame.payload.len() as u64 > max_bytes {
        return Err(refusal(
            Rule::StreamFrameIsTooLarge,
            format!("expected at most {max_bytes} bytes of payload, found {}", frame.payload.len()),
        ));
    }
    Ok(FrameShape { seq, kind: kind.clone(), payload_ref: payload_ref.flatten() })
}

/// Refuse a frame that the origin cell cannot take: progress never fails an instance.
fn check_taker(state: &State, intent: &OpenIntent) -> Result<(), Stop> {
    let cell = state.cells.known(&intent.cell, state.next_seq)?;
    let cell = cell.borrow();
    let takes_frames = workflow_of(state, &cell)?.is_some_and(|workflow| takes(&workflow, STREAM));
    let problem = if !takes_frames {
        format!("{} has no arm for {STREAM}", intent.cell.workflow)
    } else if cell.fault.is_some() {
        "the instance has failed".to_string()
    } else if cell.mailbox.len() as u64 >= state.effective().limits.mailbox {
        "its mailbox is full".to_string()
    } else {
        return Ok(());
    };
    Err(refusal(Rule::StreamHasNoTaker, problem).into())
}

fn check_rate(
    state: &State,
    intent: &OpenIntent,
    frame_seq: u64,
    stamp: &Stamp,
) -> Result<(), Refusal> {
    let limits = &state.effective().limits;
    let stream = state.streams().get(&intent.intent);
    if let Some(last) = stream.map(|stream| stream.last).filter(|last| frame_seq <= *last) {
        let message = format!("expected a number after {last}, found {frame_seq}");
        return Err(refusal(Rule::StreamFrameIsOld, message));
    }
    if stream.map_or(0, |stream| stream.frames) >= limits.stream_frames {
        let message = format!("an intent has at most {} frames", limits.stream_frames);
        return Err(refusal(Rule::StreamIsTooLong, message));
    }
    let now = state.clock_ns.max(stamp.ns);
    let since_ns = stream.map_or(0, |stream| stream.since_ns);
    let is_new_second = now.saturating_sub(since_ns) >= SECOND_NS;
    if !is_new_second && stream.map_or(0, |stream| stream.recent) >= limits.stream_rate {
        let message = format!("expected at most {} frames in a second", limits.stream_rate);
        return Err(refusal(Rule::StreamIsTooFast, message));
    }
    Ok(())
}

/// Record that an intent runs again, that it is unknown how its only run ended, or that it does not
/// run now.
pub fn admit_attempt(state: &State, attempt: &AttemptInput, stamp: Stamp) -> Result<Decided, Stop> {
    let Some(intent) = &open_intent(state, &attempt.intent)? else {
        return Err(unknown(&attempt.intent).into());
    };
    let phase = attempt.phase.text().and_then(|phase| AttemptPhase::of(phase));
    let phase = match phase {
        Some(phase) if !is_kernel_effect(&intent.effect.name) => phase,
        _ => {
            return Err(refusal(
                Rule::AttemptIsInvalid,
                format!(
                    "expected {} of an effect that executors run, found {} of {}",
                    words::<AttemptPhase>(),
                    attempt.phase.quoted(),
                    intent.effect.name
                ),
            )
            .into())
        }
    };
    let problem =
        not_in_phase(state, intent, phase).or_else(|| code_problem(phase, attempt.code.as_ref()));
    if let Some(problem) = problem {
        return Err(refusal(Rule::AttemptIsInvalid, problem).into());
    }
    let (least, highest) = attempts_in(state, intent, phase);
    let is_one = |number: &u64| *number <= ATTEMPT_MAX && (least..=highest).contains(number);
    let Some(number) = attempt.attempt.nat().filter(is_one) else {
        let expected = match least <= highest {
            true => format!("an attempt of {least} to {highest}"),
            false => "no other attempt".to_string(),
        };
        return Err(refusal(
            Rule::AttemptIsOld,
            format!("expected {expected}, found {}", attempt.attempt.described()),
        )
        .into());
    };
    Ok(Decided::of(Record::Attempt(Attempt {
        seq: state.next_seq,
        stamp,
        intent: intent.intent,
        cell: intent.cell.clone(),
        attempt: number,
        phase,
        problem: option(&attempt.problem, |text| Ok(clipped(text.written()?).into()))?,
        code: option(&attempt.code, |code| code.written().cloned())?,
    })))
}

fn is_halt(phase: AttemptPhase) -> bool {
    matches!(phase, AttemptPhase::Held | AttemptPhase::Parked)
}

/// Why no attempt of the intent can be in `phase` now (K-97, K-99).
fn not_in_phase(state: &State, intent: &OpenIntent, phase: AttemptPhase) -> Option<String> {
    let name = &intent.effect.name;
    let is_once = intent.effect.delivery == Delivery::AtMostOnce;
    let has_begun = state.attempt(intent) > 0;
    if phase == AttemptPhase::Lost {
        if !(is_once && has_begun) {
            return Some(format!(
                "expected an attempt of an effect that may run only once, found one of {name}"
            ));
        }
        if let Some(halt) = state.halt(intent) {
            return Some(format!(
                "expected an attempt that may have run, found one of {name} that is {}",
                halt.phase.word()
            ));
        }
    }
    (is_halt(phase) && !has_begun)
        .then(|| format!("expected an attempt of {name} that has begun, found none"))
}

/// Why `code` is not one of an attempt in `phase`: only a halt has one (K-99).
fn code_problem(phase: AttemptPhase, code: Option<&InputText>) -> Option<String> {
    if !is_halt(phase) {
        let phase = phase.word();
        return code.map(|_| format!("expected no code of a {phase} attempt, found one"));
    }
    if (1..=CODE_BYTES_MAX).contains(&code.map_or(0, InputText::size)) {
        return None;
    }
    let actual = code.map_or("null".to_string(), |code| format!("text {}", code.quoted()));
    Some(format!("expected a code of 1 to {CODE_BYTES_MAX} bytes of UTF-8, found {actual}"))
}

/// The lowest and highest number of an attempt that can be in `phase` now.
fn attempts_in(state: &State, intent: &OpenIntent, phase: AttemptPhase) -> (u64, u64) {
    let last = state.attempt(intent);
    if phase != AttemptPhase::Begun {
        return (last, last);
    }
    if intent.effect.delivery != Delivery::AtMostOnce {
        return (last + 1, ATTEMPT_MAX);
    }
    // One attempt may run. One that was held has not run (K-97).
    let was_held = state.halt(intent).is_some_and(|halt| halt.phase == HaltPhase::Held);
    (last + 1, if was_held || last == 0 { last + 1 } else { last })
}
