// expect: this error originates in the attribute macro `flow`
// expect: `Order` redefined here
// expect: previous definition of the type `Order` here
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Order@1")]
struct Order {
    id: String,
}

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id"))] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
