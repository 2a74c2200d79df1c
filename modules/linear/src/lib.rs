//! `aos/linear@1`: strictly linear step plans (`spec/linear.md`).
//!
//! An instance is a cell. Its state has the columns of the source's two tables: the instance, and
//! a row for each plan step, all inserted when it starts. Workers claim the current plan step, carry
//! it out elsewhere, and send its result. Each transition is a function of `instance.rs` with the
//! number that it has in the table of `spec/linear.md`.
//!
//! `aos/linear.bizkey@1` is a cell for each business key. It lets at most one running instance have
//! the key.
//!
//! Every step is annotated with `aos/LinearAnswer@1`: done, claimed, or refused with a reason. No
//! event of these schemas makes an instance fail by a fault, except a result with an outbound event
//! that does not fit the manifest: the front of a node refuses that first.

#![no_std]

extern crate alloc;

mod biz_key;
mod events;
mod instance;
mod limits;
mod state;

use aos_sdk::prelude::*;

use biz_key::{BizKey, BizKeyEvent};
use events::{
    Answer, Cancel, Claim, Extend, LinearResult, Released, Reserve, Reserved, Signal, Start,
};
use state::{Instance, InstanceEvent};

#[derive(Schema)]
#[schema("aos/LinearInstanceId@1")]
pub struct InstanceId(pub String);

#[derive(Schema)]
#[schema("aos/LinearBizKey@1")]
pub struct BizKeyId(pub String);

/// One run of a linear step plan. Workers claim its plan steps one after the other.
#[workflow(
    "aos/linear@1",
    key = "aos/LinearInstanceId@1",
    module = "aos/linear.module@1",
    annotations = Answer,
    lifecycle = "explicit",
    upgrade = "in_place",
    limits(state_bytes = 4194304, output_bytes = 8388608),
    effects(timer::Set),
    routes(
        Start by "instance",
        Reserved by "start.instance",
        Claim by "instance" creates = false,
        Extend by "instance" creates = false,
        LinearResult by "instance" creates = false,
        Signal by "instance" creates = false,
        Cancel by "instance" creates = false
    )
)]
fn linear(state: &mut Instance, event: InstanceEvent, cx: &mut Context) -> Result<(), Fault> {
    let answer = state.take(event, cx)?;
    cx.annotate(answer);
    Ok(())
}

/// The running instance of a business key. The cell exists while there is one.
#[workflow(
    "aos/linear.bizkey@1",
    key = "aos/LinearBizKey@1",
    module = "aos/linear.module@1",
    annotations = Answer,
    lifecycle = "explicit",
    upgrade = "in_place",
    limits(output_bytes = 8388608),
    routes(Reserve by "biz_key", Released by "biz_key" creates = false)
)]
fn bizkey(state: &mut BizKey, event: BizKeyEvent, cx: &mut Context) {
    let answer = state.take(event, cx);
    cx.annotate(answer);
}
