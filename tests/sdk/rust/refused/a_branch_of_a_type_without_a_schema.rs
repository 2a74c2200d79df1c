// expect: add `#[derive(Schema)]` to `Parcel`

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

struct Parcel;

async fn count(cx: Cx) -> Result<(), FlowError> {
    cx.race("first", [branch("one", async || Ok(Parcel))]).await?; // here
    Ok(())
}
