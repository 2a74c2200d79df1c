// expect: an event needs a name: `#[schema(

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Event)]
enum Event { // here
    Add(Add),
}
