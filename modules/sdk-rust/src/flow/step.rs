//! `step`: an effect with retries, a deadline and a compensation.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as Task, Poll};

use crate::Effect;
use crate::cbor::{self, Reader, Stop};
use crate::schema::{encode, whole};
use crate::types::Duration;

use super::Cx;
use super::ending::{Ending, Rollback, Undo, ready, rollback};
use super::engine::{Core, Print, Slot};
use super::failure::{FlowError, failure};
use super::history::{Bytes, Kind, Outcome, State};
use super::mail::Answer;
use super::path::reference;

/// How often a step tries its effect, and how long it waits in between. The default is three
/// attempts in all, with pauses of 100 ms that double up to 30 s.
///
/// ```
/// use aos_sdk::{Duration, flow::Retry};
///
/// const PATIENT: Retry = Retry::attempts(10)
///     .pauses(Duration::seconds(1), Duration::minutes(5))
///     .jitter();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    attempts: u64,
    first: Duration,
    most: Duration,
    has_jitter: bool,
}

impl Retry {
    /// One attempt only.
    pub const NEVER: Retry = Retry::attempts(1);

    /// So many attempts in all; 0 is an error of the step (Critical, code `retry`).
    pub const fn attempts(attempts: u64) -> Retry {
        let (first, most) = (Duration::millis(100), Duration::seconds(30));
        Retry { attempts, first, most, has_jitter: false }
    }

    /// The first pause, which doubles with each attempt, and the longest. Negative ones are an
    /// error of the step (Critical, code `duration`).
    pub const fn pauses(self, first: Duration, most: Duration) -> Retry {
        Retry { first, most, ..self }
    }

    /// Wait for a random part of each pause, from half of it to all of it, so that flows that
    /// failed together do not come back together.
    pub const fn jitter(self) -> Retry {
        Retry { has_jitter: true, ..self }
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::attempts(3)
    }
}

/// An effect of a flow: [`Cx::step`].
#[must_use = "nothing is asked before `.await`"]
pub struct Step<'a, E: Effect> {
    core: StepCore,
    effect: E,
    rollback: Option<Rollback<'a, E::Receipt>>,
    unknown: Option<Box<dyn Fn() -> Undo + 'a>>,
}

// Nothing of it is ever pinned.
impl<E: Effect> Unpin for Step<'_, E> {}

pub(super) struct StepCore {
    pub cx: Cx,
    pub name: String,
    pub slot: Slot,
    pub policy: Policy,
    pub timeout: Option<Duration>,
}

/// The rules for another attempt, as they are stored with an open step.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Policy {
    pub retry: Retry,
    pub retries_timeouts: bool,
}

const DEFAULT: Policy = Policy { retry: Retry::attempts(3), retries_timeouts: false };

impl<'a, E: Effect> Step<'a, E> {
    pub(super) fn new(cx: Cx, name: &str, effect: E) -> Step<'a, E> {
        let core =
            StepCore { cx, name: String::from(name), slot: 0, policy: DEFAULT, timeout: None };
        Step { core, effect, rollback: None, unknown: None }
    }

    /// How often to try; see [`Retry`]. Another attempt follows only after an error that the executor
    /// calls retryable, or after an exception without a classification.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.core.policy.retry = retry;
        self
    }

    /// Try again after a timeout, too. The effect may then happen twice, unless its executor knows
    /// the idempotency key, which is the same in all attempts.
    pub fn retry_timeouts(mut self) -> Self {
        self.core.policy.retries_timeouts = true;
        self
    }

    /// Fail with Timeout if the step, with all its attempts and pauses, takes longer. The deadline
    /// is a timer: it counts without an executor, too.
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.core.timeout = Some(duration);
        self
    }

    /// Once the step is done, register the effect that undoes it. It runs if the flow fails, is
    /// canceled, or unwinds with [`Cx::rollback_to`].
    ///
    /// If the step is canceled and its `ok` has already come to the journal, the step is done all the
    /// same, and the effect is registered.
    pub fn rollback<C: Effect>(mut self, undo: impl Fn(&E::Receipt) -> C + Sync + 'a) -> Self {
        self.rollback = rollback(undo);
        self
    }

    /// Register a compensation for a step that ends while it is unknown whether its effect
    /// happened: after a timeout, a cancellation, an exception without a classification, or an
    /// answer that fits no schema, in any of its attempts.
    pub fn rollback_unknown<C: Effect>(mut self, undo: impl Fn() -> C + Sync + 'a) -> Self {
        self.unknown = Some(Box::new(move || (C::EFFECT, encode(&undo()))));
        self
    }
}

