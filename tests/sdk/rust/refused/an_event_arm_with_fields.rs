// expect: an arm of an event holds one schema with a name

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Event)]
#[schema("t/Event@1")]
enum Event {
    Add { by: u64 }, // here
}
