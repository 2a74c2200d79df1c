// expect: mismatched types

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

async fn count(cx: Cx) -> Result<(), FlowError> {
    cx.race("first", [
        branch("one", async || Ok(1u64)),
        branch("other", async || Ok(true)), // here
    ])
    .await?;
    Ok(())
}
