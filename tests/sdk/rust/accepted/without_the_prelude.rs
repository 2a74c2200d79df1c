#![no_std]
#![deny(warnings)]

extern crate alloc;

/// Names of the author's own hide none that the macros use.
pub struct Vec;
pub struct Result;
pub struct Option;
pub struct String;

#[derive(aos_sdk::Schema)]
#[schema("t/Add@1")]
pub struct Add {
    pub by: u64,
    pub out: alloc::string::String,
    pub from: aos_sdk::Map<i64, bool>,
    pub r#type: (),
}

#[derive(aos_sdk::Schema, Default)]
#[schema("t/State@1")]
pub struct State {
    pub total: u64,
}

#[derive(aos_sdk::Event)]
#[schema("t/Event@1")]
pub enum Event {
    Add(Add),
    Receipt(aos_sdk::Receipt),
    Rejected(aos_sdk::Rejected),
    Frame(aos_sdk::StreamFrame),
}

#[aos_sdk::workflow(
    "t/count@1",
    effects(aos_sdk::timer::Set),
    routes(Add),
    limits(fuel = 1_000_000, keys = 64)
)]
pub fn count(state: &mut State, event: Event, _cx: &mut aos_sdk::Context) {
    if let Event::Add(add) = event {
        state.total += add.by;
    }
}
