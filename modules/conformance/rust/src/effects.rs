//! `single`: one handle. `fan`: sets of them.

use aos_sdk::prelude::*;
use aos_sdk::{About, Continuation, IdempotencyKey};

use crate::cells::Name;

#[derive(Effect)]
#[effect(
    "conformance/work@1",
    receipt = Worked,
    executor = "conformance",
    params = "conformance/Work@1"
)]
pub struct Work {
    pub item: String,
    pub weight: i64,
}

#[derive(Schema)]
#[schema("conformance/Worked@1")]
pub struct Worked {
    result: u64,
}

#[derive(Schema)]
#[schema("conformance/Answer@1")]
pub enum Answer {
    Ok(u64),
    Error(EffectError),
    Timeout,
    Canceled,
    Rejected(String),
    Frame { seq: u64, kind: String, payload: Vec<u8> },
    Cancel(bool),
    CancelError(String),
    Idle,
    Stray { effect: String, status: String },
}

#[derive(Schema)]
pub enum Idempotency {
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Schema)]
#[schema("conformance/Ask@1")]
pub struct Ask {
    id: Name,
    work: Work,
    idempotency_key: Option<Idempotency>,
    issuer_ref: Option<String>,
    forget: bool,
}

#[derive(Schema)]
#[schema("conformance/Cancel@1")]
pub struct Cancel {
    id: Name,
}

#[derive(Event)]
#[schema("conformance/SingleEvent@1")]
pub enum SingleEvent {
    Ask(Ask),
    Cancel(Cancel),
    Receipt(Receipt),
    Rejected(Rejected),
    Frame(StreamFrame),
}

#[derive(Schema, Default)]
#[schema("conformance/SingleState@1")]
pub struct SingleState {
    work: Pending<Work>,
    cancel: Pending<effect::Cancel>,
    answers: Vec<Answer>,
}

#[workflow(
    "conformance/single@1",
    module = "conformance/module@1",
    key = Name,
    effects(Work, effect::Cancel),
    routes(Ask by "id", Cancel by "id")
)]
fn single(state: &mut SingleState, event: SingleEvent, cx: &mut Context) -> Result<(), Fault> {
    let answer = match event {
        SingleEvent::Ask(asked) => {
            ask(state, asked, cx);
            return Ok(());
        }
        SingleEvent::Cancel(_) => match state.work.issuer_ref() {
            Some(reference) => {
                state.cancel = cx.effect(effect::Cancel::by_reference(reference)).start();
                return Ok(());
            }
            None => Answer::Idle,
        },
        SingleEvent::Receipt(receipt) => state.receipt(&receipt)?,
        SingleEvent::Rejected(rejected) => match state.work.settle(&rejected)? {
            Some(outcome) => answer_of(outcome),
            None => stray(&rejected, &rejected.status),
        },
        SingleEvent::Frame(frame) => match state.work.is_of(&frame) {
            true => Answer::Frame { seq: frame.seq, kind: frame.kind, payload: frame.payload },
            false => stray(&frame, "frame"),
        },
    };
    state.answers.push(answer);
    Ok(())
}

fn ask(state: &mut SingleState, asked: Ask, cx: &mut Context) {
    let mut request = cx.effect(asked.work);
    if let Some(key) = asked.idempotency_key {
        request = request.idempotency_key(match key {
            Idempotency::Text(text) => IdempotencyKey::Text(text),
            Idempotency::Bytes(bytes) => IdempotencyKey::Bytes(bytes),
        });
    }
    if let Some(reference) = asked.issuer_ref {
        request = request.issuer_ref(reference);
    }
    match asked.forget {
        true => request.forget(),
        false => state.work = request.start(),
    }
}

impl SingleState {
    fn receipt(&mut self, receipt: &Receipt) -> Result<Answer, Fault> {
        if let Some(outcome) = self.work.settle(receipt)? {
            return Ok(answer_of(outcome));
        }
        Ok(match self.cancel.settle(receipt)? {
            Some(Outcome::Ok(done)) => Answer::Cancel(done.cancelled),
            Some(Outcome::Error(error)) => Answer::CancelError(error.code),
            Some(Outcome::Timeout) => Answer::Timeout,
            Some(Outcome::Canceled) => Answer::Canceled,
            Some(Outcome::Rejected(rejection)) => Answer::Rejected(rejection.code),
            None => stray(receipt, &receipt.status),
        })
    }
}

fn answer_of(outcome: Outcome<Worked>) -> Answer {
    match outcome {
        Outcome::Ok(worked) => Answer::Ok(worked.result),
        Outcome::Error(error) => Answer::Error(error),
        Outcome::Timeout => Answer::Timeout,
        Outcome::Canceled => Answer::Canceled,
        Outcome::Rejected(rejection) => Answer::Rejected(rejection.code),
    }
}

fn stray(about: &impl About, status: &str) -> Answer {
    Answer::Stray { effect: about.effect().into(), status: status.into() }
}

#[derive(Schema, Default)]
#[schema("conformance/Id@1")]
pub struct Id(Uuid);

#[derive(Schema)]
pub enum By {
    Item,
    Weight,
}

#[derive(Schema)]
#[schema("conformance/Fan@1")]
pub struct Fan {
    id: Id,
    items: Vec<Work>,
    by: By,
}

#[derive(Schema)]
#[schema("conformance/CancelItem@1")]
pub struct CancelItem {
    id: Id,
    item: String,
}

#[derive(Schema)]
#[schema("conformance/Joined@1")]
pub struct Joined {
    id: Id,
    answers: u64,
}

#[derive(Event)]
#[schema("conformance/FanEvent@1")]
pub enum FanEvent {
    Fan(Fan),
    CancelItem(CancelItem),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default)]
#[schema("conformance/FanState@1")]
pub struct FanState {
    by_item: PendingSet<String, Work>,
    by_weight: PendingSet<i64, Work>,
    open: u64,
    items: Map<String, Answer>,
    weights: Map<i64, Answer>,
}

#[workflow(
    "conformance/fan@1",
    module = "conformance/module@1",
    key = Id,
    effects(Work, effect::Cancel),
    routes(Fan by "id", CancelItem by "id")
)]
fn fan(state: &mut FanState, event: FanEvent, cx: &mut Context) -> Result<(), Fault> {
    match event {
        FanEvent::Fan(fan) => state.ask(fan, cx),
        FanEvent::CancelItem(cancel) => {
            state.by_item.cancel(&cancel.item, cx);
        }
        FanEvent::Receipt(receipt) => state.answered(&receipt, cx)?,
        FanEvent::Rejected(rejected) => state.answered(&rejected, cx)?,
    }
    state.open = (state.by_item.len() + state.by_weight.len()) as u64;
    Ok(())
}

impl FanState {
    fn ask(&mut self, fan: Fan, cx: &mut Context) {
        for work in fan.items {
            let (item, weight) = (work.item.clone(), work.weight);
            let pending = cx.effect(work).start();
            match fan.by {
                By::Item => self.by_item.insert(item, pending),
                By::Weight => self.by_weight.insert(weight, pending),
            }
        }
    }

    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some((item, outcome)) = self.by_item.settle(answer)? {
            self.items.insert(item, answer_of(outcome));
        } else if let Some((weight, outcome)) = self.by_weight.settle(answer)? {
            self.weights.insert(weight, answer_of(outcome));
        } else {
            return Ok(());
        }
        if self.by_item.is_empty() && self.by_weight.is_empty() {
            let answers = (self.items.len() + self.weights.len()) as u64;
            cx.emit(Joined { id: cx.key()?, answers });
            cx.status(Status::Completed);
        }
        Ok(())
    }
}
