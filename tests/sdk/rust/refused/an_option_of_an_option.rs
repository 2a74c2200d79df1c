// expect: an option of an option, or of a type without a value, cannot be told from none

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Item@1")]
struct Item {
    note: Option<Option<String>>,
}
