// expect: mismatched types
// expect: expected `u64`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

const PATIENCE: Duration = Duration::seconds(0.5); // here
