// expect: `Add` is not a schema of the manifest: it has no name

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Add {}

#[derive(Event)]
#[schema("t/Event@1")]
enum Event {
    Add(Add), // here
}
