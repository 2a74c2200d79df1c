// expect: `Placed` is not an effect

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    id: String,
}

async fn count(cx: Cx, placed: Placed) -> Result<(), FlowError> {
    cx.step("place", placed).await?; // here
    Ok(())
}
