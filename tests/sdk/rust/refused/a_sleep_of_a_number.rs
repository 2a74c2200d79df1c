// expect: mismatched types
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

async fn count(cx: Cx) -> Result<(), FlowError> {
    cx.sleep("pause", 5).await // here
}
