// expect: `Done` is not a schema of the manifest: it has no name

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Done {}

#[derive(Effect)]
#[effect("t/work@1", receipt = Done, executor = "shop")] // here
struct Work {}
