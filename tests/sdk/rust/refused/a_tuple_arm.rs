// expect: an arm holds one value: name its parts

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
enum Shape {
    Dot(i64, i64), // here
}
