// expect: `Parcel` is not a flow that others may call
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

#[flow("t/parcel@1", key = "t/ParcelId@1", start(Placed by "id"))]
async fn parcel(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}

#[flow("t/order@1", key = "t/Id@1", start(Placed by "id"), calls(Parcel))] // here
async fn order(_: Cx, _: Placed) -> Result<(), FlowError> {
    Ok(())
}
