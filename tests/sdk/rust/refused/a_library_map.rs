// first: use `aos_sdk::Map<K, V>`: `BTreeMap` is not a type of AIR

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

extern crate alloc;
use alloc::collections::BTreeMap;

#[derive(Schema)]
struct Stock {
    items: BTreeMap<String, u64>, // here
}
