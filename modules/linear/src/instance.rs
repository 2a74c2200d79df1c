//! The transitions of an instance, each with its number in the table of `spec/linear.md`.

use alloc::format;

use aos_sdk::prelude::*;
use aos_sdk::{Continuation, Hash};

use crate::events::{
    Answer, Cancel, Claim, Ended, Extend, LinearResult, Mode, Outcome, Reason, Refusal, Released,
    ScheduleDone, Signal, Start,
};
use crate::limits;
use crate::state::{
    Accepted, Instance, InstanceEvent, InstanceStatus, Row, RowStatus, Task, WakeUp,
};

const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
const BACKOFF_MAX: Duration = Duration::minutes(5);
/// A lease is over when its end lies before now: so one nanosecond after it.
const JUST_AFTER: Duration = Duration::from_ns(1);

type Answered = Result<Answer, Refusal>;

impl Instance {
    pub fn take(&mut self, event: InstanceEvent, cx: &mut Context) -> Result<Answer, Fault> {
        let answered = match event {
            InstanceEvent::Start(start) => self.start(start, None, cx),
            InstanceEvent::Reserved(reserved) => {
                self.start(reserved.start, Some(reserved.biz_key), cx)
            }
            InstanceEvent::Claim(claim) => self.claim(claim, cx),
            InstanceEvent::Extend(extend) => self.extend(extend, cx.now()),
            InstanceEvent::Result(result) => self.result(result, cx),
            InstanceEvent::Signal(signal) => self.signal(signal, cx.now()),
            InstanceEvent::Cancel(cancel) => self.cancel(cancel, cx),
            InstanceEvent::Receipt(receipt) => self.timer_fired(&receipt, cx),
        };
        self.watch_lease(cx);
        Ok(answered.into())
    }

    fn current(&mut self) -> &mut Row {
        &mut self.steps[self.current_step_seq as usize]
    }

    fn is_standard(&self) -> bool {
        self.mode == Mode::Standard
    }

    // T1

    fn start(&mut self, start: Start, biz_key: Option<String>, cx: &mut Context) -> Answered {
        // No cell can have reserved a business key that breaks its limit: there is none to release.
        let named = biz_key.as_deref().map_or(Ok(()), |biz_key| limits::name("biz_key", biz_key));
        let is_named = named.is_ok();
        let checked = named.and_then(|()| match cx.is_new() {
            true => limits::start(&start),
            false => Err(Refusal::new(Reason::Exists, start.instance.clone())),
        });
        if let Err(refusal) = checked {
            if cx.is_new() {
                cx.delete();
            }
            if let Some(biz_key) = biz_key.filter(|_| is_named) {
                cx.emit(Released { biz_key, instance: start.instance });
            }
            return Err(refusal);
        }
        let now = cx.now();
        self.instance = start.instance;
        self.biz_key = biz_key;
        self.schedule = start.schedule;
        self.workflow_type = start.workflow_type;
        self.version = start.version;
        self.mode = start.mode;
        self.wait_timeouts = start.wait_timeouts;
        self.context = start.context;
        self.created_at = now;
        self.steps = start.steps.into_iter().map(Row::of).collect();
        self.activate(0, now);
        cx.status(Status::Running);
        Ok(Answer::Done)
    }

    /// The row becomes the current one.
    fn activate(&mut self, seq: u64, now: Time) {
        self.current_step_seq = seq;
        let row = self.current();
        row.status = RowStatus::Ready;
        row.next_run_at = Some(now);
        self.current_step_type = row.step_type.clone();
    }

    // T2, T3, T4

    fn claim(&mut self, claim: Claim, cx: &mut Context) -> Answered {
        self.must_run()?;
        limits::name("worker", &claim.worker)?;
        limits::name("claim", &claim.claim)?;
        claim.lease.map_or(Ok(()), limits::lease)?;
        let now = cx.now();
        if !self.current().is_held(now) {
            self.expire(cx);
            self.must_run()?;
        }
        let (seq, may_time_out) = (self.current_step_seq, self.wait_timeouts);
        let row = self.current();
        if row.status == RowStatus::Running {
            let is_same = row.claim.as_deref() == Some(&*claim.claim);
            if is_same && row.locked_by.as_deref() == Some(&*claim.worker) {
                return Ok(Answer::Claimed { seq, epoch: row.epoch });
            }
            return Err(Refusal::new(Reason::NotDue, "another worker has a lease"));
        }
        match row.status {
            RowStatus::Ready if row.next_run_at <= Some(now) => {}
            RowStatus::Waiting if may_time_out && row.deadline_at.is_some_and(|at| at <= now) => {
                row.task = Task::WaitingTimeout;
                row.end_wait();
            }
            _ => return Err(Refusal::new(Reason::NotDue, "the plan step is not due")),
        }
        row.status = RowStatus::Running;
        row.locked_until = Some(now + row.lease_of(claim.lease));
        row.locked_by = Some(claim.worker);
        row.claim = Some(claim.claim);
        row.epoch += 1;
        Ok(Answer::Claimed { seq, epoch: row.epoch })
    }

