//! One step of a record: what the three workflows share.
//!
//! Rule 1: `doing` names what the record does; `open` is the one effect that it waits for. An answer
//! with another reference changes nothing.
//!
//! Rule 2: nothing is asked of the lane before the contract has said that the step is not done.
//!
//! Rule 3: an outage never fails a record. After the retries it stalls, and at last it is parked.
//!
//! Rule 4: `input` never changes, and a field of `progress` is set once.

use aos_sdk::prelude::*;

use crate::events::{
    Attempt, CommandKind, EpochCloseRequested, LaneCommand, LaneKey, Note, Owner, ScoreRequested,
    TxCancelRequested, TxOutcome, TxRequested, WorkRequested,
};
use crate::evm::{BlockAt, Call};
use crate::hex::lane_key;
use crate::policy::jittered;
use crate::record::{Doing, Pause, Question, Record, RecordError, RecordType, Stall, State, Step};
use crate::studio::Studio;

/// A request that creates a record.
pub enum Request {
    Work(WorkRequested),
    Score(ScoreRequested),
    Epoch(EpochCloseRequested),
}

/// An event of any of the three workflows.
pub enum RecordEvent {
    Requested(Request),
    Command(CommandKind, String),
    Settled(u64, TxOutcome, Vec<Attempt>),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// One step of a record: what `gw/work@1`, `gw/score@1` and `gw/epoch@1` do with an event.
pub fn take(record: &mut Record, event: RecordEvent, cx: &mut Context) -> Result<(), Fault> {
    let is_new = cx.is_new();
    let mut run = Run::new(record, cx);
    match event {
        RecordEvent::Requested(request) if is_new => run.create(request)?,
        _ if is_new => {
            run.finish_without_a_record();
            return Ok(());
        }
        RecordEvent::Requested(_) => run.note("requested again: unchanged"),
        RecordEvent::Command(what, why) => run.command(what, &why),
        RecordEvent::Settled(request, outcome, attempts) => {
            run.settled(request, outcome, attempts);
        }
        RecordEvent::Receipt(receipt) => run.answer(&receipt)?,
        RecordEvent::Rejected(rejected) => run.answer(&rejected)?,
    }
    run.finish();
    Ok(())
}

/// One step: the record that it changes, and its decision in words.
pub struct Run<'s, 'c> {
    pub record: &'s mut Record,
    pub cx: &'s mut Context<'c>,
    note: String,
}

impl<'s, 'c> Run<'s, 'c> {
    pub fn new(record: &'s mut Record, cx: &'s mut Context<'c>) -> Run<'s, 'c> {
        Run { record, cx, note: String::new() }
    }

    /// Add to the step's annotation.
    pub fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }

    fn finish(self) {
        self.record.updated_at = self.cx.now();
        self.cx.annotate(Note(self.note));
        self.cx.status(match self.record.state {
            State::Completed => Status::Completed,
            State::Failed => Status::Failed,
            _ => Status::Running,
        });
    }

