// expect: `State` is not a schema of the manifest: it has no name

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Schema, Default)]
struct State {}

#[workflow("t/count@1")]
fn count(_: &mut State, _: Add, _: &mut Context) {} // here
