// expect: `receipt = …` is missing

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Effect)]
#[effect("t/work@1", executor = "shop")] // here
struct Work {}
