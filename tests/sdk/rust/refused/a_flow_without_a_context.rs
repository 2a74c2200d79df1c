// expect: expected `&mut Context<'_>`, found `Cx`
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
async fn order(_: &mut Context<'_>, _: Placed) -> Result<(), FlowError> { // here
    Ok(())
}