    /// T2: a lease that is over makes the row claimable, or dead after its last attempt (ruling b).
    fn expire(&mut self, cx: &mut Context) {
        let (now, standard) = (cx.now(), self.is_standard());
        let row = self.current();
        if row.status != RowStatus::Running || row.is_held(now) {
            return;
        }
        row.attempts += 1;
        row.last_error = Some(LEASE_EXPIRED.into());
        row.unlock();
        if standard && row.attempts >= row.max_attempts {
            row.status = RowStatus::Dead;
            return self.fail(cx);
        }
        row.status = RowStatus::Ready;
        row.next_run_at = Some(now);
        if !standard {
            row.task = Task::ReadyStep; // ruling c
        }
    }

    fn must_run(&self) -> Result<(), Refusal> {
        match self.status {
            InstanceStatus::Running => Ok(()),
            InstanceStatus::Canceled => {
                Err(Refusal::new(Reason::Canceled, "the instance was canceled"))
            }
            InstanceStatus::Completed | InstanceStatus::Failed => {
                Err(Refusal::new(Reason::NotRunning, "the instance has ended"))
            }
        }
    }

    // G

    /// Only who has the lease now may write.
    fn must_hold(&mut self, worker: &str, epoch: u64, seq: u64, now: Time) -> Result<(), Refusal> {
        self.must_run()?;
        let standard = self.is_standard();
        let current = self.current_step_seq;
        if seq != current {
            let detail = format!("the current plan step is {current}");
            return Err(Refusal::new(Reason::StaleEpoch, detail));
        }
        let row = self.current();
        if standard && epoch != row.epoch {
            let detail = format!("the epoch of the plan step is {}", row.epoch);
            return Err(Refusal::new(Reason::StaleEpoch, detail));
        }
        let is_its = row.status == RowStatus::Running && row.locked_by.as_deref() == Some(worker);
        if !is_its {
            return Err(Refusal::new(Reason::LeaseLost, "this worker has no lease"));
        }
        if !row.is_held(now) {
            return Err(Refusal::new(Reason::LeaseLost, "the lease has ended"));
        }
        Ok(())
    }

    fn extend(&mut self, extend: Extend, now: Time) -> Answered {
        self.must_hold(&extend.worker, extend.epoch, extend.seq, now)?;
        extend.lease.map_or(Ok(()), limits::lease)?;
        let row = self.current();
        row.locked_until = Some(now + row.lease_of(extend.lease));
        Ok(Answer::Done)
    }

    // T5 to T9

    fn result(&mut self, result: LinearResult, cx: &mut Context) -> Answered {
        let event_hash = cx.event_hash();
        if self.has_accepted(&result, &event_hash) {
            return Ok(Answer::Done);
        }
        let now = cx.now();
        self.must_hold(&result.worker, result.epoch, result.seq, now)?;
        limits::result(&result)?;
        let LinearResult { epoch, seq, outcome, outbound, .. } = result;
        match outcome {
            Outcome::Completed { patch } => {
                self.patch(patch)?;
                self.complete(cx);
            }
            Outcome::Waiting { event_type, timeout } => self.wait(event_type, timeout, now),
            Outcome::Retry { error, backoff } => self.retry(error, backoff, cx),
            Outcome::Dead { error } => self.die(error, cx),
        }
        outbound.iter().for_each(|event| cx.output().event(&event.schema, &event.value, None));
        self.last_result = Some(Accepted { seq, epoch, event_hash });
        Ok(Answer::Done)
    }

    fn has_accepted(&self, result: &LinearResult, event_hash: &Hash) -> bool {
        self.last_result.as_ref().is_some_and(|last| {
            last.seq == result.seq && last.epoch == result.epoch && last.event_hash == *event_hash
        })
    }

    fn patch(&mut self, patch: aos_sdk::Map<String, Option<Vec<u8>>>) -> Result<(), Refusal> {
        if patch.is_empty() {
            return Ok(());
        }
        let mut patched = self.context.clone();
        patch.into_iter().for_each(|(key, change)| match change {
            Some(bytes) => {
                patched.insert(key, bytes);
            }
            None => {
                patched.remove(&key);
            }
        });
        limits::context(&patched)?;
        self.context = patched;
        Ok(())
    }

