// first: use `Decimal`, or a whole number of a smaller unit such as cents: `f64` is not a type of AIR

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Item {
    price: f64, // here
}
