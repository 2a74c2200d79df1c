// expect: `u32` is not a type of AIR
// expect: whole numbers are `u64` (nat) and `i64` (int)

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    quantity: u32, // here
}
