// expect: expected `Cancel`, found `Placed`
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[derive(Schema)]
#[schema("t/Cancel@1")]
struct Cancel {
    id: String,
}

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id"))]
async fn order(_: Cx, _: Cancel) -> Result<(), FlowError> { // here
    Ok(())
}
