// first: use `u64`: `u32` is not a type of AIR

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    quantity: u32, // here
}
