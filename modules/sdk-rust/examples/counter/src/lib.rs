//! `demo/counter@1`: counts, one cell for each counter.

#![no_std]

use aos_sdk::prelude::*;

/// A number to add to one counter.
#[derive(Schema)]
#[schema("demo/Add@1")]
pub struct Add {
    pub counter: String,
    pub by: u64,
}

#[derive(Schema, Default)]
#[schema("demo/CounterState@1")]
pub struct State {
    pub total: u64,
}

#[workflow("demo/counter@1", key = "demo/CounterId@1", routes(Add by "counter"))]
fn counter(state: &mut State, add: Add, cx: &mut Context) -> Result<(), Fault> {
    let Some(total) = state.total.checked_add(add.by) else {
        return Err(Fault::new("too_many", "the counter is full"));
    };
    log!(cx, "{} + {} = {total}", state.total, add.by);
    state.total = total;
    Ok(())
}
