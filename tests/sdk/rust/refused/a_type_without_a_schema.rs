// expect: `Item` is not a type of AIR
// expect: a type of your own needs `#[derive(Schema)]`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

struct Item {}

#[derive(Schema)]
struct Order {
    items: Vec<Item>, // here
}
