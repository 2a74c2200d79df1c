// expect: a variant has at least one arm

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
enum Never {} // here
