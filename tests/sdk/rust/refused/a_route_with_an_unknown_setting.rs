// expect: and `creates = false` after it for existing instances only

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

#[workflow("t/count@1", key = "t/Id@1", routes(Add by "id" creates = no))] // here
fn count(_: &mut State, _: Add, _: &mut Context) {}
