// first: the type of the flow and its input are both called `Placed`: say `name = PlacedFlow`
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
async fn placed(_: Cx, _: Placed) -> Result<(), FlowError> { // here
    Ok(())
}
