// expect: a schema has no parameters

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Pair<T> { // here
    one: T,
}
