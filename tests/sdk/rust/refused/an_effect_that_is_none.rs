// expect: `Add` is not an effect
// expect: #[derive(Effect)]

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Add@1")]
struct Add {
    id: String,
}

fn ask(cx: &mut Context, add: Add) {
    cx.effect(add).forget(); // here
}
