// expect: an arm of AIR has a name and no number

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
enum Light {
    Off = 1, // here
}
