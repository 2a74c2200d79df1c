// expect: cycle

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Tree@1")]
struct Tree {
    branches: Vec<Tree>,
}
