// expect: Cancel

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Cancel {
    id: String,
}

async fn count(cx: Cx) -> Result<(), FlowError> {
    cx.listen::<Cancel>("asked").await?; // here
    Ok(())
}
