// first: a flow is `async fn order(cx: Cx, input: Input) -> Result<Output, FlowError>`
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id"))]
async fn order(_: Cx) -> Result<(), FlowError> { // here
    Ok(())
}
