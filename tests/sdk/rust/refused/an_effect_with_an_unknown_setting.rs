// expect: unknown argument `timeout`: expected one of

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Done@1")]
struct Done {}

#[derive(Effect)]
#[effect("t/work@1", receipt = Done, executor = "shop", timeout = 5)] // here
struct Work {}
