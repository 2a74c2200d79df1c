// expect: `f64` is not a type of AIR
// expect: decimals are `Decimal`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    price: f64, // here
}
