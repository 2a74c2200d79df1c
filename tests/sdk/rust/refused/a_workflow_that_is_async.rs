// expect: a workflow is a plain function

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

#[workflow("t/count@1")]
async fn count(_: &mut State, _: Add, _: &mut Context) {} // here
