// expect: an event of several arms is an enum; one that is a record is `#[derive(Schema)]`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Event)]
#[schema("t/Event@1")]
struct Event {} // here