impl<E: Effect> Future for Step<'_, E> {
    type Output = Result<E::Receipt, FlowError>;

    fn poll(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        let unknown = || me.unknown.as_ref().map(|undo| undo());
        let has_rollback = me.rollback.is_some();
        let params = || encode(&me.effect);
        match me.core.poll(E::EFFECT, &params, &unknown, has_rollback) {
            Some((index, ended)) => ready(me.core.cx, index, ended, &mut me.rollback),
            None => Poll::Pending,
        }
    }
}

impl StepCore {
    /// The operation and its end, or None for pending.
    pub fn poll(
        &mut self,
        effect: &'static str,
        params: &dyn Fn() -> Vec<u8>,
        unknown: &dyn Fn() -> Option<Undo>,
        has_rollback: bool,
    ) -> Option<(usize, Result<Bytes, FlowError>)> {
        let engine = self.cx.engine();
        let is_first = self.slot == 0;
        let index = engine
            .with(|core| core.enter(&mut self.slot, Kind::Step, &self.name, Print::Text(effect)))?;
        let (is_open, is_new) = engine.with(|core| {
            let op = core.op(index);
            (op.state.is_open(), op.extras == 0)
        });
        if is_open && is_new {
            let params = params();
            let open = Open {
                effect,
                params: fnv(&params),
                policy: self.policy,
                retry_at: None,
                deadline: None,
                doubt: false,
                unknown: unknown().map(|(effect, params)| (effect, &*params.leak())),
                ending: Ending::of(has_rollback),
            };
            engine.with(|core| core.begin_step(index, open, &params, self.timeout));
        } else if is_open && (is_first || engine.with(|core| core.is_due(index))) {
            let params = params();
            engine.with(|core| core.go_on_with_step(index, &params, self.policy, has_rollback));
        }
        engine.with(|core| {
            if core.fault.is_some() {
                return None;
            }
            if core.op(index).state.is_open() {
                core.wait(index);
                return None;
            }
            Some((index, core.result(index)))
        })
    }
}

/// The body of an open step: `[null, effect, params hash, policy, retry at, deadline, doubt,
/// unknown]`, and `ending` behind it if the step has a `.rollback`.
struct Open {
    effect: &'static str,
    params: u64,
    policy: Policy,
    /// When the next attempt is due; with the state pending, null means now.
    retry_at: Option<u64>,
    deadline: Option<u64>,
    /// An attempt may have happened.
    doubt: bool,
    unknown: Option<(&'static str, Bytes)>,
    ending: Ending,
}

impl Open {
    fn of(core: &Core, index: usize) -> Option<Open> {
        let op = core.op(index);
        whole(op.extra, |from| Open::read(from, op.extras)).ok()
    }

    fn read(from: &mut Reader<'static>, items: usize) -> Result<Open, Stop> {
        let (effect, params) = (from.text()?, from.nat()?);
        let policy = match from.is_null() {
            true => DEFAULT,
            false => Policy::read(from)?,
        };
        let retry_at = if from.is_null() { None } else { Some(from.nat()?) };
        let deadline = if from.is_null() { None } else { Some(from.nat()?) };
        let doubt = from.bool()?;
        let unknown = match from.is_null() {
            true => None,
            false => {
                from.list()?;
                Some((from.text()?, from.bytes()?))
            }
        };
        let ending = if items > OPEN_ITEMS { Ending::read(from)? } else { Ending::AtOnce };
        Ok(Open { effect, params, policy, retry_at, deadline, doubt, unknown, ending })
    }

