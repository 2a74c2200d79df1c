// first: a turn of a flow has 2 to 1024 effects
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id"), limits(effects = 2000))] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
