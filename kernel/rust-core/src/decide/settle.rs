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
use crate::journal::inputs::{AttemptInput, ReceiptInput, StreamInput, CODE_BYTES_MAX};
use crate::journal::ports::{Blobs, Verify};
use crate::journal::records::{Attempt, Receipt, Record, Stamp, Stream};
use crate::journal::signing::may_sign;
use crate::journal::vocabulary::{AttemptPhase, HaltPhase, ReceiptOutcome, ReceiptStatus, Word};
use crate::manifest::builtins::{is_kernel_effect, REJECTED, STREAM, TIMER};
use crate::manifest::effective::Delivery;
use crate::state::cell::OpenIntent;
use crate::state::continuation::{read_payload, settled_arm, takes};
use crate::state::state::State;
use crate::state::version::workflow_of;
use crate::values::cbor::Value;
use crate::values::digests::{hash_text, hex, Hash};
use crate::values::errors::{quoted, Failure, Outcome};
use crate::values::show::describe;

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
    let abandoned_intent = state.abandoned.get(&receipt.intent);
    let intent = match abandoned_intent.or_else(|| state.intents.get(&receipt.intent)) {
        Some(intent) => intent,
        None => return Err(unknown(&receipt.intent).into()),
    };
    if receipt.effect != intent.effect.name {
        return Err(other_effect(&receipt.effect, intent).into());
    }
    let Some(status) = ReceiptStatus::of(&receipt.status) else {
        return Err(refusal(
            Rule::ReceiptStatusIsUnknown,
            format!("expected {}, found {}", words::<ReceiptStatus>(), quoted(&receipt.status)),
        )
        .into());
    };
    check_shape(state, receipt, intent)?;
    let signed = Statement {
        executor: &receipt.executor,
        effect: &receipt.effect,
        key_id: &receipt.key_id,
        signature: &receipt.signature,
    };
    check_authority(state, &signed, intent, || receipt.signed_message(state.world()), verify)?;
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
        intent: receipt.intent,
        cell: intent.cell.clone(),
        effect: intent.effect.name.clone(),
        attempt: receipt.attempt,
        status,
        payload: new_blobs.slot(&receipt.payload),
        payload_schema: settled.schema,
        started_ns: receipt.started_ns,
        finished_ns: receipt.finished_ns,
        cost_cents: receipt.cost_cents,
        executor: receipt.executor.clone(),
        key_id: receipt.key_id.clone(),
        signature: receipt.signature.clone(),
        outcome: settled.outcome,
        problem: settled.problem,
        abandoned: settled.abandoned,
        batch: receipt.batch.clone(),
    };
    Ok(Decided { record: Record::Receipt(Rc::new(record)), blobs: new_blobs })
}

fn unknown(intent: &Hash) -> Refusal {
    let message = format!("no intent {} is open here", hash_text(intent));
    refusal(Rule::ReceiptIntentIsUnknown, message)
}

fn check_shape(state: &State, receipt: &ReceiptInput, intent: &OpenIntent) -> Result<(), Refusal> {
    check_attempt(state, receipt.attempt, intent)?;
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
    let numbers = [receipt.started_ns, receipt.finished_ns, receipt.cost_cents.unwrap_or(0)];
    if numbers.iter().any(|number| *number > TIME_MAX) || receipt.started_ns > receipt.finished_ns {
        return Err(refusal(
            Rule::ReceiptTimesAreInvalid,
            format!(
                "expected 0 <= started_ns <= finished_ns < 2^63 and a cost from 0, found {}, {} and {}",
                described(Some(receipt.started_ns)),
                described(Some(receipt.finished_ns)),
                described(receipt.cost_cents)
            ),
        ));
    }
    Ok(())
}

/// A number as a text shows it.
pub fn described(number: Option<u64>) -> String {
    describe(&number.map_or(Value::Null, |number| Value::Int(number as i128)))
}

fn other_effect(effect: &str, intent: &OpenIntent) -> Refusal {
    let message = format!("expected {}, found {}", intent.effect.name, quoted(effect));
    refusal(Rule::ReceiptEffectDiffers, message)
}

fn check_attempt(state: &State, attempt: u64, intent: &OpenIntent) -> Result<(), Refusal> {
    let least = state.attempt(intent).max(1);
    if (least..=ATTEMPT_MAX).contains(&attempt) {
        return Ok(());
    }
    Err(refusal(
        Rule::ReceiptAttemptIsOld,
        format!(
            "expected an attempt of {least} to {ATTEMPT_MAX}, found {}",
            described(Some(attempt))
        ),
    ))
}

/// The fields of a receipt or a stream frame that name its signer.
struct Statement<'a> {
    executor: &'a str,
    effect: &'a str,
    key_id: &'a [u8],
    signature: &'a [u8],
}

