// expect: nothing is asked before `.await`
// only

#![no_std]
#![allow(dead_code)]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

async fn remind(cx: Cx) -> Result<(), FlowError> {
    cx.step("remind", timer::at(Time::from_ns(0))); // here
    Ok(())
}
