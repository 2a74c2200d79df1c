//! `bench/steps@1` as a flow: effects one after the other, each after the answer to the one before.
//! The annotation of a run's last step is its number.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

#[derive(Schema, Clone)]
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

#[flow(
    "bench/steps@1",
    key = "bench/Key@1",
    start(Begin by "key"),
    effects(Noop),
    annotations = Finished,
    module = "bench/flow-steps.module@1"
)]
async fn steps(cx: Cx, begin: Begin) -> Result<u64, FlowError> {
    for step in 1..=begin.steps {
        cx.step(&step.to_string(), Noop { run: begin.run, step }).await?;
    }
    cx.annotate(Finished(begin.run));
    Ok(begin.run)
}