    /// T5
    fn complete(&mut self, cx: &mut Context) {
        let now = cx.now();
        let row = self.current();
        row.status = RowStatus::Done;
        row.unlock();
        row.forget_wake_up();
        row.last_error = None;
        let next = self.current_step_seq + 1;
        if next < self.steps.len() as u64 {
            return self.activate(next, now);
        }
        self.completed_at = Some(now);
        self.end(InstanceStatus::Completed, None, cx);
    }

    /// T6, and T10 in the same step if a signal of the type is buffered (ruling d).
    fn wait(&mut self, event_type: String, timeout: Option<Duration>, now: Time) {
        let row = self.current();
        row.status = RowStatus::Waiting;
        row.unlock();
        row.forget_wake_up();
        row.next_run_at = None;
        row.last_error = None;
        row.deadline_at = timeout.map(|timeout| later(now, timeout));
        let buffered = self.buffered.iter().position(|signal| signal.event_type == event_type);
        self.current().waiting_event_type = Some(event_type);
        if let Some(index) = buffered {
            let signal = self.buffered.remove(index);
            self.wake(signal, now);
        }
    }

    /// T7, or T8 after the last attempt.
    fn retry(&mut self, error: String, backoff: Option<Duration>, cx: &mut Context) {
        let (now, standard) = (cx.now(), self.is_standard());
        let row = self.current();
        if row.attempts + 1 >= row.max_attempts {
            return self.die(error, cx);
        }
        let pause = backoff.unwrap_or_else(|| row.pause());
        row.attempts += 1;
        row.status = RowStatus::Ready;
        row.next_run_at = Some(later(now, pause));
        row.last_error = Some(limits::cut(error));
        row.unlock();
        if !standard {
            row.task = Task::ReadyStep; // ruling c
        }
    }

    /// T9, and T8.
    fn die(&mut self, error: String, cx: &mut Context) {
        let row = self.current();
        row.attempts += 1;
        row.status = RowStatus::Dead;
        row.last_error = Some(limits::cut(error));
        row.unlock();
        self.fail(cx);
    }

    fn fail(&mut self, cx: &mut Context) {
        self.failed_at = Some(cx.now());
        let error = self.current().last_error.clone();
        self.end(InstanceStatus::Failed, error, cx);
    }

    // T10

    fn signal(&mut self, signal: Signal, now: Time) -> Answered {
        self.must_run()?;
        limits::signal(&signal)?;
        let Signal { event_id, event_type, payload, .. } = signal;
        if let Some(known) = self.seen_type(&event_id) {
            return match known.is_none_or(|known| known == event_type) {
                true => Ok(Answer::Done),
                false => Err(Refusal::new(Reason::EventIdTaken, known.unwrap_or_default())),
            };
        }
        let wakes = self.waiting_for() == Some(&*event_type);
        if !wakes && !self.is_standard() {
            let detail = "no plan step waits for this type";
            return Err(Refusal::new(Reason::NotWaiting, detail));
        }
        let signal = WakeUp { event_id, event_type, payload };
        if !wakes {
            self.must_have_room(&signal)?;
        }
        self.remember(&signal);
        match wakes {
            true => self.wake(signal, now),
            false => self.buffered.push(signal),
        }
        Ok(Answer::Done)
    }

    fn waiting_for(&self) -> Option<&str> {
        self.steps[self.current_step_seq as usize].waiting_event_type.as_deref()
    }

    /// The type of an earlier signal with this id: `Some(None)` if an earlier build of this module
    /// has seen it, which kept no types.
    fn seen_type(&self, event_id: &str) -> Option<Option<&str>> {
        if let Some(signal) = self.buffered.iter().find(|signal| signal.event_id == event_id) {
            return Some(Some(&signal.event_type));
        }
        let place = self.seen.iter().rev().position(|seen| seen == event_id)?;
        let types = self.seen_types.as_deref().unwrap_or_default();
        Some(types.iter().rev().nth(place).map(|known| &**known))
    }

    fn remember(&mut self, signal: &WakeUp) {
        let types = self.seen_types.get_or_insert_default();
        if self.seen.len() == limits::SEEN_MAX {
            self.seen.remove(0);
            if types.len() == limits::SEEN_MAX {
                types.remove(0);
            }
        }
        self.seen.push(signal.event_id.clone());
        types.push(signal.event_type.clone());
    }

    fn must_have_room(&self, signal: &WakeUp) -> Result<(), Refusal> {
        let bytes: usize = self.buffered.iter().map(|signal| signal.payload.len()).sum();
        if self.buffered.len() < limits::BUFFERED_MAX
            && bytes + signal.payload.len() <= limits::BUFFERED_BYTES_MAX
        {
            return Ok(());
        }
        let detail = format!("{} signals wait, with {bytes} bytes", self.buffered.len());
        Err(Refusal::new(Reason::BufferFull, detail))
    }

