// expect: unknown argument `renamed`: expected one of `rename`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    #[schema(renamed = "b")] // here
    a: u64,
}
