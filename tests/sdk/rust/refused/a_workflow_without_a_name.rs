// expect: expected `#[workflow("namespace/name@1", …)]`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema, Default)]
#[schema("t/State@1")]
struct State {}

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[workflow(key = "t/Id@1")] // here
fn count(_: &mut State, _: Add, _: &mut Context) {}