    fn wake(&mut self, signal: WakeUp, now: Time) {
        let standard = self.is_standard();
        let row = self.current();
        row.status = RowStatus::Ready;
        row.next_run_at = Some(now);
        row.end_wait();
        row.woken_by = standard.then_some(signal); // ruling e
    }

    // Cancel and end

    fn cancel(&mut self, cancel: Cancel, cx: &mut Context) -> Answered {
        if self.status == InstanceStatus::Canceled {
            return Ok(Answer::Done);
        }
        self.must_run()?;
        self.canceled_at = Some(cx.now());
        let reason = limits::cut(cancel.reason);
        self.cancel_reason = Some(reason.clone());
        self.end(InstanceStatus::Canceled, Some(reason), cx);
        Ok(Answer::Done)
    }

    fn end(&mut self, status: InstanceStatus, error: Option<String>, cx: &mut Context) {
        self.status = status;
        let (word, declared) = match status {
            InstanceStatus::Completed => ("COMPLETED", Status::Completed),
            InstanceStatus::Canceled => ("CANCELED", Status::Failed),
            InstanceStatus::Failed | InstanceStatus::Running => ("FAILED", Status::Failed),
        };
        cx.status(declared);
        if let Some(biz_key) = self.biz_key.clone() {
            cx.emit(Released { biz_key, instance: self.instance.clone() });
        }
        cx.emit(Ended {
            instance: self.instance.clone(),
            biz_key: self.biz_key.clone(),
            workflow_type: self.workflow_type.clone(),
            version: self.version,
            status: word.into(),
            error,
        });
        if let Some(schedule) = self.schedule.clone() {
            cx.emit(ScheduleDone { schedule });
        }
    }

    // The timer of the lease

    fn timer_fired(&mut self, answer: &impl Continuation, cx: &mut Context) -> Answered {
        self.timers -= 1;
        if self.timer.is_of(answer) {
            self.timer = Pending::default();
            self.timer_at = None;
            if self.status == InstanceStatus::Running {
                self.expire(cx);
            }
        }
        Ok(Answer::Done)
    }

    /// While a row has a lease, a timer is open that fires when the lease is over or earlier. It is
    /// later only for a worker that has shortened its leases `TIMERS_MAX` times.
    fn watch_lease(&mut self, cx: &mut Context) {
        if self.status != InstanceStatus::Running || self.steps.is_empty() {
            return;
        }
        let Some(locked_until) = self.current().locked_until else { return };
        let over = locked_until + JUST_AFTER;
        let is_early = self.timer.is_open() && self.timer_at.is_some_and(|at| at <= over);
        if is_early || self.timers == limits::TIMERS_MAX {
            return;
        }
        self.timer = cx.effect(timer::at(over)).start();
        self.timer_at = Some(over);
        self.timers += 1;
    }
}

/// Pauses and timeouts that lead out of the range of times end with it.
fn later(now: Time, pause: Duration) -> Time {
    now.checked_add(pause).unwrap_or(Time::from_ns(i64::MAX))
}

impl Row {
    fn of(step: crate::events::PlanStep) -> Row {
        Row {
            step_type: step.step_type,
            status: RowStatus::Pending,
            attempts: 0,
            max_attempts: step.max_attempts,
            backoff: step.backoff,
            lease: step.lease,
            next_run_at: None,
            locked_by: None,
            locked_until: None,
            waiting_event_type: None,
            deadline_at: None,
            last_error: None,
            epoch: 0,
            claim: None,
            task: Task::ReadyStep,
            woken_by: None,
        }
    }

    /// Whether a worker has a lease that is not over.
    fn is_held(&self, now: Time) -> bool {
        self.locked_until.is_some_and(|until| until >= now)
    }

    fn unlock(&mut self) {
        (self.locked_by, self.locked_until, self.claim) = (None, None, None);
    }

    fn end_wait(&mut self) {
        (self.waiting_event_type, self.deadline_at) = (None, None);
    }

    /// The handler has dealt with the timeout or the signal that made it run.
    fn forget_wake_up(&mut self) {
        (self.task, self.woken_by) = (Task::ReadyStep, None);
    }

    fn lease_of(&self, asked: Option<Duration>) -> Duration {
        asked.map_or(self.lease, |asked| asked.min(self.lease))
    }

    /// The pause before the next attempt.
    fn pause(&self) -> Duration {
        self.backoff.doubled(self.attempts, BACKOFF_MAX.max(self.backoff))
    }
}
