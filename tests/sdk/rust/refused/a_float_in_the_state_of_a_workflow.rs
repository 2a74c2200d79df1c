// first: use `Decimal`, or a whole number of a smaller unit such as cents: `f32` is not a type of AIR
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

#[derive(Schema, Default)]
#[schema("t/State@1")]
struct State {
    prices: Map<String, Vec<f32>>, // here
}

#[workflow("t/w@1", key = "t/Id@1", routes(Add by "id"))]
fn w(_state: &mut State, _add: Add, _cx: &mut Context) -> Result<(), Fault> {
    Ok(())
}
