// expect: a duration is at most 292 years

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

const PATIENCE: Duration = Duration::days(365_000); // here
