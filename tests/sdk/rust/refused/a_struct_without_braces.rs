// expect: a record without fields is written `struct Nothing {}`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Nothing; // here
