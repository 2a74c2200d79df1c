//! Flows of other shapes than a row of steps: a long loop, a wide join, a long sleep.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::flow::branch;
use aos_sdk::prelude::*;

/// Starts a loop of `idle` iterations without an effect, then of `rounds` with one each.
#[derive(Schema, Clone)]
#[schema("bench/Repeat@1")]
pub struct Repeat {
    pub key: String,
    pub idle: u64,
    pub rounds: u64,
}

/// Starts a join of so many branches, with one effect in each.
#[derive(Schema, Clone)]
#[schema("bench/Spread@1")]
pub struct Spread {
    pub key: String,
    pub branches: u64,
}

/// Starts a sleep of `days` days. `item` is the number by which the benchmark recognizes it.
#[derive(Schema, Clone)]
#[schema("bench/Rest@1")]
pub struct Rest {
    pub key: String,
    pub item: u64,
    pub days: u64,
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

#[flow(
    "bench/repeat@1",
    key = "bench/Key@1",
    start(Repeat by "key"),
    effects(Noop),
    name = Repeats,
    module = "bench/flow-shapes.module@1"
)]
async fn repeat(cx: Cx, repeat: Repeat) -> Result<u64, FlowError> {
    let last = repeat.idle + repeat.rounds;
    cx.loop_("round", 0, async |round: u64| {
        let next = match round < repeat.idle {
            true => cx.local("idle", |_| round + 1).await?,
            false => cx.step("work", Noop { run: 0, step: round }).await?.step + 1,
        };
        Ok(match next < last {
            true => Loop::Continue(next),
            false => Loop::Break(next),
        })
    })
    .await
}

#[flow(
    "bench/spread@1",
    key = "bench/Key@1",
    start(Spread by "key"),
    effects(Noop),
    name = Spreads,
    module = "bench/flow-shapes.module@1"
)]
async fn spread(cx: Cx, spread: Spread) -> Result<u64, FlowError> {
    let branches = (0..spread.branches).map(|step| {
        branch(&step.to_string(), async move || {
            Ok(cx.step("work", Noop { run: 0, step }).await?.step)
        })
    });
    Ok(cx.join_all("parts", branches).await?.len() as u64)
}

#[flow(
    "bench/rest@1",
    key = "bench/Key@1",
    start(Rest by "key"),
    name = Rests,
    module = "bench/flow-shapes.module@1"
)]
async fn rest(cx: Cx, rest: Rest) -> Result<(), FlowError> {
    cx.sleep("rest", Duration::days(rest.days)).await
}
