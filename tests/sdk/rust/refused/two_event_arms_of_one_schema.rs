// expect: two arms of the event have the same schema: the kernel could not choose

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Event)]
#[schema("t/Event@1")]
enum Event {
    Add(Add),
    More(Add),
}