    /// Leave no cell behind: there is no record for this event.
    fn finish_without_a_record(mut self) {
        self.note("there is no such record");
        self.cx.annotate(Note(self.note));
        self.cx.delete();
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.record.state, State::Completed | State::Failed)
    }

    /// The step that sends the transaction, also while the record waits for it.
    pub fn submit_step(&self) -> Step {
        self.record.step.submit(self.record.record_type)
    }

    pub fn is_parked(&self) -> bool {
        matches!(self.record.stall, Some(Stall::Parked { .. }))
    }

    // Effects.

    /// Request an effect: from now on its answer is the one that is awaited.
    pub fn open<E: Effect>(&mut self, effect: E) {
        let pending = self.cx.effect(effect).start();
        self.record.open = pending.issuer_ref().map(String::from);
        self.record.pause = None;
    }

    /// Cancel what is open. A late answer has another reference, so it changes nothing.
    pub fn close(&mut self) {
        if let Some(reference) = self.record.open.take() {
            self.cx.effect(effect::Cancel::by_reference(reference)).forget();
        }
        self.record.pause = None;
    }

    pub fn wake_at(&mut self, time: Time, pause: Pause) {
        let name = format!("{pause:?}").to_lowercase();
        self.open(timer::at(time).key(name));
        self.record.pause = Some(pause);
    }

    pub fn wake_after(&mut self, wait: Duration, pause: Pause) {
        let time = self.cx.now() + wait;
        self.wake_at(time, pause);
    }

    /// Ask the contract at the block at depth.
    pub fn ask(&mut self, question: Question) {
        self.record.doing = Doing::Checking(question);
        self.call(question, self.at_depth());
    }

    pub fn at_depth(&self) -> BlockAt {
        match self.record.policy.conf {
            0 => BlockAt::Finalized,
            conf => BlockAt::Depth(conf),
        }
    }

    pub fn call(&mut self, question: Question, block: BlockAt) {
        let studio = Studio::of(self.record);
        let data = studio.question(self.submit_step(), question);
        let input = &self.record.input;
        let call = Call { chain: input.chain, to: input.studio_address.clone(), data, block };
        self.open(call);
    }

    // The lane.

    fn owner(&self) -> Owner {
        let key = self.record.key.clone();
        match self.record.record_type {
            RecordType::WorkSubmission => Owner::Work(key),
            RecordType::ScoreSubmission => Owner::Score(key),
            RecordType::CloseEpoch => Owner::Epoch(key),
        }
    }

    /// The lane of the step's signer.
    fn lane(&self) -> LaneKey {
        let input = &self.record.input;
        let signer = match (self.submit_step(), &input.admin_address) {
            (Step::RegisterValidator, Some(admin)) => admin,
            _ => &input.signer_address,
        };
        LaneKey(lane_key(input.chain, signer))
    }

    /// Ask the lane for the step's transaction, and wait for it in the next step.
    pub fn request(&mut self) {
        let submit = self.submit_step();
        let studio = Studio::of(self.record);
        let (Some(data), guard) = (studio.transaction(submit), studio.guard(submit)) else {
            return;
        };
        let request = self.record.requests + 1;
        let requested = TxRequested {
            lane: self.lane(),
            owner: self.owner(),
            request,
            to: self.record.input.studio_address.clone(),
            data,
            value: Decimal::ZERO,
            guard: Some(guard),
            policy: self.record.policy.clone(),
        };
        self.cx.emit(requested);
        self.record.requests = request;
        self.record.at_lane = Some(request);
        self.record.step = submit.awaiting();
        self.record.doing = Doing::AwaitingTx { request };
        self.record.open = None;
        self.record.pause = None;
        self.note(&format!("{} by the lane, request {request}", submit.name()));
    }

    /// Tell the lane that the request is no longer wanted.
    pub fn withdraw(&mut self) {
        if let Some(request) = self.record.at_lane {
            let canceled = TxCancelRequested { lane: self.lane(), owner: self.owner(), request };
            self.cx.emit(canceled);
        }
    }

    /// Tell the lane to compare what landed with the chain.
    pub fn suspect_the_lane(&mut self) {
        let lane = LaneKey(lane_key(self.record.input.chain, &self.record.input.signer_address));
        let why = String::from("a transaction that landed is missing");
        self.cx.emit(LaneCommand { lane, what: CommandKind::Reconcile, why });
    }

    // Ends and stalls.

    fn error(&self, code: &str, message: &str, recoverable: bool) -> RecordError {
        RecordError {
            step: self.record.step.name().into(),
            message: message.into(),
            code: code.into(),
            recoverable,
        }
    }

    /// The failure of the record, unless the chain says that the step is done.
    pub fn suspect(&mut self, code: &str, message: &str) {
        self.record.suspect = Some(self.error(code, message, false));
        self.ask(Question::Done);
    }

    pub fn fail(&mut self, code: &str, message: &str) {
        let error = self.error(code, message, false);
        self.end(State::Failed, Some(error));
    }

    /// Fail with the failure that the chain has now not refuted.
    pub fn fail_as_suspected(&mut self, error: RecordError) {
        self.end(State::Failed, Some(error));
    }

    pub fn complete(&mut self) {
        self.end(State::Completed, None);
    }

    fn end(&mut self, state: State, error: Option<RecordError>) {
        self.close();
        if let Some(error) = &error {
            self.note(&format!("failed: {} ({})", error.message, error.code));
        } else {
            self.note("completed");
        }
        let record = &mut *self.record;
        record.state = state;
        record.error = error;
        record.stall = None;
        record.suspect = None;
        record.evidence = None;
        record.settled = None;
        record.doing = Doing::Nothing;
        record.is_reconciling = false;
    }

    /// Try what the record does again after a pause; after the retries, stall (rule 3).
    pub fn retry(&mut self, code: &str, message: &str) {
        self.record.error = Some(self.error(code, message, true));
        self.record.step_attempts += 1;
        let retry = self.record.step_attempts;
        if retry > self.record.policy.retries {
            self.stall(code, message);
            return;
        }
        let wait = self.record.policy.clone().retry_pause(retry, self.cx);
        self.wake_after(wait, Pause::Retry);
        self.note(&format!("{message} ({code}): retry {retry} in {} ms", wait.ns() / 1_000_000));
    }

    /// Wait for something outside to change, without trying again soon.
    pub fn stall(&mut self, code: &str, message: &str) {
        self.record.error = Some(self.error(code, message, true));
        self.record.step_attempts = 0;
        self.record.stall_cycles += 1;
        let cycle = self.record.stall_cycles;
        if cycle > self.record.policy.stall_cycles {
            self.park(message);
            return;
        }
        let wait = self.record.policy.clone().stall_pause(cycle, self.cx);
        let until = self.cx.now() + wait;
        self.wake_at(until, Pause::Stall);
        self.record.state = State::Stalled;
        self.record.stall = Some(Stall::Auto { until, cycle });
        self.note(&format!("{message} ({code}): stalled for {} ms", wait.ns() / 1_000_000));
    }

    /// Stop with nothing open.
    pub fn park(&mut self, why: &str) {
        self.close();
        self.record.state = State::Stalled;
        self.record.stall = Some(Stall::Parked { why: why.into() });
        self.record.is_reconciling = false;
        self.note(&format!("parked: {why}"));
    }

    /// Run again, with all retries.
    pub fn unpark(&mut self) {
        self.close();
        self.record.state = State::Running;
        self.record.stall = None;
        self.record.step_attempts = 0;
        self.record.stall_cycles = 0;
        self.record.is_reconciling = false;
    }

    pub fn sleep_for_room(&mut self) {
        let wait = jittered(Duration::seconds(5), self.cx);
        self.record.doing = Doing::Checking(Question::Done);
        self.wake_after(wait, Pause::LaneFull);
        self.note("256 requests wait at the lane");
    }

    /// Open the effect of what the record does now.
    pub fn perform(&mut self) {
        match self.record.doing.clone() {
            Doing::Nothing => {}
            Doing::StoringEvidence => {
                let evidence = self.record.evidence.clone().unwrap_or_default();
                self.open(blob::put(evidence));
            }
            Doing::PricingUpload | Doing::Uploading => self.price(),
            Doing::AwaitingArweave => self.await_arweave(),
            Doing::Checking(question) => self.ask(question),
            Doing::AwaitingTx { .. } => match self.record.settled.take() {
                Some(outcome) => self.take_outcome(outcome),
                None if self.record.at_lane.is_some() => self.note("the lane has the transaction"),
                None => self.ask(Question::Done),
            },
            Doing::Verifying { block, .. } => self.call(Question::Done, BlockAt::Number(block)),
        }
    }

    /// Begin the next step. A canceled record ends here.
    pub fn advance(&mut self, next: Option<Step>) {
        self.record.step_attempts = 0;
        self.record.stall_cycles = 0;
        self.record.error = None;
        self.record.suspect = None;
        let Some(step) = next else {
            self.complete();
            return;
        };
        self.note(&format!("{} is done", self.record.step.name()));
        self.record.step = step;
        if self.record.is_canceling {
            self.fail("CANCELED", "the record was canceled");
            return;
        }
        self.begin();
    }

    /// Begin the record's step.
    pub fn begin(&mut self) {
        self.record.doing = match self.record.step {
            Step::UploadEvidence if self.record.progress.evidence.is_none() => {
                Doing::StoringEvidence
            }
            Step::UploadEvidence => Doing::PricingUpload,
            Step::AwaitArweaveConfirm => Doing::AwaitingArweave,
            _ => Doing::Checking(Question::Done),
        };
        self.perform();
    }
}
