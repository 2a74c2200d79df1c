// first: a flow has a key: say `key = "namespace/Name@1"`
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/order@1", start(Placed by "id"))] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