    fn store(&self, core: &mut Core, index: usize) {
        let mut out = Vec::new();
        cbor::write_text(self.effect, &mut out);
        cbor::write_nat(self.params, &mut out);
        match self.policy == DEFAULT {
            true => cbor::write_null(&mut out),
            false => self.policy.write(&mut out),
        }
        for time in [self.retry_at, self.deadline] {
            match time {
                Some(ns) => cbor::write_nat(ns, &mut out),
                None => cbor::write_null(&mut out),
            }
        }
        cbor::write_bool(self.doubt, &mut out);
        match self.unknown {
            Some((effect, params)) => {
                cbor::write_list(2, &mut out);
                cbor::write_text(effect, &mut out);
                cbor::write_bytes(params, &mut out);
            }
            None => cbor::write_null(&mut out),
        }
        let has_ending = self.ending != Ending::AtOnce;
        if has_ending {
            cbor::write_nat(self.ending as u64, &mut out);
        }
        core.op_mut(index).set_extra(OPEN_ITEMS + has_ending as usize, out);
    }
}

/// The role of a cancellation whose answer counts.
const CANCEL: &str = "cancel";

/// The items of an open step's body behind the outcome, without `ending`.
const OPEN_ITEMS: usize = 7;

impl Policy {
    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_list(5, out);
        cbor::write_nat(self.retry.attempts, out);
        cbor::write_nat(self.retry.first.ns() as u64, out);
        cbor::write_nat(self.retry.most.ns() as u64, out);
        cbor::write_bool(self.retry.has_jitter, out);
        cbor::write_bool(self.retries_timeouts, out);
    }

    fn read(from: &mut Reader<'static>) -> Result<Policy, Stop> {
        from.list()?;
        let attempts = from.nat()?;
        let first = Duration::from_ns(from.nat()? as i64);
        let most = Duration::from_ns(from.nat()? as i64);
        let has_jitter = from.bool()?;
        let retries_timeouts = from.bool()?;
        Ok(Policy { retry: Retry { attempts, first, most, has_jitter }, retries_timeouts })
    }

    /// The code and message of the failure that a policy without sense is.
    fn refusal(&self) -> Option<(&'static str, &'static str)> {
        let Retry { attempts, first, most, .. } = self.retry;
        if attempts == 0 {
            return Some(("retry", "a step needs at least one attempt"));
        }
        (first < Duration::ZERO || most < Duration::ZERO)
            .then_some(("duration", "the pause between attempts is negative"))
    }
}

