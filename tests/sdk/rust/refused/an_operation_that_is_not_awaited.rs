// expect: `.await`
// only

#![no_std]
#![allow(dead_code)]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

async fn remind(cx: Cx) -> Result<(), FlowError> {
    cx.sleep("month", Duration::days(30)); // here
    Ok(())
}
