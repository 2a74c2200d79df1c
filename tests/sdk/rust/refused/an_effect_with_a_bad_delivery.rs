// expect: expected one of "at_least_once", "at_most_once"

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Done@1")]
struct Done {}

#[derive(Effect)]
#[effect("t/work@1", receipt = Done, executor = "shop", delivery = "once")] // here
struct Work {}