/// 64-bit FNV-1a.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Core {
    fn begin_step(
        &mut self,
        index: usize,
        mut open: Open,
        params: &[u8],
        timeout: Option<Duration>,
    ) {
        // Its effect is needed to replay it, however it ends.
        open.store(self, index);
        if let Some((code, message)) = open.policy.refusal() {
            return self.end_step(index, Err(FlowError::Critical(failure(code, message))));
        }
        if let Some(timeout) = timeout {
            let Some(deadline) = self.deadline(timeout) else {
                return self.end_step(index, Err(bad_duration()));
            };
            open.deadline = Some(deadline);
            open.store(self, index);
            let path = self.path(index);
            self.timer(deadline, &reference(&path, 1, "timeout"));
        }
        self.attempt(index, &open, params);
    }

    /// This long from now; None if it is negative or past the end of time.
    pub(super) fn deadline(&self, wait: Duration) -> Option<u64> {
        let end = (self.now as i64).checked_add(wait.ns())?;
        (wait >= Duration::ZERO).then_some(end as u64)
    }

    /// Whether a step waits for nothing but its next attempt to begin.
    fn is_due(&self, index: usize) -> bool {
        self.op(index).state == State::Pending
            && Open::of(self, index).is_some_and(|open| open.retry_at.is_none())
    }

    fn go_on_with_step(&mut self, index: usize, params: &[u8], policy: Policy, has_rollback: bool) {
        let Some(mut open) = Open::of(self, index) else {
            let path = self.path(index);
            self.diverge::<()>(&path, "a step", "a body that cannot be read");
            return;
        };
        if open.params != fnv(params) {
            self.diverged::<()>(index, "other params than in its first attempt");
            return;
        }
        let policy = if policy.refusal().is_none() { policy } else { open.policy };
        let ending = open.ending.with(has_rollback);
        if (open.policy, open.ending) != (policy, ending) {
            (open.policy, open.ending) = (policy, ending);
            open.store(self, index);
        }
        if self.is_due(index) && self.room().is_some() {
            self.attempt(index, &open, params);
        }
    }

    fn attempt(&mut self, index: usize, open: &Open, params: &[u8]) {
        let (now, path) = (self.now, self.path(index));
        let op = self.op_mut(index).changes();
        op.state = State::Running;
        op.attempts += 1;
        op.last = Some(now);
        let attempt = op.attempts;
        self.has_progressed = true;
        self.request(open.effect, params, Some(&path), Some(&reference(&path, attempt, "")));
    }

    /// The answer to an attempt.
    pub(super) fn settle_step(&mut self, index: usize, answer: Answer) {
        let Some(mut open) = Open::of(self, index) else { return };
        let (error, retryable) = match answer {
            Answer::Ok(value) => {
                self.has_late_result |= open.ending.is_awaited();
                return self.end_step(index, Ok(value));
            }
            Answer::Error { code: "rollback", message, .. } => {
                (FlowError::Rollback(failure("rollback", message)), false)
            }
            Answer::Error { code, message, retryable } => {
                open.doubt |= matches!(code, "unknown_outcome" | "exception");
                let error = FlowError::Critical(failure(code, message));
                (error, retryable || code == "exception")
            }
            Answer::Timeout { message } => {
                open.doubt = true;
                let error = FlowError::Timeout(failure("timeout", message));
                (error, open.policy.retries_timeouts)
            }
            Answer::Canceled { message } => {
                open.doubt = true;
                (FlowError::Canceled(failure("canceled", message)), false)
            }
            Answer::Rejected { code, message } => {
                open.doubt = true;
                (FlowError::Critical(failure(code, message)), false)
            }
        };
        open.store(self, index);
        if self.end_awaited(index, &open) {
            return;
        }
        if !retryable {
            return self.end_step(index, Err(error));
        }
        if self.op(index).attempts >= open.policy.retry.attempts {
            let last = failure(error.code(), error.message());
            return self.end_step(index, Err(FlowError::Exhausted(last)));
        }
        self.pause(index, open);
    }

    /// Wait for the next attempt.
    fn pause(&mut self, index: usize, mut open: Open) {
        let attempt = self.op(index).attempts;
        let Retry { first, most, has_jitter, .. } = open.policy.retry;
        let mut pause = first.doubled(attempt - 1, most).ns() as u64;
        if has_jitter && pause > 1 {
            pause = pause / 2 + self.random.below(pause - pause / 2 + 1);
        }
        let deadline = self.now.saturating_add(pause);
        open.retry_at = Some(deadline);
        open.store(self, index);
        self.op_mut(index).state = State::Pending;
        self.has_progressed = true;
        let path = self.path(index);
        self.timer(deadline, &reference(&path, attempt, "retry"));
    }

    /// The pause before the next attempt is over.
    pub(super) fn wake_step(&mut self, index: usize) {
        let Some(mut open) = Open::of(self, index) else { return };
        open.retry_at = None;
        open.store(self, index);
        self.has_progressed = true;
    }

    /// The deadline of the whole step has come.
    pub(super) fn time_out_step(&mut self, index: usize) {
        let Some(mut open) = Open::of(self, index) else { return };
        open.deadline = None;
        if self.awaits_answer(index, &mut open, Ending::TimedOut) {
            return;
        }
        self.cancel_attempt(index);
        open.doubt |= self.op(index).state == State::Running;
        open.store(self, index);
        self.end_step(index, Err(timed_out()));
    }

    /// Cancel an attempt whose answer has to come before the step ends. False if none has to.
    fn awaits_answer(&mut self, index: usize, open: &mut Open, ending: Ending) -> bool {
        if self.op(index).state != State::Running || open.ending == Ending::AtOnce {
            return false;
        }
        if !open.ending.is_awaited() {
            let (path, attempt) = (self.path(index), self.op(index).attempts);
            let own = reference(&path, attempt, CANCEL);
            self.cancel_for(&reference(&path, attempt, ""), Some(&own));
        }
        if open.ending != Ending::Canceled {
            open.ending = ending;
        }
        open.store(self, index);
        true
    }

    fn cancel_attempt(&mut self, index: usize) {
        let Some(open) = Open::of(self, index) else { return };
        let (path, attempt) = (self.path(index), self.op(index).attempts);
        match self.op(index).state {
            State::Running => self.cancel(&reference(&path, attempt, "")),
            _ if open.retry_at.is_some() => self.cancel(&reference(&path, attempt, "retry")),
            _ => {}
        }
    }

    /// End a step that waited for an answer which was no success. False if it did not wait.
    fn end_awaited(&mut self, index: usize, open: &Open) -> bool {
        match open.ending {
            Ending::Canceled => self.drop_step(index, open),
            Ending::TimedOut => self.end_step(index, Err(timed_out())),
            Ending::AtOnce | Ending::WithAnswer => return false,
        }
        true
    }

    /// The cancellation of an attempt is answered, and the answer to the attempt comes before that:
    /// if it has not come, an operator skipped it. False if the step waits for none.
    pub(super) fn settle_cancel(&mut self, index: usize) -> bool {
        let Some(mut open) = Open::of(self, index) else { return false };
        open.doubt = true;
        self.end_awaited(index, &open)
    }

    /// End an open step whose branch has lost, or whose flow was canceled. False if the answer to its
    /// attempt has to come first.
    pub(super) fn cancel_step(&mut self, index: usize) -> bool {
        let Some(mut open) = Open::of(self, index) else {
            self.end(index, State::Cancelled, Outcome::None);
            return true;
        };
        if self.awaits_answer(index, &mut open, Ending::Canceled) {
            return false;
        }
        self.cancel_attempt(index);
        open.doubt |= self.op(index).state == State::Running;
        self.drop_step(index, &open);
        true
    }

    fn drop_step(&mut self, index: usize, open: &Open) {
        self.close_step(index, open, true);
        self.end(index, State::Cancelled, Outcome::None);
    }

    pub(super) fn set_step_ending(&mut self, index: usize, ending: Ending) {
        let Some(mut open) = Open::of(self, index).filter(|open| open.ending != ending) else {
            return;
        };
        open.ending = ending;
        open.store(self, index);
    }

    /// Register the compensations that the open steps in an operation would register when they are
    /// canceled.
    pub(super) fn register_unknown_within(&mut self, index: usize) {
        for child in self.children(index) {
            self.register_unknown_within(child);
            let op = self.op(child);
            let is_running = op.state == State::Running;
            if op.kind != Kind::Step || !op.state.is_open() {
                continue;
            }
            let Some(mut open) = Open::of(self, child) else { continue };
            let Some((effect, params)) = open.unknown.take() else { continue };
            if open.doubt || is_running {
                let path = self.path(child);
                self.register(&path, effect, params.to_vec());
            }
            open.store(self, child);
        }
    }

    fn end_step(&mut self, index: usize, ended: Result<Bytes, FlowError>) {
        if let Some(open) = Open::of(self, index) {
            self.close_step(index, &open, ended.is_err());
        }
        match ended {
            Ok(value) => self.end(index, State::Completed, Outcome::Value(value)),
            Err(error) => self.fail(index, error),
        }
    }

    /// Cancel the deadline, register the compensation of `rollback_unknown` if the step is in doubt,
    /// and give the body the form of an ended step's.
    fn close_step(&mut self, index: usize, open: &Open, has_failed: bool) {
        let path = self.path(index);
        if open.deadline.is_some() {
            self.cancel(&reference(&path, 1, "timeout"));
        }
        if let (Some((effect, params)), true) = (open.unknown, has_failed && open.doubt) {
            self.register(&path, effect, params.to_vec());
        }
        let mut extra = Vec::new();
        cbor::write_text(open.effect, &mut extra);
        self.op_mut(index).set_extra(1, extra);
    }
}

fn timed_out() -> FlowError {
    FlowError::Timeout(failure("timeout", "the step took longer than its timeout"))
}

pub(super) fn bad_duration() -> FlowError {
    FlowError::Critical(failure(
        "duration",
        "the duration is negative, or ends after the year 2262",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_params_is_fnv_1a() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
