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
#[schema("t/State@1")]
struct State {
    pause: Pending<timer::Set>,
}

#[workflow("t/w@1", key = "t/Id@1", routes(Add by "id"))] // here
fn w(state: &mut State, _add: Add, cx: &mut Context) -> Result<(), Fault> {
    state.pause = cx.effect(timer::after(cx, Duration::days(1))).start();
    Ok(())
}
