// expect: `bool` cannot be the key of a map
// expect: keys are `u64`, `i64`, `String`, `Uuid` or `Hash`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Votes {
    votes: Map<bool, u64>, // here
}
