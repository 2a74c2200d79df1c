// expect: `()` is not an effect

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

async fn count(cx: Cx) -> Result<(), FlowError> {
    cx.step("set", timer::at(Time::from_ns(0))).rollback(|_| ()).await?; // here
    Ok(())
}
