// expect: "Item" is no name of AIR: expected "namespace/name@1"

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("Item")] // here
struct Item {}
