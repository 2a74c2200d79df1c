#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema, Default)]
#[schema("t/State@1")]
struct State {
    pause: Pending<timer::Set>,
}

fn settled(state: &mut State, answer: &impl Continuation) -> Result<bool, Fault> {
    Ok(state.pause.settle(answer)?.is_some())
}

fn both(state: &mut State, receipt: Receipt, rejected: Rejected) -> Result<bool, Fault> {
    Ok(settled(state, &receipt)? || settled(state, &rejected)?)
}
