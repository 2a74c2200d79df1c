// expect: an arm of type () is written without a value

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Light@1")]
enum Light {
    Off(()),
}
