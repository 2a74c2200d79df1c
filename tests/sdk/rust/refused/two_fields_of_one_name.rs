// expect: two fields are called "a" in AIR

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    a: u64,
    #[schema(rename = "a")]
    b: u64, // here
}
