// expect: `State: Default` is not satisfied

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Schema)]
#[schema("t/State@1")]
struct State {}

#[workflow("t/count@1")]
fn count(_: &mut State, _: Add, _: &mut Context) {} // here
