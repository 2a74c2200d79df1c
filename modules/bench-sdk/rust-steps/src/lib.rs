//! `bench/steps@1` with the Rust SDK: effects one after the other, each after the answer to the one
//! before. The annotation of a run's last step is its number.

#![no_std]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("bench/Begin@1")]
pub struct Begin {
    pub key: String,
    pub run: u64,
    pub steps: u64,
}

#[derive(Effect)]
#[effect("bench/noop@1", receipt = Done, executor = "noop", params = "bench/NoopParams@1")]
pub struct Noop {
    pub run: u64,
    pub step: u64,
}

#[derive(Schema)]
#[schema("bench/NoopReceipt@1")]
pub struct Done {
    pub step: u64,
}

#[derive(Schema)]
#[schema("bench/Finished@1")]
pub struct Finished(u64);

#[derive(Event)]
#[schema("bench/RunEvent@1")]
pub enum Event {
    Begin(Begin),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default)]
#[schema("bench/Run@1")]
pub struct Run {
    pub run: u64,
    pub steps: u64,
    pub step: u64,
    pub noop: Pending<Noop>,
}

#[workflow(
    "bench/steps@1",
    key = "bench/Key@1",
    effects(Noop),
    annotations = Finished,
    routes(Begin by "key"),
    module = "bench/steps.module@1"
)]
fn steps(state: &mut Run, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Begin(begin) => {
            (state.run, state.steps, state.step) = (begin.run, begin.steps, 0);
            state.next(cx);
        }
        Event::Receipt(receipt) => match state.noop.settle(&receipt)? {
            Some(Outcome::Ok(_)) => state.next(cx),
            Some(_) => return Err(never()),
            None => {}
        },
        Event::Rejected(_) => return Err(never()),
    }
    Ok(())
}

impl Run {
    fn next(&mut self, cx: &mut Context) {
        if self.step == self.steps {
            cx.annotate(Finished(self.run));
            cx.status(Status::Completed);
            return;
        }
        self.step += 1;
        self.noop = cx.effect(Noop { run: self.run, step: self.step }).start();
        cx.status(Status::Running);
    }
}

fn never() -> Fault {
    Fault::new("bench", "the executor of the benchmarks always says ok")
}
