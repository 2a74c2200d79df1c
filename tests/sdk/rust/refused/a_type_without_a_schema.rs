// first: add `#[derive(Schema)]` to `Item`, or use a type that AIR has: `Item` is not a type of AIR

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

struct Item {}

#[derive(Schema)]
struct Order {
    items: Vec<Item>, // here
}
