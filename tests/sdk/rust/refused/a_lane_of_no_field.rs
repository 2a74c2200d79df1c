// expect: the params have no field `order`, where this lane begins

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Done@1")]
struct Done {}

#[derive(Effect)]
#[effect("t/work@1", receipt = Done, executor = "shop", lane("sku", "order.id"))] // here
struct Work {
    sku: String,
}
