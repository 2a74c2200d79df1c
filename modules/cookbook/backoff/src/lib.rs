//! `report/fetching@1`, keyed by report: fetched until it is there, gone, or too late.
//!
//! Rule 1: the number of the attempt is in the state, and in the params of the effect.
//!
//! Rule 2: before attempt n + 1 there is a pause of 1 s, doubled n - 1 times, at most a minute, less
//! a random part of up to a quarter, so that many cells do not retry at the same time.
//!
//! Rule 3: the deadline is a timer of its own, set in the first step. The end of the work cancels
//! everything that is still in flight, so that a finished report leaves nothing open.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

const PAUSE: Duration = Duration::seconds(1);
const PAUSE_MAX: Duration = Duration::minutes(1);

/// Fetch the report `name` within `patience`.
#[derive(Schema)]
#[schema("report/Wanted@1")]
pub struct Wanted {
    pub report_id: String,
    pub name: String,
    pub patience: Duration,
}

#[derive(Schema)]
#[schema("report/Ready@1")]
pub struct Ready {
    pub report_id: String,
    pub text: String,
}

#[derive(Schema)]
#[schema("report/GivenUp@1")]
pub struct GivenUp {
    pub report_id: String,
    pub why: String,
    pub attempts: u64,
}

#[derive(Effect)]
#[effect("report/fetch@1", receipt = Fetched, executor = "source", timeout_ms = 10000)]
pub struct Fetch {
    pub name: String,
    /// 1 for the first.
    pub attempt: u64,
}

#[derive(Schema)]
#[schema("report/Fetched@1")]
pub struct Fetched {
    pub text: String,
}

#[derive(Event)]
#[schema("report/FetchingEvent@1")]
pub enum Event {
    Wanted(Wanted),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, PartialEq)]
#[schema("report/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Fetching,
    Pausing,
    Ready(String),
    /// Why.
    GivenUp(String),
}

#[derive(Schema, Default)]
#[schema("report/FetchingState@1")]
pub struct State {
    pub phase: Phase,
    pub name: String,
    /// The attempt that is in flight, or was the last.
    pub attempt: u64,
    pub fetch: Pending<Fetch>,
    pub pause: Pending<timer::Set>,
    pub deadline: Pending<timer::Set>,
}

#[workflow(
    "report/fetching@1",
    key = "report/ReportId@1",
    effects(Fetch, timer::Set, effect::Cancel),
    routes(Wanted by "report_id")
)]
fn fetching(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Wanted(wanted) if state.phase == Phase::New => {
            state.name = wanted.name;
            let deadline = cx.now() + wanted.patience;
            state.deadline = cx.effect(timer::at(deadline)).start();
            state.fetch_again(cx);
            Ok(())
        }
        Event::Wanted(_) => Ok(()),
        Event::Receipt(receipt) => state.answered(&receipt, cx),
        Event::Rejected(rejected) => state.answered(&rejected, cx),
    }
}

impl State {
    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.fetch.settle(answer)? {
            return self.fetched(outcome, cx);
        }
        if self.pause.settle(answer)?.is_some() {
            self.fetch_again(cx);
        } else if self.deadline.settle(answer)?.is_some() {
            return self.give_up("too late".into(), cx);
        }
        Ok(())
    }

    fn fetch_again(&mut self, cx: &mut Context) {
        self.attempt += 1;
        self.phase = Phase::Fetching;
        let fetch = Fetch { name: self.name.clone(), attempt: self.attempt };
        self.fetch = cx.effect(fetch).start();
    }

    fn fetched(&mut self, outcome: Outcome<Fetched>, cx: &mut Context) -> Result<(), Fault> {
        match outcome {
            Outcome::Ok(fetched) => {
                cx.emit(Ready { report_id: cx.key()?, text: fetched.text.clone() });
                self.end(Phase::Ready(fetched.text), cx);
                Ok(())
            }
            Outcome::Error(error) if !error.retryable => self.give_up(error.code, cx),
            _ => {
                self.pause(cx);
                Ok(())
            }
        }
    }

    fn pause(&mut self, cx: &mut Context) {
        let whole = PAUSE.doubled(self.attempt - 1, PAUSE_MAX).ns();
        let chance = cx.random_below(whole as u64 / 4 + 1) as i64;
        self.phase = Phase::Pausing;
        let until = cx.now() + Duration::from_ns(whole - chance);
        self.pause = cx.effect(timer::at(until)).start();
    }

    fn give_up(&mut self, why: String, cx: &mut Context) -> Result<(), Fault> {
        cx.emit(GivenUp { report_id: cx.key()?, why: why.clone(), attempts: self.attempt });
        self.end(Phase::GivenUp(why), cx);
        Ok(())
    }

    /// The handles are dropped: the answers to canceled requests are ignored.
    fn end(&mut self, phase: Phase, cx: &mut Context) {
        self.fetch.cancel(cx);
        self.pause.cancel(cx);
        self.deadline.cancel(cx);
        (self.fetch, self.pause, self.deadline) = Default::default();
        self.phase = phase;
        cx.status(Status::Completed);
    }
}
