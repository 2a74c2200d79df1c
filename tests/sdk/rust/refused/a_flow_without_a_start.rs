// first: a flow needs `start(Placed by "order_id")`, the event that starts a flow and is its input
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/order@1", key = "t/Id@1")] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
