// first: add the effect to `effects(…)` of the workflow: its state has a handle of sys/timer.set@1

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Schema, Default)]
struct Inner {
    pauses: PendingSet<String, timer::Set>,
}

#[derive(Schema, Default)]
#[schema("t/State@1")]
struct State {
    all: Vec<Inner>,
}

#[workflow("t/w@1", key = "t/Id@1", effects(effect::Cancel), routes(Add by "id"))] // here
fn w(_state: &mut State, _add: Add, _cx: &mut Context) -> Result<(), Fault> {
    Ok(())
}
