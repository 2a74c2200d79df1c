// expect: the workflow has a key: say in which field of the event it is

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

#[workflow("t/count@1", key = "t/Id@1", routes(Add))] // here
fn count(_: &mut State, _: Add, _: &mut Context) {}