/// Check that this key could sign for this effect when the intent was opened, and did.
fn check_authority(
    state: &State,
    statement: &Statement,
    intent: &OpenIntent,
    message: impl FnOnce() -> Option<Vec<u8>>,
    verify: &dyn Verify,
) -> Result<(), Stop> {
    let Statement { executor, effect, key_id, signature } = *statement;
    let may_sign = !is_kernel_effect(effect)
        && may_sign(intent.executors(), &state.revoked, executor, effect, key_id, &state.world_key);
    if !may_sign {
        return Err(refusal(
            Rule::ReceiptExecutorMayNotSign,
            format!(
                "executor {} with key ed25519:{} may not sign for {effect}: it could not when the \
                 effect was asked for, or its key is revoked",
                quoted(executor),
                hex(&key_id[..key_id.len().min(32)])
            ),
        )
        .into());
    }
    let is_signed = match message() {
        Some(message) => verify.verify(&message, signature, key_id)?,
        None => false,
    };
    if !is_signed {
        let message = format!("the signature is not {executor}'s over this receipt");
        return Err(refusal(Rule::ReceiptSignatureIsWrong, message).into());
    }
    Ok(())
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
    let Some(intent) = state.intents.get(&frame.intent) else {
        return Err(unknown(&frame.intent).into());
    };
    if frame.effect != intent.effect.name {
        return Err(other_effect(&frame.effect, intent).into());
    }
    check_attempt(state, frame.attempt, intent)?;
    check_frame(state, frame)?;
    let signed = Statement {
        executor: &frame.executor,
        effect: &frame.effect,
        key_id: &frame.key_id,
        signature: &frame.signature,
    };
    check_authority(state, &signed, intent, || Some(frame.signed_message(state.world())), verify)?;
    check_taker(state, intent)?;
    check_rate(state, frame, &stamp)?;
    let mut new_blobs = NewBlobs::default();
    let record = Stream {
        seq: state.next_seq,
        stamp,
        intent: frame.intent,
        cell: intent.cell.clone(),
        effect: intent.effect.name.clone(),
        attempt: frame.attempt,
        frame_seq: frame.frame_seq,
        frame_kind: frame.frame_kind.clone(),
        payload: new_blobs.slot(&frame.payload),
        payload_ref: frame.payload_ref,
        executor: frame.executor.clone(),
        key_id: frame.key_id.clone(),
        signature: frame.signature.clone(),
    };
    Ok(Decided { record: Record::Stream(Rc::new(record)), blobs: new_blobs })
}

fn check_frame(state: &State, frame: &StreamInput) -> Result<(), Refusal> {
    let kind_bytes = frame.frame_kind.len();
    if frame.frame_seq > FRAME_SEQ_MAX || !(1..=FRAME_KIND_BYTES_MAX).contains(&kind_bytes) {
        return Err(refusal(
            Rule::StreamFrameIsInvalid,
            format!(
                "expected a number from 0 and a kind of 1 to {FRAME_KIND_BYTES_MAX} bytes of \
                 UTF-8, found {} and {}",
                described(Some(frame.frame_seq)),
                quoted(&frame.frame_kind)
            ),
        ));
    }
    let max_bytes = state.effective().limits.stream_bytes;
    if frame.payload.len() as u64 > max_bytes {
        return Err(refusal(
            Rule::StreamFrameIsTooLarge,
            format!("expected at most {max_bytes} bytes of payload, found {}", frame.payload.len()),
        ));
    }
    Ok(())
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

fn check_rate(state: &State, frame: &StreamInput, stamp: &Stamp) -> Result<(), Refusal> {
    let limits = &state.effective().limits;
    let stream = state.streams.get(&frame.intent);
    if let Some(last) = stream.map(|stream| stream.last).filter(|last| frame.frame_seq <= *last) {
        let message = format!("expected a number after {last}, found {}", frame.frame_seq);
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
pub fn admit_attempt(
    state: &State,
    attempt: &AttemptInput,
    stamp: Stamp,
) -> Result<Decided, Refusal> {
    let Some(intent) = state.intents.get(&attempt.intent) else {
        return Err(unknown(&attempt.intent));
    };
    let phase = AttemptPhase::of(&attempt.phase);
    let phase = match phase {
        Some(phase) if !is_kernel_effect(&intent.effect.name) => phase,
        _ => {
            return Err(refusal(
                Rule::AttemptIsInvalid,
                format!(
                    "expected {} of an effect that executors run, found {} of {}",
                    words::<AttemptPhase>(),
                    quoted(&attempt.phase),
                    intent.effect.name
                ),
            ))
        }
    };
    let problem =
        not_in_phase(state, intent, phase).or_else(|| code_problem(phase, attempt.code.as_deref()));
    if let Some(problem) = problem {
        return Err(refusal(Rule::AttemptIsInvalid, problem));
    }
    let (least, highest) = attempts_in(state, intent, phase);
    if attempt.attempt > ATTEMPT_MAX || !(least..=highest).contains(&attempt.attempt) {
        let expected = match least <= highest {
            true => format!("an attempt of {least} to {highest}"),
            false => "no other attempt".to_string(),
        };
        return Err(refusal(
            Rule::AttemptIsOld,
            format!("expected {expected}, found {}", described(Some(attempt.attempt))),
        ));
    }
    Ok(Decided::of(Record::Attempt(Attempt {
        seq: state.next_seq,
        stamp,
        intent: attempt.intent,
        cell: intent.cell.clone(),
        attempt: attempt.attempt,
        phase,
        problem: attempt.problem.as_ref().map(|problem| clipped(problem).into()),
        code: attempt.code.clone(),
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
fn code_problem(phase: AttemptPhase, code: Option<&str>) -> Option<String> {
    if !is_halt(phase) {
        let phase = phase.word();
        return code.map(|_| format!("expected no code of a {phase} attempt, found one"));
    }
    if (1..=CODE_BYTES_MAX).contains(&code.map_or(0, str::len)) {
        return None;
    }
    let actual = describe(&code.map_or(Value::Null, |code| Value::Text(code.to_string())));
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
