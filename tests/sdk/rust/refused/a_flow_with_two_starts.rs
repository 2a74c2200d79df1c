// expect: expected one event: `start(Placed by "order_id")`
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

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id", Cancel by "id"))] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
