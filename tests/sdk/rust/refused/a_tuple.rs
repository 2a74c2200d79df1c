// expect: AIR has no tuples: name the fields

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Point(i64, i64); // here
